// Every op in every dtype becomes PTX that ptxas takes, for every GPU in the table; what makes the
// tuned kernels fast is in their text.
#include "codegen/nvptx/nvptx_codegen.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/kernel_spec.h"
#include "codegen/nvptx/ptxas.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "riffle/error.h"
#include "tests/support/op_samples.h"

namespace riffle::codegen {
namespace {

/// All samples of all ops that take `dtype`, in one graph.
ir::Graph graph_of_everything(DType dtype) {
  ir::Builder builder("everything");
  std::vector<ir::Value> results;
  int inputs = 0;
  for (const ir::OpInfo& op : ir::all_ops()) {
    const std::vector<DType> dtypes = test::tested_dtypes(op);
    if (std::ranges::find(dtypes, dtype) == dtypes.end()) continue;
    for (const ir::Sample& sample : test::samples_of(op)) {
      std::vector<ir::Value> values;
      for (const TensorType& type : test::operand_types(sample, dtype))
        values.push_back(builder.append_source(ir::Op::input, type, fmt::format("x{}", inputs++)));
      results.push_back(builder.append(op.op, values, sample.attrs));
    }
  }
  return ir::lower_to_primitives(builder.finish(results));
}

struct Case {
  DType dtype;
  int sm;
};

class NvptxEveryOp : public ::testing::TestWithParam<Case> {};

TEST_P(NvptxEveryOp, Assembles) {
  const auto [dtype, sm] = GetParam();
  const KernelProgram program = build_kernels(graph_of_everything(dtype));
  ASSERT_GT(program.kernels.size(), 10U);
  const std::string ptx = nvptx_text(program, nvptx_target(sm, 0), "p_").ptx;
  EXPECT_EQ(ptx.find(".ftz"), std::string::npos);
  for (const InstructionMix& mix : count_instructions(ptx)) EXPECT_EQ(mix.local, 0) << mix.symbol;
  const auto ptxas = find_ptxas();
  if (!ptxas) GTEST_SKIP() << "no ptxas in $PATH or /usr/local/cuda*/bin: not assembled";
  EXPECT_GE(assemble(*ptxas, ptx, sm).size(), program.kernels.size());
}

INSTANTIATE_TEST_SUITE_P(Nvptx, NvptxEveryOp,
                         ::testing::Values(Case{DType::f32, 75}, Case{DType::f32, 90},
                                           Case{DType::f64, 89}, Case{DType::bf16, 80},
                                           Case{DType::f16, 86}),
                         [](const auto& info) {
                           return fmt::format("{}_sm{}", name_of(info.param.dtype), info.param.sm);
                         });

// ---- tuned kernels -----------------------------------------------------------------------------

KernelProgram program_of(ir::Builder& builder, const std::vector<ir::Value>& results) {
  return build_kernels(ir::lower_to_primitives(builder.finish(results)));
}

struct Inspected {
  InstructionMix mix;
  int registers = -1;  ///< -1: not assembled
};

/// The only kernel of a program.
Inspected inspect(const KernelProgram& program, int sm = 80) {
  const std::string ptx = nvptx_text(program, nvptx_target(sm, 0), "t_").ptx;
  const auto mixes = count_instructions(ptx);
  EXPECT_EQ(mixes.size(), 1U);
  Inspected result{.mix = mixes.at(0)};
  if (const auto ptxas = find_ptxas()) {
    const PtxasKernel kernel = assemble(*ptxas, ptx, sm).at(0);
    EXPECT_EQ(kernel.spill_store_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
    result.registers = kernel.registers;
  }
  return result;
}

TEST(NvptxLoop, MovesSixteenBytesAtOnce) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    ir::Builder b("loop");
    const ir::Value x = b.append_source(ir::Op::input, {dtype, {1024, 1024}}, "x");
    const ir::Value y = b.append_source(ir::Op::input, {dtype, {1024}}, "y");
    const Inspected k =
        inspect(program_of(b, {b.append(ir::Op::relu, {b.append(ir::Op::add, {x, y})})}));
    EXPECT_EQ(k.mix.global_128, 3) << name_of(dtype);
    EXPECT_EQ(k.mix.global_other, 0) << name_of(dtype);
  }
}

TEST(NvptxRow, SoftmaxIsOneKernelWithoutSecondReads) {
  ir::Builder b("softmax");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {4096, 512}}, "x");
  const Inspected k = inspect(program_of(b, {b.append(ir::Op::softmax, {x})}));
  EXPECT_EQ(k.mix.global_128, 16);  // 512 elements, 16 threads, 4 at once, in and out
  EXPECT_EQ(k.mix.global_other, 0);
  EXPECT_EQ(k.mix.shuffles, 2 * 4 * 4);
}

TEST(NvptxMatmul, LargeTilesFillRegistersWithoutSpilling) {
  ir::Builder b("matmul");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {4096, 1024}}, "x");
  const ir::Value y = b.append_source(ir::Op::input, {DType::f32, {1024, 4096}}, "y");
  const Inspected k = inspect(program_of(b, {b.append(ir::Op::matmul, {x, y})}));
  EXPECT_EQ(k.mix.global_128, 2 * 2 + 16);
  EXPECT_EQ(k.mix.global_other, 0);
  EXPECT_EQ(k.mix.shared_other, 2 * 4);  // the transposed store of x's tile
  if (k.registers >= 0) {
    EXPECT_LE(k.registers, 128);  // two blocks of 256 threads a processor
    EXPECT_GE(k.registers, 80);
  }
}

}  // namespace
}  // namespace riffle::codegen
