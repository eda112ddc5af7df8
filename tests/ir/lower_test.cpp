// Decomposition and the whole pipeline: names, places and program order of what composites become,
// and that every pass keeps every value of random graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "ir/evaluator.h"
#include "ir/hash.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_runner.h"

namespace riffle::ir {
namespace {

bool has_composites(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return info(node.op).family == OpFamily::composite; });
}

Graph example() {
  return parse(R"(graph @g {
    %x = input : f32[4, 8]
    %w = param : f32[8, 8]
    %b = param : f32[8]
    %linear = linear(%x, %w, %b)
    break
    %relu = relu(%linear)
    %linear_matmul = linear(%relu, %w)
    %loss = mse_loss(%linear_matmul, %x)
    return %loss, %relu
  })",
               "g.rfl");
}

TEST(Decompose, InnerNodesTakeTheCompositesName) {
  const Graph graph = decompose(example());
  verify(graph);
  EXPECT_EQ(print(graph), R"(graph @g {
  %x               = input : f32[4, 8]
  %w               = param : f32[8, 8]
  %b               = param : f32[8]
  %linear_matmul_1 = matmul(%x, %w, transpose_other=True)     # f32[4, 8]
  %linear          = add(%linear_matmul_1, %b)                # f32[4, 8]
  break
  %relu_full       = full([], 0.0)                            # f32[]
  %relu_le         = le(%linear, %relu_full)                  # bool[4, 8]
  %relu            = where(%relu_le, %relu_full, %linear)     # f32[4, 8]
  %linear_matmul   = matmul(%relu, %w, transpose_other=True)  # f32[4, 8]
  %loss_sub        = sub(%linear_matmul, %x)                  # f32[4, 8]
  %loss_mul        = mul(%loss_sub, %loss_sub)                # f32[4, 8]
  %loss_sum        = sum(%loss_mul, dim=[0, 1])               # f32[]
  %loss_full       = full([], 32.0)                           # f32[]
  %loss            = div(%loss_sum, %loss_full)               # f32[]
  return %loss, %relu
}
)");
}

TEST(Decompose, InnerNodesTakeTheCompositesPlaceAndProgramOrder) {
  const Graph before = example();
  const Graph after = decompose(before);
  EXPECT_FALSE(has_composites(after));
  for (const Node& node : after.nodes) {
    const Node* origin = nullptr;  // the composite of the longest name that begins the node's
    for (const Node& candidate : before.nodes)
      if (node.program_id == candidate.program_id) origin = &candidate;
    ASSERT_NE(origin, nullptr) << node.name;
    EXPECT_EQ(node.name.substr(0, origin->name.size()), origin->name);
    EXPECT_EQ(node.location, origin->location);
  }
  for (std::size_t i = 1; i < after.nodes.size(); ++i)
    EXPECT_LE(after.nodes[i - 1].program_id, after.nodes[i].program_id);
  for (std::size_t i = 0; i < before.outputs.size(); ++i)
    EXPECT_EQ(after[after.outputs[i]].name, before[before.outputs[i]].name);
}

TEST(Decompose, LeavesPrimitivesAlone) {
  const Graph graph = parse(
      "graph @g {\n %x = input : f32[4]\n break\n %y = mul(%x, 2)\n %z = neg(%y)\n return %z\n}",
      "g.rfl");
  EXPECT_EQ(print(decompose(graph)), print(graph));
}

TEST(Lower, DropsBreaksAndDeadCodeAndKeepsInputsAndParameters) {
  const Graph graph = lower_to_primitives(parse(R"(graph @g {
    %x = input : f32[4, 8]
    %unused = input : i64[3]
    %w = param : f32[8, 8]
    %nothing = param(frozen=True) : f32[1]
    %dead = softmax(%x, 1)
    break
    %linear = linear(%x, %w)
    %same = linear(%x, %w)
    %one = full([4, 8], 1.0)
    %scaled = mul(%same, %one)
    %sum = add(%linear, %scaled)
    return %sum
  })",
                                                "g.rfl"));
  EXPECT_EQ(print(graph), R"(graph @g {
  %x       = input : f32[4, 8]
  %unused  = input : i64[3]
  %w       = param : f32[8, 8]
  %nothing = param(frozen=True) : f32[1]
  %linear  = matmul(%x, %w, transpose_other=True)  # f32[4, 8]
  %sum     = add(%linear, %linear)                 # f32[4, 8]
  return %sum
}
)");
}

TEST(Lower, RefusesAGraphThatIsNotWellFormed) {
  Graph graph = example();
  graph[3].operands[0] = 7;
  EXPECT_THROW(lower_to_primitives(graph), GraphError);
}

// The reference computes in double and without rounding, so a pass that keeps every value keeps
// every bit of it.
TEST(Lower, EveryPassKeepsEveryValueOfRandomGraphs) {
  const std::vector<std::pair<const char*, std::function<Graph(const Graph&)>>> passes = {
      {"decompose", decompose},
      {"simplify", simplify},
      {"eliminate_common_subexpressions", eliminate_common_subexpressions},
      {"eliminate_dead_code", eliminate_dead_code},
      {"lower_to_primitives", lower_to_primitives},
      {"print and parse", [](const Graph& graph) { return parse(print(graph), "printed"); }},
  };
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = test::random_graph(seed);
    const std::vector<Array> arrays = test::random_arrays(graph, seed);
    const std::vector<Array> expected = evaluate(graph, arrays);
    for (const Graph& start : {graph, decompose(graph)})
      for (const auto& [name, pass] : passes) {
        SCOPED_TRACE(name);
        const Graph after = pass(start);
        verify(after);
        ASSERT_EQ(after.inputs().size(), graph.inputs().size());
        ASSERT_EQ(after.parameters().size(), graph.parameters().size());
        const std::vector<Array> actual = evaluate(after, arrays);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
          ASSERT_TRUE(test::identical(actual[i], expected[i])) << print(start) << print(after);
      }
    const Graph lowered = lower_to_primitives(graph);
    EXPECT_FALSE(has_composites(lowered));
    EXPECT_EQ(structural_hash(lower_to_primitives(lowered)), structural_hash(lowered));
    EXPECT_TRUE(structurally_equal(parse(print(graph), "printed"), graph));
  }
}

}  // namespace
}  // namespace riffle::ir
