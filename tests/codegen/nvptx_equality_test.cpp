// A GPU's kernels, executed by the emulator, equal the interpreter bit for bit: every op, dtype and
// sample; random graphs; shapes that reach every way of cutting a kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bits.h"
#include "codegen/kernel_interpreter.h"
#include "ir/array.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "nvptx_run.h"
#include "tests/support/op_samples.h"
#include "tests/support/random_graph.h"

namespace riffle::codegen {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;
using testing::Gpu;
using testing::same;

/// Runs the program kernel by kernel on both, from the same memory.
void expect_equal(const KernelProgram& program, const std::vector<ir::Array>& arrays, int sm = 80) {
  verify(program);
  Gpu gpu(program, nvptx_target(sm, 0));
  EXPECT_TRUE(gpu.warnings().empty()) << gpu.warnings().front();
  Bytes expected;
  for (const Slot& slot : program.slots)
    expected.emplace_back(static_cast<std::size_t>(slot.type.bytes()));
  std::vector<std::int32_t> given = program.input_slots;
  given.insert(given.end(), program.parameter_slots.begin(), program.parameter_slots.end());
  ASSERT_EQ(given.size(), arrays.size());
  for (std::size_t k = 0; k < given.size(); ++k) {
    const auto slot = static_cast<std::size_t>(given[k]);
    ir::array_to_bytes(arrays[k], expected[slot]);
    gpu.upload(slot, expected[slot]);
  }
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const KernelSpec& kernel = program.kernels[k];
    std::vector<std::byte*> operands;
    for (const KernelOperand& operand : kernel.operands)
      operands.push_back(expected[static_cast<std::size_t>(operand.slot)].data());
    runtime::KernelStatus status;
    interpret(program, kernel, operands, status);
    gpu.clear_status();
    try {
      gpu.run(k, k + 1);
    } catch (const std::exception& error) {
      FAIL() << error.what() << '\n' << print(kernel);
    }
    EXPECT_EQ(gpu.status().code, status.code) << print(kernel);
    for (const KernelOperand& operand : kernel.operands) {
      if (operand.access == Access::read) continue;
      const auto slot = static_cast<std::size_t>(operand.slot);
      // A slot may be written by several kernels: the others' parts are still to come.
      if (!gpu.initialised(slot)) continue;
      ASSERT_TRUE(same(program.slots[slot], gpu.bytes(slot), expected[slot])) << print(kernel);
    }
  }
  for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
    EXPECT_TRUE(gpu.initialised(slot)) << program.slots[slot].name;
    ASSERT_TRUE(same(program.slots[slot], gpu.bytes(slot), expected[slot]));
  }
}

void expect_equal(const ir::Graph& graph, std::uint64_t seed, bool fuse = true, int sm = 80) {
  const ir::Graph primitives = ir::lower_to_primitives(graph);
  SCOPED_TRACE(ir::print(primitives));
  expect_equal(build_kernels(primitives, {.fuse = fuse}), test::random_arrays(primitives, seed),
               sm);
}

class NvptxEveryOpRuns : public ::testing::TestWithParam<DType> {};

TEST_P(NvptxEveryOpRuns, EqualsTheInterpreter) {
  const DType dtype = GetParam();
  ir::Builder builder("everything");
  std::vector<ir::Value> results;
  std::vector<ir::Array> arrays;
  test::Random random(static_cast<std::uint64_t>(dtype) + 7);
  for (const ir::OpInfo& op : ir::all_ops()) {
    const std::vector<DType> dtypes = test::tested_dtypes(op);
    if (std::ranges::find(dtypes, dtype) == dtypes.end()) continue;
    for (const ir::Sample& sample : test::samples_of(op)) {
      std::vector<ir::Value> values;
      for (ir::Array& array : test::random_operands(sample, dtype, random)) {
        values.push_back(
            builder.append_source(ir::Op::input, array.type, fmt::format("x{}", arrays.size())));
        arrays.push_back(std::move(array));
      }
      results.push_back(builder.append(op.op, values, sample.attrs));
    }
  }
  const ir::Graph primitives = ir::lower_to_primitives(builder.finish(results));
  expect_equal(build_kernels(primitives), arrays, dtype == DType::f32 ? 75 : 80);
}

INSTANTIATE_TEST_SUITE_P(Nvptx, NvptxEveryOpRuns,
                         ::testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(NvptxEquality, RandomGraphs) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    expect_equal(test::random_graph(seed), seed, seed % 4 != 3);
    if (HasFatalFailure()) return;
  }
}

ir::Value input(ir::Builder& b, const TensorType& type, const std::string& name) {
  return b.append_source(ir::Op::input, type, name);
}

TEST(NvptxEquality, LoopsWithVectorsTailsAndRows) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    ir::Builder b("loops");
    std::vector<ir::Value> results;
    int n = 0;
    const ir::Value t = input(b, {dtype, {3, 70, 45}}, "t"),
                    u = input(b, {dtype, {3, 45, 70}}, "u");
    results.push_back(b.append(ir::Op::mul, {b.transpose_last_two(t), u}));
    for (const Shape& shape : {Shape{40000}, Shape{40001}, Shape{300, 128}, Shape{130, 257}}) {
      const ir::Value x = input(b, {dtype, shape}, fmt::format("x{}", n));
      const ir::Value y = input(b, {dtype, {shape.back()}}, fmt::format("y{}", n++));
      results.push_back(b.append(ir::Op::relu, {b.append(ir::Op::add, {x, y})}));
      if (shape.size() == 2) results.push_back(b.append(ir::Op::exp, {b.transpose_last_two(x)}));
    }
    expect_equal(b.finish(results), 1);
    if (HasFatalFailure()) return;
  }
}

TEST(NvptxEquality, RowsOfEveryLength) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    ir::Builder b("rows");
    std::vector<ir::Value> results;
    int n = 0;
    for (auto [rows, length] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                {3, 5},
                                {9, 33},
                                {7, 64},
                                {5, 100},
                                {17, 128},
                                {3, 1000},
                                {2, 1024},
                                {6, 2500},
                                {2, 1999},
                                {1, 9000},
                                {1, 20001},
                                {3, 17408}}) {
      const ir::Value x = input(b, {dtype, {rows, length}}, fmt::format("x{}", n++));
      results.push_back(b.append(ir::Op::softmax, {x}));
      results.push_back(b.sum(x, {1}));
      results.push_back(b.append(ir::Op::argmax, {x}, {{"dim", std::int64_t{1}}}));
    }
    expect_equal(b.finish(results), 2);
    if (HasFatalFailure()) return;
  }
}

TEST(NvptxEquality, LongColumnsAndComposites) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    ir::Builder b("long");
    std::vector<ir::Value> results;
    const ir::Value x = input(b, {dtype, {700, 36}}, "x"), y = input(b, {dtype, {3, 131, 33}}, "y");
    const ir::Value z = input(b, {dtype, {2, 3000}}, "z"), w = input(b, {dtype, {3000}}, "w");
    results.push_back(b.sum(x, {0}));
    results.push_back(b.sum(y, {1}));
    results.push_back(b.append(ir::Op::argmax, {y}, {{"dim", std::int64_t{1}}}));
    results.push_back(b.append(ir::Op::softmax, {x}, {{"dim", std::int64_t{0}}}));
    results.push_back(b.append(ir::Op::layer_norm, {z, w}, {{"normalized_shape", ir::Ints{3000}}}));
    results.push_back(b.append(ir::Op::argmax, {z}, {{"dim", std::int64_t{1}}}));
    results.push_back(b.append(ir::Op::amax, {z}, {{"dim", ir::Ints{1}}}));
    expect_equal(b.finish(results), 8);
    if (HasFatalFailure()) return;
  }
}

TEST(NvptxEquality, ColumnsAndReductionsOverSeveralDimensions) {
  for (DType dtype : {DType::f32, DType::f16}) {
    ir::Builder b("columns");
    std::vector<ir::Value> results;
    const ir::Value x = input(b, {dtype, {70, 200}}, "x"),
                    y = input(b, {dtype, {6, 10, 7, 11}}, "y");
    const ir::Value z = input(b, {dtype, {4, 3, 64}}, "z");
    for (const ir::Ints& dims : {ir::Ints{0}, ir::Ints{1}, ir::Ints{0, 1}})
      results.push_back(b.sum(x, dims));
    for (const ir::Ints& dims : {ir::Ints{0}, ir::Ints{1, 2}, ir::Ints{0, 2, 3}, ir::Ints{1, 3}})
      results.push_back(b.sum(y, dims));
    for (const ir::Ints& dims : {ir::Ints{0, 2}, ir::Ints{0, 1}}) results.push_back(b.sum(z, dims));
    expect_equal(b.finish(results), 3);
    if (HasFatalFailure()) return;
  }
}

TEST(NvptxEquality, ScattersBothWays) {
  // Few elements are searched, many are walked; indices repeat; some inner dimensions are vectors.
  for (DType dtype : {DType::f32, DType::bf16}) {
    ir::Builder b("scatter");
    std::vector<ir::Value> results;
    int n = 0;
    auto scatter = [&](const Shape& out, const Shape& space, std::int64_t dim, bool expanded) {
      const ir::Value base = input(b, {dtype, out}, fmt::format("base{}", n));
      ir::Value index;
      if (expanded) {
        index = input(b, {DType::i64, {space[0], 1}}, fmt::format("index{}", n));
        index = b.append(ir::Op::expand, {index}, {{"size", ir::Ints(space.begin(), space.end())}});
      } else {
        index = input(b, {DType::i64, space}, fmt::format("index{}", n));
      }
      const ir::Value source = input(b, {dtype, space}, fmt::format("source{}", n++));
      results.push_back(b.append(ir::Op::scatter_add, {base, index, source}, {{"dim", dim}}));
    };
    scatter({20, 64}, {50, 64}, 0, true);
    scatter({30, 300}, {200, 300}, 0, true);
    scatter({9, 7}, {128, 7}, 0, true);
    scatter({20, 6}, {50, 6}, 0, false);
    scatter({7, 9}, {7, 4}, 1, false);
    scatter({5, 8}, {3, 6}, 0, false);
    scatter({300, 4000}, {40, 2}, 0, false);
    scatter({100}, {31}, 0, false);
    expect_equal(b.finish(results), 4);
    if (HasFatalFailure()) return;
  }
}

TEST(NvptxEquality, AScatterIntoManyElementsIsWalked) {
  ir::Builder b("walk");
  const ir::Value base = input(b, {DType::bf16, {2, 2000000}}, "base");
  const ir::Value index = input(b, {DType::i64, {2, 5}}, "index");
  const ir::Value source = input(b, {DType::bf16, {2, 5}}, "source");
  expect_equal(
      b.finish({b.append(ir::Op::scatter_add, {base, index, source}, {{"dim", std::int64_t{1}}})}),
      6);
}

TEST(NvptxEquality, ReportsTheIndexThatIsOutOfRange) {
  for (const auto& [out, space] : {std::pair{Shape{4, 64}, Shape{40, 64}}, {{4, 3}, {6, 3}}}) {
    ir::Builder b("bad");
    const ir::Value base = input(b, {DType::f32, out}, "base");
    ir::Value index = input(b, {DType::i64, {space[0], 1}}, "index");
    index = b.append(ir::Op::expand, {index}, {{"size", ir::Ints(space.begin(), space.end())}});
    const ir::Value source = input(b, {DType::f32, space}, "source");
    const ir::Graph graph = ir::lower_to_primitives(b.finish(
        {b.append(ir::Op::scatter_add, {base, index, source}, {{"dim", std::int64_t{0}}})}));
    const KernelProgram program = build_kernels(graph);
    std::vector<ir::Array> arrays = test::random_arrays(graph, 9);
    std::ranges::fill(arrays[1].data, 2.0);
    arrays[1].data[3] = 4;  // rows are 0 … 3
    expect_equal(program, arrays);
    Gpu gpu(program, nvptx_target(80, 0));
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(arrays[k].type.bytes()));
      ir::array_to_bytes(arrays[k], bytes);
      gpu.upload(static_cast<std::size_t>(program.input_slots[k]), bytes);
    }
    gpu.run(0);
    EXPECT_EQ(gpu.status().code, runtime::kIndexOutOfRange);
    EXPECT_EQ(gpu.status().value, 4);
    EXPECT_EQ(gpu.status().limit, 4);
  }
}

TEST(NvptxEquality, IntegerMatmuls) {
  for (DType dtype : {DType::i32, DType::i64}) {
    KernelProgram program;
    program.slots = {{{dtype, {20, 37}}, "a"}, {{dtype, {37, 18}}, "b"}, {{dtype, {20, 18}}, "c"}};
    program.input_slots = {0, 1};
    program.output_slots = {2};
    MatmulBody body;
    body.dtype = dtype;
    body.m = 20, body.n = 18, body.k = 37;
    body.a = {.operand = 0, .batch_strides = {}, .row_stride = 37, .column_stride = 1};
    body.b = {.operand = 1, .batch_strides = {}, .row_stride = 18, .column_stride = 1};
    Expr product;
    product.kind = Expr::Kind::carried;
    product.dtype = dtype;
    product.carried = 0;
    body.epilogue = {product};
    body.stores = {{.operand = 2, .address = {0, {18, 1}}, .value = 0}};
    KernelSpec kernel;
    kernel.name = "k0_matmul";
    kernel.operands = {{0, Access::read}, {1, Access::read}, {2, Access::write}};
    kernel.body = body;
    program.kernels = {kernel};
    test::Random random(3);
    std::vector<ir::Array> arrays;
    for (std::size_t s = 0; s < 2; ++s) {
      arrays.emplace_back(program.slots[s].type);
      for (double& x : arrays.back().data) x = static_cast<double>(random.below(1 << 20) - 500000);
    }
    expect_equal(program, arrays);
  }
}

TEST(NvptxEquality, MatmulsOfEveryTile) {
  struct Shapes {
    std::int64_t batch, m, n, k;
  };
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const Shapes& s : {Shapes{1, 3, 5, 4},
                            {2, 16, 16, 32},
                            {1, 33, 70, 65},
                            {1, 128, 64, 40},
                            {3, 1, 100, 7},
                            {1, 65, 1, 129}}) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        ir::Builder b("matmul");
        const bool tx = transposed & 1, ty = transposed & 2;
        ir::Value x = input(b, {dtype, {s.batch, tx ? s.k : s.m, tx ? s.m : s.k}}, "x");
        ir::Value y = input(b, {dtype, {s.batch, ty ? s.n : s.k, ty ? s.k : s.n}}, "y");
        if (tx) x = b.transpose_last_two(x);
        if (ty) y = b.transpose_last_two(y);
        const ir::Value bias = input(b, {dtype, {s.n}}, "bias");
        const ir::Value product = b.append(ir::Op::matmul, {x, y});
        expect_equal(b.finish({b.append(ir::Op::relu, {b.append(ir::Op::add, {product, bias})})}),
                     5);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace riffle::codegen
