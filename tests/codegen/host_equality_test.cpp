// Compiled kernels equal the interpreter bit for bit: every op, dtype and sample; random graphs;
// tasks divided in any way, on any number of threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "bits.h"
#include "codegen/kernel_interpreter.h"
#include "host_run.h"
#include "ir/array.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "support/float16.h"
#include "tests/support/random_graph.h"

namespace riffle::codegen {
namespace {

using testing::Compiled;
using testing::Memory;
using testing::same;

void copy(const std::vector<Memory>& from, const std::vector<Memory>& to) {
  for (std::size_t s = 0; s < from.size(); ++s)
    std::ranges::copy(from[s].bytes(), to[s].bytes().begin());
}

/// Runs the program kernel by kernel, compiled and interpreted, from the same memory.
void expect_equal(const ir::Graph& graph, const HostTarget& target, bool fuse, std::uint64_t seed) {
  const ir::Graph primitives = ir::lower_to_primitives(graph);
  const KernelProgram program = build_kernels(primitives, {.fuse = fuse});
  verify(program);
  const Compiled compiled(program, target);

  const std::vector<Memory> slots = testing::slots_of(program),
                            expected = testing::slots_of(program);
  for (const std::vector<Memory>* memory : {&slots, &expected})
    for (const Memory& slot : *memory) std::ranges::fill(slot.bytes(), std::byte{0});
  const std::vector<ir::Array> arrays = test::random_arrays(primitives, seed);
  std::vector<std::int32_t> given = program.input_slots;
  given.insert(given.end(), program.parameter_slots.begin(), program.parameter_slots.end());
  ASSERT_EQ(given.size(), arrays.size());
  for (std::size_t k = 0; k < given.size(); ++k)
    ir::array_to_bytes(arrays[k], slots[static_cast<std::size_t>(given[k])].bytes());

  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const KernelSpec& kernel = program.kernels[k];
    copy(slots, expected);
    std::vector<std::byte*> operands;
    for (const KernelOperand& operand : kernel.operands)
      operands.push_back(expected[static_cast<std::size_t>(operand.slot)].data());
    runtime::KernelStatus expected_status, status;
    interpret(program, kernel, operands, expected_status);
    compiled.run(k, 0, compiled.geometry(k).tasks, slots, status);
    EXPECT_EQ(status.code, expected_status.code);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      ASSERT_TRUE(same(program.slots[s], slots[s].bytes(), expected[s].bytes()))
          << "seed " << seed << " fuse " << fuse << " v" << target.vector_bytes << '\n'
          << print(kernel);
      ASSERT_TRUE(slots[s].intact()) << print(kernel);
    }
  }
}

std::vector<HostTarget> targets() {
  std::vector<HostTarget> list = {detect_host()};
  if (list[0].vector_bytes > 32) {
    list.push_back(list[0]);
    list.back().vector_bytes = 32;
  }
  return list;
}

class EveryOp : public ::testing::TestWithParam<ir::Op> {};

TEST_P(EveryOp, EqualsTheInterpreter) {
  const ir::OpInfo& op = ir::info(GetParam());
  std::vector<DType> dtypes =
      op.block.dtypes ? op.block.dtypes()
                      : std::vector<DType>{DType::f32, DType::f64, DType::bf16, DType::f16};
  std::uint64_t seed = 1;
  const std::vector<HostTarget> list = targets();
  for (DType dtype : dtypes) {
    // All samples in one graph: one module to compile.
    ir::Builder builder("op");
    std::vector<ir::Value> results;
    int inputs = 0;
    for (const ir::Sample& sample : op.block.samples()) {
      std::vector<ir::Value> values;
      for (TensorType type : sample.operands) {
        if (type.dtype == DType::f32) type.dtype = dtype;
        values.push_back(builder.append_source(ir::Op::input, type, fmt::format("x{}", inputs++)));
      }
      results.push_back(builder.append(GetParam(), values, sample.attrs));
    }
    const ir::Graph graph = builder.finish(results);
    expect_equal(graph, list.front(), true, seed++);
    if (HasFatalFailure()) return;
    // Narrower vectors and unfused primitives change what is emitted, not for which dtype.
    if (dtype != DType::f32 || (list.size() == 1 && op.family != ir::OpFamily::composite)) continue;
    expect_equal(graph, list.back(), op.family != ir::OpFamily::composite, seed++);
    if (HasFatalFailure()) return;
  }
}

std::vector<ir::Op> ops_with_samples() {
  std::vector<ir::Op> ops;
  for (const ir::OpInfo& op : ir::all_ops())
    if (op.block.samples) ops.push_back(op.op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Host, EveryOp, ::testing::ValuesIn(ops_with_samples()),
                         [](const auto& info) {
                           return std::string(ir::info(info.param).enumerator);
                         });

TEST(HostEquality, RandomGraphs) {
  const std::vector<HostTarget> list = targets();
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const ir::Graph graph = test::random_graph(seed);
    SCOPED_TRACE(ir::print(graph));
    expect_equal(graph, list[seed % list.size()], seed % 4 != 3, seed);
    if (HasFatalFailure()) return;
  }
}

/// Larger shapes than the samples': several tasks, tails.
ir::Graph wide_graph() {
  ir::Builder b("wide");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {300, 1100}}, "x");
  const ir::Value w = b.append_source(ir::Op::param, {DType::f32, {1100}}, "w");
  const ir::Value soft = b.append(ir::Op::softmax, {x});
  const ir::Value normal =
      b.append(ir::Op::layer_norm, {x, w}, {{"normalized_shape", ir::Ints{1100}}});
  const ir::Value turned = b.append(ir::Op::gelu, {b.transpose_last_two(soft)});
  const ir::Value columns = b.sum(normal, {0});
  return b.finish({turned, columns, normal});
}

TEST(HostEquality, TasksInAnyDivisionOnAnyThread) {
  const ir::Graph primitives = ir::lower_to_primitives(wide_graph());
  const KernelProgram program = build_kernels(primitives);
  const Compiled compiled(program, detect_host());
  const std::vector<Memory> whole = testing::slots_of(program), parts = testing::slots_of(program);
  for (const std::vector<Memory>* memory : {&whole, &parts})
    for (const Memory& slot : *memory) std::ranges::fill(slot.bytes(), std::byte{0});
  const auto arrays = test::random_arrays(primitives, 3);
  for (const std::vector<Memory>* memory : {&whole, &parts}) {
    ir::array_to_bytes(arrays[0],
                       (*memory)[static_cast<std::size_t>(program.input_slots[0])].bytes());
    ir::array_to_bytes(arrays[1],
                       (*memory)[static_cast<std::size_t>(program.parameter_slots[0])].bytes());
  }
  compiled.run(whole);
  std::int64_t most = 0;
  for (std::size_t k = 0; k < compiled.kernels(); ++k) {
    const std::int64_t tasks = compiled.geometry(k).tasks;
    most = std::max(most, tasks);
    std::vector<std::thread> threads;
    std::vector<runtime::KernelStatus> statuses(3);
    for (std::int64_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        // Pieces of 1, 2, 3 … tasks, dealt out in turn, the last ones first.
        std::int64_t size = 1, turn = 0;
        for (std::int64_t end = tasks; end > 0; end -= size, size = size % 4 + 1, ++turn)
          if (turn % 3 == t)
            compiled.run(k, std::max<std::int64_t>(end - size, 0), end, parts,
                         statuses[static_cast<std::size_t>(t)]);
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GT(most, 3);
  for (std::size_t s = 0; s < whole.size(); ++s)
    EXPECT_TRUE(same(program.slots[s], parts[s].bytes(), whole[s].bytes()));
}

}  // namespace
}  // namespace riffle::codegen
