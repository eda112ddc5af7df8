// The host object of a GPU's partition: its table, its launch functions, and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/host/host_codegen.h"
#include "codegen/nvptx/nvptx_codegen.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "jit/compile_partition.h"
#include "refused.h"

namespace riffle::codegen {
namespace {

using testing::refused;

KernelProgram small_program() {
  ir::Builder b("small");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {8, 33}}, "x");
  const ir::Value w = b.append_source(ir::Op::param, {DType::f32, {33, 5}}, "w");
  KernelProgram program = build_kernels(ir::lower_to_primitives(
      b.finish({b.append(ir::Op::matmul, {b.append(ir::Op::softmax, {x}), w})})));
  KernelSpec nothing = program.kernels[0];
  nothing.name = "nothing";
  nothing.body = LoopBody{.space = {0, 4}};
  program.kernels.push_back(nothing);
  return program;
}

struct Call {
  void* function;
  unsigned grid[3], block[3], shared;
  void* stream;
  std::vector<void*> parameters;
};
std::vector<Call> g_calls;     // a LaunchGrid has no room for a context
std::size_t g_parameters = 0;  // how many to read
int g_result = 0;

int record(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
           unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
  EXPECT_EQ(extra, nullptr);
  Call call{function, {gx, gy, gz}, {bx, by, bz}, shared, stream, {}};
  for (std::size_t k = 0; k < g_parameters; ++k)
    call.parameters.push_back(*static_cast<void**>(parameters[k]));
  g_calls.push_back(std::move(call));
  return g_result;
}

void* fake(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

TEST(NvptxObject, HoldsTheTableAndLaunchesEveryGrid) {
  const KernelProgram program = small_program();
  const NvptxTarget target = nvptx_target(80, 0);
  const HostObject object = compile_nvptx(program, target, detect_host(), "p_");
  jit::Linker linker;
  const auto linked = linker.link(object, "test", jit::CodeTarget::device);
  ASSERT_NE(linked.device, nullptr);
  const runtime::DeviceModule& module = *linked.device;
  EXPECT_EQ(module.sm, 80);
  EXPECT_EQ(module.ptx_version, 70);
  EXPECT_EQ(std::strlen(module.ptx), static_cast<std::size_t>(module.ptx_bytes));
  const std::string ptx = module.ptx;
  EXPECT_NE(ptx.find(".target sm_80"), std::string::npos);
  EXPECT_NE(ptx.find(".version 7.0"), std::string::npos);
  ASSERT_EQ(module.kernel_count, static_cast<std::int64_t>(program.kernels.size()));
  ASSERT_EQ(object.entries.size(), program.kernels.size());

  std::int64_t grids = 0, without = 0;
  for (std::int64_t k = 0; k < module.kernel_count; ++k) {
    const runtime::DeviceKernel& kernel = module.kernels[k];
    const KernelSpec& spec = program.kernels[static_cast<std::size_t>(k)];
    EXPECT_EQ(kernel.name, spec.name);
    ASSERT_EQ(kernel.operand_count, static_cast<std::int64_t>(spec.operands.size()));
    std::vector<void*> functions, operands;
    for (std::int64_t g = 0; g < kernel.grid_count; ++g) {
      EXPECT_NE(ptx.find(std::string(".entry ") + kernel.grids[g].symbol + "("), std::string::npos);
      functions.push_back(fake(0x1000 + static_cast<std::uintptr_t>(g)));
    }
    for (std::int64_t i = 0; i < kernel.operand_count; ++i)
      operands.push_back(fake(0x2000 + static_cast<std::uintptr_t>(i)));
    g_parameters = operands.size() + 2;
    g_calls.clear();
    g_result = 0;
    auto launch = [&] {
      return kernel.launch(&record, functions.data(), operands.data(), fake(0x3000), fake(0x4000),
                           fake(0x5000));
    };
    EXPECT_EQ(launch(), 0);
    ASSERT_EQ(g_calls.size(), functions.size());
    for (std::size_t g = 0; g < g_calls.size(); ++g) {
      const Call& call = g_calls[g];
      EXPECT_EQ(call.function, functions[g]);
      EXPECT_EQ(std::memcmp(call.grid, kernel.grids[g].grid, sizeof call.grid), 0);
      EXPECT_EQ(std::memcmp(call.block, kernel.grids[g].block, sizeof call.block), 0);
      EXPECT_EQ(call.shared, kernel.grids[g].shared_bytes);
      EXPECT_EQ(call.stream, fake(0x5000));
      std::vector<void*> expected = operands;
      expected.insert(expected.end(), {fake(0x3000), fake(0x4000)});
      EXPECT_EQ(call.parameters, expected);
    }
    grids += kernel.grid_count;
    without += kernel.grid_count == 0;

    g_calls.clear();
    g_result = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS: the first failure ends the launch
    EXPECT_EQ(launch(), functions.empty() ? 0 : 700);
    EXPECT_EQ(g_calls.size(), functions.empty() ? 0U : 1U);
  }
  EXPECT_GE(grids, 2);
  EXPECT_EQ(without, 1);  // the kernel on no elements
}

TEST(NvptxObject, RefusesUnknownTargets) {
  const KernelProgram program = small_program();
  auto message = [&](NvptxTarget target) {
    return refused([&] { nvptx_text(program, target, "p_"); });
  };
  EXPECT_NE(message({.sm = 71, .ptx = 70}).find("sm_71"), std::string::npos);
  EXPECT_NE(message({.sm = 100, .ptx = 85}).find("sm_100"), std::string::npos);
  EXPECT_NE(message({.sm = 90, .ptx = 70}).find("7.8"), std::string::npos);
  EXPECT_NE(message({.sm = 80, .ptx = 99}).find("9.9"), std::string::npos);
  EXPECT_NE(message({.sm = 80, .ptx = 70, .opt_level = 4}).find("4"), std::string::npos);
}

TEST(NvptxObject, ChoosesTheTargetFromGpuAndDriver) {
  EXPECT_EQ(nvptx_target(75, 0).sm, 75);
  EXPECT_EQ(nvptx_target(120, 13000).sm, 90);  // newer than LLVM: the driver translates
  EXPECT_EQ(nvptx_target(90, 11000).sm, 80);   // what a driver of CUDA 11.0 accepts
  EXPECT_EQ(nvptx_target(88, 0).sm, 87);
  EXPECT_NE(refused([] { nvptx_target(70, 0); }).find("sm_70"), std::string::npos);
  const std::string old = refused([] { nvptx_target(80, 9020); });
  EXPECT_NE(old.find("sm_80"), std::string::npos);
  EXPECT_NE(old.find("9.2"), std::string::npos);
}

}  // namespace
}  // namespace riffle::codegen
