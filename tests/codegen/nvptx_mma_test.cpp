// Matmuls on tensor cores: their text is what makes them fast, their numbers are near the
// reference's whatever the shape and the strides, and depend on neither strides nor luck.
#include "codegen/nvptx/matmul_mma.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bits.h"
#include "codegen/nvptx/ptxas.h"
#include "ir/array.h"
#include "ir/builder.h"
#include "ir/evaluator.h"
#include "ir/passes.h"
#include "nvptx_run.h"
#include "tests/support/random_graph.h"
#include "tests/support/tolerance.h"

namespace riffle::codegen {
namespace {

using testing::Gpu;

/// How a result or an operand lies.
enum class Lies { dense, transposed, shifted, spread };

struct Problem {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::bf16;  ///< f32 stands for tf32
  Lies a = Lies::dense, b = Lies::dense;
  bool bias_relu = false;
  bool store_transposed = false;
  bool from_bf16 = false;  ///< the operands are
};

NvptxTarget target_of(const Problem& p, int sm) {
  NvptxTarget target = nvptx_target(sm, 0);
  target.tf32 = p.dtype == DType::f32;
  return target;
}

MmaPlan plan_of(const Problem& p, const MatmulBody& body, int sm = 80) {
  const DType dtype = p.from_bf16 ? DType::bf16 : p.dtype;
  EXPECT_TRUE(suits_mma(body, dtype, dtype, target_of(p, sm)));
  return plan_mma(body, dtype, dtype, sm, false);
}

/// {batch, rows, columns}, read in place from an input that holds it as `lies` says.
ir::Value operand(ir::Builder& b, const Problem& p, Lies lies, std::int64_t rows,
                  std::int64_t columns, const std::string& name) {
  const auto input = [&](const Shape& shape) {
    const DType dtype = p.from_bf16 ? DType::bf16 : p.dtype;
    return b.cast(b.append_source(ir::Op::input, {dtype, shape}, name), p.dtype);
  };
  switch (lies) {
    case Lies::dense:
      break;
    case Lies::transposed:
      return b.transpose_last_two(input({p.batch, columns, rows}));
    case Lies::shifted:  // no row begins at a multiple of anything
      return b.append(ir::Op::slice, {input({p.batch, rows, columns + 1})},
                      {{"dim", std::int64_t{2}}, {"start", std::int64_t{1}}});
    case Lies::spread:  // rows of 16-byte pieces, the last one of which is in part another's
      return b.append(ir::Op::slice, {input({p.batch, rows, (columns + 23) / 8 * 8})},
                      {{"dim", std::int64_t{2}}, {"start", std::int64_t{8}}, {"end", 8 + columns}});
  }
  return input({p.batch, rows, columns});
}

ir::Graph graph_of(const Problem& p) {
  ir::Builder b("matmul");
  const ir::Value x = operand(b, p, p.a, p.m, p.k, "x"), y = operand(b, p, p.b, p.k, p.n, "y");
  ir::Value product = b.matmul(x, y);
  if (p.bias_relu) {
    const ir::Value bias = b.append_source(ir::Op::input, {p.dtype, {p.n}}, "bias");
    product = b.unary(ir::Op::relu, b.add(product, bias));
  }
  if (p.store_transposed) product = b.transpose_last_two(product);
  return ir::lower_to_primitives(b.finish({product}));
}

const MatmulBody& body_of(const KernelProgram& program) {
  EXPECT_EQ(program.kernels.size(), 1U);
  return std::get<MatmulBody>(program.kernels.at(0).body);
}

std::string describe(const Problem& p) {
  return fmt::format("{} {}×{}×{}, batch {}, a {}, b {}", name_of(p.dtype), p.m, p.n, p.k, p.batch,
                     static_cast<int>(p.a), static_cast<int>(p.b));
}

/// The result's bytes.
std::vector<std::byte> run(const KernelProgram& program, const std::vector<ir::Array>& arrays,
                           const NvptxTarget& target, std::uint64_t seed) {
  Gpu gpu(program, target);
  EXPECT_TRUE(gpu.warnings().empty()) << gpu.warnings().front();
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(arrays[k].type.bytes()));
    ir::array_to_bytes(arrays[k], bytes);
    gpu.upload(static_cast<std::size_t>(program.input_slots[k]), bytes);
  }
  gpu.run(0, seed);
  const auto slot = static_cast<std::size_t>(program.output_slots[0]);
  EXPECT_TRUE(gpu.initialised(slot));
  return {gpu.bytes(slot).begin(), gpu.bytes(slot).end()};
}

/// Near the reference; the same twice, threads in another order. Returns the plan.
MmaPlan check(const Problem& p, int sm = 80) {
  SCOPED_TRACE(describe(p));
  const ir::Graph graph = graph_of(p);
  const KernelProgram program = build_kernels(graph);
  const MatmulBody& body = body_of(program);
  const std::vector<ir::Array> arrays = test::random_arrays(graph, 3);
  const std::vector<std::byte> result = run(program, arrays, target_of(p, sm), 1);
  const ir::Array expected = ir::evaluate(graph, arrays).at(0);
  // tf32 has f16's significant bits; its results are not rounded to them.
  const DType rounded = p.dtype == DType::f32 ? DType::f16 : p.dtype;
  EXPECT_TRUE(test::close(ir::array_from_bytes(expected.type, result), expected,
                          test::tolerance(rounded, p.k)));
  EXPECT_EQ(run(program, arrays, target_of(p, sm), 2), result) << "differs from run to run";
  return plan_of(p, body, sm);
}

TEST(NvptxMma, ShapesWithTailsInEveryTransposition) {
  constexpr Lies both[] = {Lies::dense, Lies::transposed};
  for (const Problem& shape :
       {Problem{.m = 64, .n = 64, .k = 64}, Problem{.m = 40, .n = 72, .k = 48},
        Problem{.m = 37, .n = 83, .k = 51, .dtype = DType::f16},
        Problem{.m = 16, .n = 8, .k = 16, .dtype = DType::f16}, Problem{.m = 1, .n = 5, .k = 3},
        Problem{.m = 72, .n = 24, .k = 200, .bias_relu = true},
        Problem{.m = 24, .n = 40, .k = 32, .batch = 3, .bias_relu = true},
        Problem{.m = 40, .n = 56, .k = 24, .store_transposed = true}})
    for (Lies a : both)
      for (Lies b : both) {
        Problem p = shape;
        p.a = a, p.b = b;
        check(p);
      }
}

TEST(NvptxMma, OperandsThatDoNotLieInWholePieces) {
  for (Lies a : {Lies::dense, Lies::shifted, Lies::spread})
    for (Lies b : {Lies::transposed, Lies::shifted, Lies::spread}) {
      check({.m = 40, .n = 45, .k = 70, .a = a, .b = b});
      check({.m = 20, .n = 64, .k = 64, .batch = 2, .dtype = DType::f16, .a = a, .b = b});
    }
}

TEST(NvptxMma, EveryTile) {
  // As many blocks of each tile as fill the GPU; some of them with tails.
  struct Row {
    std::int64_t bm, bn, down, across;
  };
  for (const Row& row :
       {Row{128, 128, 9, 12}, Row{128, 64, 9, 12}, Row{64, 128, 9, 12}, Row{64, 64, 9, 12},
        Row{32, 64, 9, 12}, Row{64, 32, 5, 21}, Row{32, 32, 9, 12}}) {
    const bool large = row.bm * row.bn > 64 * 64;
    const MmaPlan plan = check({.m = row.bm * row.down - 3,
                                .n = row.bn * row.across - 16,
                                .k = large ? 40 : 136,
                                .a = row.bm == 64 ? Lies::transposed : Lies::dense,
                                .b = row.bn == 64 ? Lies::transposed : Lies::dense});
    EXPECT_EQ(plan.tile.bm, row.bm);
    EXPECT_EQ(plan.tile.bn, row.bn);
    if (HasFailure()) return;
  }
}

TEST(NvptxMma, FewElementsWithManyTermsAreSummedInParts) {
  EXPECT_EQ(check({.m = 24, .n = 40, .k = 1100, .bias_relu = true}).splits, 2);
  EXPECT_EQ(check({.m = 17, .n = 5, .k = 2000, .a = Lies::transposed}).splits, 3);
  EXPECT_EQ(check({.m = 8, .n = 16, .k = 1536, .batch = 2, .store_transposed = true}).splits, 3);
  const auto splits = [](const Problem& p) {
    return plan_of(p, body_of(build_kernels(graph_of(p)))).splits;
  };
  EXPECT_EQ(splits({.m = 64, .n = 64, .k = 65536}), 16);
  EXPECT_EQ(splits({.m = 1024, .n = 1024, .k = 65536}), 1);
}

/// What a cut changes: how the operands lie. What a session changes: the GPU.
TEST(NvptxMma, BitsDependNeitherOnStridesNorOnTheGpu) {
  for (const Problem& plain :
       {Problem{.m = 24, .n = 33, .k = 72}, Problem{.m = 24, .n = 33, .k = 1100},
        Problem{.m = 24, .n = 33, .k = 72, .dtype = DType::f32}}) {
    SCOPED_TRACE(describe(plain));
    const std::int64_t k = plain.k;
    const ir::Graph graph = graph_of(plain);
    const std::vector<ir::Array> arrays = test::random_arrays(graph, 4);
    const auto expected = run(build_kernels(graph), arrays, target_of(plain, 80), 1);
    EXPECT_EQ(run(build_kernels(graph), arrays, target_of(plain, 90), 1), expected);

    Problem other = plain;
    other.a = Lies::transposed, other.b = Lies::shifted;
    ir::Array x({plain.dtype, {1, k, plain.m}}), y({plain.dtype, {1, k, plain.n + 1}});
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t row = 0; row < plain.m; ++row)
        x.data[static_cast<std::size_t>(i * plain.m + row)] =
            arrays[0].data[static_cast<std::size_t>(row * k + i)];
      for (std::int64_t column = 0; column < plain.n; ++column)
        y.data[static_cast<std::size_t>(i * (plain.n + 1) + column + 1)] =
            arrays[1].data[static_cast<std::size_t>(i * plain.n + column)];
    }
    EXPECT_EQ(run(build_kernels(graph_of(other)), {x, y}, target_of(plain, 80), 1), expected);
  }
}

TEST(NvptxMma, F32AsTf32WhereAskedFor) {
  for (Lies a : {Lies::dense, Lies::transposed, Lies::shifted, Lies::spread})
    for (Lies b : {Lies::dense, Lies::transposed, Lies::shifted}) {
      check({.m = 40, .n = 45, .k = 70, .dtype = DType::f32, .a = a, .b = b, .bias_relu = true});
      check({.m = 64, .n = 32, .k = 64, .batch = 2, .dtype = DType::f32, .a = a, .b = b});
    }
  check({.m = 24, .n = 40, .k = 1100, .dtype = DType::f32, .store_transposed = true});
  EXPECT_EQ(
      check({.m = 1150, .n = 1528, .k = 24, .dtype = DType::f32, .a = Lies::transposed}).tile.bm,
      128);
}

/// The conversion may be another partition's: then the operands are f32.
TEST(NvptxMma, ConvertedOperandsGiveTheBitsOfF32Ones) {
  const Problem p{.m = 24, .n = 40, .k = 72, .dtype = DType::f32};
  Problem converted = p;
  converted.from_bf16 = true;
  const ir::Graph graph = graph_of(converted);
  std::vector<ir::Array> arrays = test::random_arrays(graph, 5);
  const auto result = run(build_kernels(graph), arrays, target_of(p, 80), 1);
  for (ir::Array& array : arrays) array.type.dtype = DType::f32;
  EXPECT_EQ(result, run(build_kernels(graph_of(p)), arrays, target_of(p, 80), 1));
}

TEST(NvptxMma, OtherMatmulsAreMultipliedAndAdded) {
  const auto suits = [](const Problem& p, int sm) {
    return suits_mma(body_of(build_kernels(graph_of(p))), p.dtype, p.dtype, nvptx_target(sm, 0));
  };
  EXPECT_TRUE(suits({.m = 64, .n = 64, .k = 64}, 80));
  EXPECT_FALSE(suits({.m = 64, .n = 64, .k = 64}, 75));
  EXPECT_FALSE(suits({.m = 64, .n = 64, .k = 64, .dtype = DType::f32}, 90));
  EXPECT_FALSE(suits({.m = 64, .n = 64, .k = 0}, 90));
}

class NvptxMmaText : public ::testing::TestWithParam<int> {};

TEST_P(NvptxMmaText, CopiesAsynchronouslyAndKeepsSumsInRegisters) {
  const int sm = GetParam();
  for (DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (Lies a : {Lies::dense, Lies::transposed})
      for (std::int64_t size : {4096, 1024, 512, 256}) {
        if (size != 4096 && dtype != DType::bf16) continue;
        const Problem p{.m = size,
                        .n = size,
                        .k = 1024,
                        .dtype = dtype,
                        .a = a,
                        .b = a,
                        .bias_relu = a == Lies::dense};
        SCOPED_TRACE(describe(p));
        const std::string ptx = nvptx_text(build_kernels(graph_of(p)), target_of(p, sm), "t_").ptx;
        const InstructionMix mix = count_instructions(ptx).at(0);
        EXPECT_GT(mix.mma, 0);
        EXPECT_GT(mix.async_copies, 0);
        EXPECT_GT(mix.shared_128, 0);
        if (dtype != DType::f32) {
          EXPECT_EQ(mix.shared_other, 0);  // f32 is transposed by plain loads
        }
        EXPECT_EQ(mix.local, 0);
        EXPECT_GT(mix.global_128, 0);
        EXPECT_EQ(mix.global_other, 0);
        const auto ptxas = find_ptxas();
        if (!ptxas) GTEST_SKIP() << "no ptxas in $PATH or /usr/local/cuda*/bin: not assembled";
        for (const PtxasKernel& kernel : assemble(*ptxas, ptx, sm)) {
          EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes, 0);
          EXPECT_EQ(kernel.stack_bytes, 0);
          EXPECT_LE(kernel.shared_bytes, 48 << 10);
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Nvptx, NvptxMmaText, ::testing::Values(80, 86, 89, 90),
                         [](const auto& info) { return fmt::format("sm{}", info.param); });

}  // namespace
}  // namespace riffle::codegen
