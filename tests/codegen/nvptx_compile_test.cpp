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
#include "tests/support/golden.h"
#include "tests/support/op_samples.h"
#include "tests/support/sanitizer.h"

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
  if (test::kSanitized) GTEST_SKIP() << "what another program says of the text is the same there";
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

TEST(NvptxLoop, TransposesThroughSharedMemory) {
  ir::Builder b("transpose");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {512, 1024}}, "x");
  const ir::Value y = b.append_source(ir::Op::input, {DType::f32, {1024, 512}}, "y");
  const Inspected k = inspect(program_of(b, {b.append(ir::Op::add, {b.transpose_last_two(x), y})}));
  EXPECT_EQ(k.mix.shared_other, 8);
  EXPECT_EQ(k.mix.barriers, 1);
}

TEST(NvptxRow, FewLongRowsAreSharedByABlock) {
  ir::Builder b("long");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {16, 4096}}, "x");
  const Inspected k = inspect(program_of(b, {b.append(ir::Op::softmax, {x})}));
  EXPECT_EQ(k.mix.global_128, 8);  // 256 threads, 4 at once, in and out: read once
  EXPECT_GT(k.mix.barriers, 2);
  EXPECT_EQ(k.mix.shuffles, 2 * 5);
}

TEST(NvptxRow, SoftmaxIsOneKernelWithoutSecondReads) {
  ir::Builder b("softmax");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {4096, 512}}, "x");
  const Inspected k = inspect(program_of(b, {b.append(ir::Op::softmax, {x})}));
  EXPECT_EQ(k.mix.global_128, 16);  // 512 elements, 16 threads, 4 at once, in and out
  EXPECT_EQ(k.mix.global_other, 0);
  EXPECT_EQ(k.mix.shuffles, 2 * 4 * 4);
}

TEST(NvptxScatter, AnEmbeddingsGradientIsSearchedByWarps) {
  ir::Builder b("scatter");
  const ir::Value base = b.append_source(ir::Op::input, {DType::f32, {5000, 512}}, "base");
  ir::Value index = b.append_source(ir::Op::input, {DType::i64, {2048, 1}}, "index");
  index = b.append(ir::Op::expand, {index}, {{"size", ir::Ints{2048, 512}}});
  const ir::Value source = b.append_source(ir::Op::input, {DType::f32, {2048, 512}}, "source");
  const KernelProgram program = program_of(
      b, {b.append(ir::Op::scatter_add, {base, index, source}, {{"dim", std::int64_t{0}}})});
  const std::string ptx = nvptx_text(program, nvptx_target(80, 0), "t_").ptx;
  EXPECT_NE(ptx.find("vote.sync.ballot"), std::string::npos);
  const Inspected k = inspect(program);
  EXPECT_EQ(k.mix.global_128, 1 + 4 + 1);  // the base, a source for each ballot, the result
}

TEST(NvptxText, IsGolden) {
  auto text = [](ir::Builder& b, ir::Value result) {
    return nvptx_text(program_of(b, {result}), nvptx_target(80, 0), "t_").ptx;
  };
  ir::Builder add("add"), sum("sum");
  const ir::Value x = add.append_source(ir::Op::input, {DType::f32, {1024, 256}}, "x");
  test::expect_golden(text(add, add.append(ir::Op::add, {x, x})), "codegen/golden/nvptx_add.ptx");
  const ir::Value y = sum.append_source(ir::Op::input, {DType::f32, {3, 100}}, "y");
  test::expect_golden(text(sum, sum.sum(y, {1})), "codegen/golden/nvptx_sum.ptx");
}

TEST(NvptxCompile, AnErrorNamesKernelAndNode) {
  KernelProgram program;
  program.slots = {{{DType::boolean, {4, 4}}, "x"}, {{DType::boolean, {4, 4}}, "y"}};
  KernelSpec kernel;
  kernel.name = "k0_matmul";
  kernel.origin = {"product"};
  kernel.operands = {{0, Access::read}, {1, Access::write}};
  MatmulBody body;
  body.dtype = DType::boolean;
  body.m = body.n = body.k = 4;
  body.a = body.b = {.operand = 0, .batch_strides = {}, .row_stride = 4, .column_stride = 1};
  kernel.body = body;
  program.kernels = {kernel};
  try {
    nvptx_text(program, nvptx_target(80, 0), "t_");
    FAIL() << "no error";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.where(), "kernel k0_matmul (%product)");
    EXPECT_NE(std::string(error.what()).find("booleans"), std::string::npos);
  }
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
