#include "driver/show_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "codegen/host/host_codegen.h"
#include "codegen/nvptx/ptxas.h"
#include "driver/command.h"

namespace riffle::driver {
namespace {

using runtime::DeviceGrid;
using runtime::DeviceKernel;
using runtime::DeviceModule;

/// Both directions of a partition's code, through `render`.
template <typename Render>
std::string both_directions(Context& context, std::size_t partition, Render render) {
  Executable& executable = context.executable();
  std::string text = "forward\n" + render(jit::forward_module(executable, partition));
  if (const jit::CompiledGraph* backward = jit::backward_module(executable, partition))
    text += "\nbackward\n" + render(*backward);
  return text;
}

std::string spell(const std::uint32_t (&size)[3]) {
  if (size[2] != 1) return fmt::format("{}×{}×{}", size[0], size[1], size[2]);
  if (size[1] != 1) return fmt::format("{}×{}", size[0], size[1]);
  return std::to_string(size[0]);
}

/// One line a grid: what it launches, and what the assembler says of it.
std::string grid_table(const DeviceModule& module, const std::optional<std::string>& ptxas) {
  std::vector<codegen::PtxasKernel> assembled;
  if (ptxas) assembled = codegen::assemble(*ptxas, module.ptx, module.sm);
  std::string text =
      fmt::format("{:<40}  {:>12}  {:>8}  {:>9}", "grid", "blocks", "threads", "shared");
  text += ptxas ? fmt::format("  {:>9}  {:>6}\n", "registers", "spills") : "\n";
  for (const DeviceKernel& kernel : std::span(module.kernels, module.kernel_count))
    for (const DeviceGrid& grid : std::span(kernel.grids, kernel.grid_count)) {
      const auto found = std::ranges::find(assembled, grid.symbol, &codegen::PtxasKernel::symbol);
      const bool known = found != assembled.end();
      const std::uint32_t shared = grid.shared_bytes + (known ? found->shared_bytes : 0);
      text += fmt::format("{:<40}  {:>12}  {:>8}  {:>9}", grid.symbol, spell(grid.grid),
                          spell(grid.block), shared);
      text += known ? fmt::format("  {:>9}  {:>6}\n", found->registers,
                                  found->spill_store_bytes + found->spill_load_bytes)
                    : "\n";
    }
  if (!ptxas) text += "(registers and spills are ptxas's to say, which is not installed)\n";
  return text;
}

}  // namespace

std::string kernels_text(Context& context, std::size_t partition) {
  const std::optional<std::string> ptxas = codegen::find_ptxas();
  return both_directions(context, partition, [&](const jit::CompiledGraph& code) {
    std::string text = codegen::print(code.program);
    if (const DeviceModule* module = code.image.device) text += "\n" + grid_table(*module, ptxas);
    return text;
  });
}

std::string code_text(Context& context, std::size_t partition, const std::string& what) {
  const jit::CompilerOptions& options = jit::compiler(context.session()).options();
  if (what == "ptx" && !options.gpu)
    throw BackendAbsent({.what = "this session's device runs no PTX",
                         .hint = "device cuda or device cuda-emulated; here: show asm K"});
  return both_directions(context, partition, [&](const jit::CompiledGraph& code) -> std::string {
    if (code.program.kernels.empty()) return "(no kernels)\n";
    if (code.image.kernels.front().host_function) return "(the reference evaluator)\n";
    if (const DeviceModule* module = code.image.device) {
      if (what == "asm")
        throw UsageError(
            {.what = "the driver keeps a GPU's machine code to itself", .hint = "show ptx K"});
      if (what == "ptx") return module->ptx;
      return codegen::nvptx_text(code.program, *options.gpu, "riffle_").llvm_ir;
    }
    if (what == "ptx") return "(compiled for the host)\n";
    const codegen::HostText text = codegen::host_text(code.program, options.target, "riffle_");
    return what == "asm" ? text.assembly : text.llvm_ir;
  });
}

}  // namespace riffle::driver
