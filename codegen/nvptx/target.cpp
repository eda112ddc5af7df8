#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/nvptx/target.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

/// The lowest PTX ISA version that knows a GPU, and the driver (CUDA version as cuDriverGetVersion
/// gives it) from which on that PTX is accepted. Sources: the PTX ISA's target table and its
/// release notes. LLVM 19 knows no PTX beyond 8.5 and no GPU beyond sm_90a.
struct Row {
  int sm, ptx, driver;
};
constexpr std::array kRows = {
    Row{75, 63, 10000}, Row{80, 70, 11000}, Row{86, 71, 11010},
    Row{87, 74, 11040}, Row{89, 78, 11080}, Row{90, 78, 11080},
};

constexpr int kNewestPtx = 85;  ///< that LLVM 19 writes

}  // namespace

NvptxTarget nvptx_target(int sm, int driver_version) {
  const Row* best = nullptr;
  for (const Row& row : kRows)
    if (row.sm <= sm && (driver_version == 0 || row.driver <= driver_version)) best = &row;
  if (sm < kRows.front().sm)
    throw CompileError({.what = fmt::format("sm_{} is older than sm_{}, the oldest GPU that "
                                            "kernels are made for",
                                            sm, kRows.front().sm),
                        .hint = "device cpu"});
  if (!best)
    throw CompileError(
        {.what = fmt::format(
             "sm_{} needs PTX {}.{} and with it CUDA {}.{}; the driver offers {}.{}", sm,
             kRows.front().ptx / 10, kRows.front().ptx % 10, kRows.front().driver / 1000,
             kRows.front().driver % 1000 / 10, driver_version / 1000, driver_version % 1000 / 10),
         .hint = "a newer driver"});
  return {.sm = best->sm, .ptx = best->ptx};
}

std::string to_string(const NvptxTarget& target) {
  return fmt::format("nvptx64 sm_{} ptx{} O{}{}", target.sm, target.ptx, target.opt_level,
                     target.tf32 ? " tf32" : "");
}

CodeTarget code_target(const NvptxTarget& target) {
  const auto row = std::ranges::find(kRows, target.sm, &Row::sm);
  if (row == kRows.end())
    throw CompileError({.what = fmt::format("no code is made for sm_{}", target.sm),
                        .where = "GPU target",
                        .hint = "nvptx_target names one that is"});
  if (target.ptx < row->ptx || target.ptx > kNewestPtx)
    throw CompileError({.what = fmt::format("sm_{} needs PTX {}.{} to {}.{}, not {}.{}", target.sm,
                                            row->ptx / 10, row->ptx % 10, kNewestPtx / 10,
                                            kNewestPtx % 10, target.ptx / 10, target.ptx % 10),
                        .where = "GPU target"});
  if (target.opt_level < 0 || target.opt_level > 3)
    throw CompileError({.what = fmt::format("optimisation level {} is not 0 … 3", target.opt_level),
                        .where = "GPU target"});
  return {.triple = "nvptx64-nvidia-cuda",
          .cpu = fmt::format("sm_{}", target.sm),
          .features = fmt::format("+ptx{}", target.ptx),
          .opt_level = target.opt_level,
          .is_device = true,
          .sanitizer = {}};
}

}  // namespace riffle::codegen
