// Structural identity: blind to names and places, awake to everything else.
#include "ir/hash.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "ir/text.h"

namespace riffle::ir {
namespace {

Graph base() {
  return parse(R"(graph @g {
    %x = input : f32[4, 8]
    %y = input(requires_grad=True) : f32[4, 8]
    %w = param : f32[8, 8]
    %b = param(frozen=True) : f32[8]
    %linear = linear(%x, %w, %b)
    break
    %gelu = gelu(%linear, approximate='tanh')
    %part = slice(%gelu, 1, start=1, end=7, step=2)
    %half = full([4, 1], 0.5)
    %mul = mul(%part, %half)
    %cast = to(%mul, f64)
    %total = sum(%cast, dim=[1], keepdim=True)
    %loss = mse_loss(%gelu, %y, reduction='sum')
    return %loss, %total
  })",
               "g.rfl");
}

TEST(Hash, SeesNeitherNamesNorPlacesNorProgramIds) {
  Graph graph = base();
  graph.name = "h";
  for (ValueId id = 0; id < graph.size(); ++id) {
    graph[id].name += "_renamed";
    graph[id].location = {"elsewhere", 1, 2};
    graph[id].program_id += 100;
  }
  graph[5].type = {DType::i32, {9}};  // a break has no type
  EXPECT_EQ(structural_hash(graph), structural_hash(base()));
  EXPECT_TRUE(structurally_equal(graph, base()));
}

TEST(Hash, InputsAndParametersDiffer) {
  Graph graph = base();
  graph[0].op = Op::param;
  graph[0].attrs = graph[2].attrs;
  EXPECT_NE(structural_hash(graph), structural_hash(base()));
  EXPECT_FALSE(structurally_equal(graph, base()));
}

TEST(Hash, DoublesCountByBits) {
  const auto with = [](double value) {
    Graph graph = base();
    graph[8].attrs.set("fill_value", value);
    return graph;
  };
  EXPECT_NE(structural_hash(with(0.0)), structural_hash(with(-0.0)));
  EXPECT_FALSE(structurally_equal(with(0.0), with(-0.0)));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(structural_hash(with(nan)), structural_hash(with(-nan)));  // all NaNs are one
  EXPECT_TRUE(structurally_equal(with(nan), with(-nan)));
}

TEST(Hash, IsTheSameInEveryProcess) {
  // Disk caches are keyed by it: a change here drops them, so it should be meant.
  const Graph graph = parse("graph @g {\n %x = input : f32[2]\n return %x\n}", "g.rfl");
  EXPECT_EQ(to_string(structural_hash(graph)).size(), 32u);
  EXPECT_EQ(to_string(structural_hash(graph)), "61570259c9f7704671c79f59da52b8df");
  EXPECT_EQ(to_string(Hash128{1, 0xabc}), "00000000000000010000000000000abc");
}

/// Changes one thing; false when that thing is not there.
bool mutate(Graph& graph, std::mt19937& random) {
  const auto draw = [&](std::size_t n) { return random() % n; };
  Node& node = graph.nodes[draw(graph.nodes.size())];
  switch (draw(9)) {
    case 0: {
      const Op op = static_cast<Op>(draw(all_ops().size()));
      if (op == node.op || op == Op::break_ || node.op == Op::break_) return false;
      node.op = op;
      return true;
    }
    case 1:
      if (node.operands.empty()) return false;
      node.operands[draw(node.operands.size())] += static_cast<ValueId>(1 + draw(1000));
      return true;
    case 2:
      node.operands.push_back(static_cast<ValueId>(draw(5)));
      return true;
    case 3: {
      if (node.attrs.entries().empty()) return false;
      const auto [name, value] = node.attrs.entries()[draw(node.attrs.entries().size())];
      AttrValue changed = value;
      if (auto* flag = std::get_if<bool>(&changed)) *flag = !*flag;
      if (auto* integer = std::get_if<std::int64_t>(&changed)) *integer ^= 1LL << draw(63);
      if (auto* number = std::get_if<double>(&changed)) *number += 1 + static_cast<double>(draw(9));
      if (auto* dtype = std::get_if<DType>(&changed)) *dtype = DType::f16;
      if (auto* text = std::get_if<std::string>(&changed)) text->push_back('x');
      if (auto* ints = std::get_if<Ints>(&changed)) ints->push_back(0);
      node.attrs.set(name, changed);
      return true;
    }
    case 4:
      node.attrs.set("extra", static_cast<std::int64_t>(draw(1000)));
      return true;
    case 5:
      if (node.op == Op::break_ || node.type.dtype == DType::bf16) return false;
      node.type.dtype = DType::bf16;
      return true;
    case 6:
      if (node.op == Op::break_) return false;
      if (node.type.shape.empty())
        node.type.shape.push_back(1);
      else
        node.type.shape[draw(node.type.shape.size())] += static_cast<std::int64_t>(1 + draw(1000));
      return true;
    case 7:
      graph.outputs.push_back(static_cast<ValueId>(draw(10)));
      return true;
    default: {
      const std::size_t at = draw(graph.nodes.size() - 1);
      if (graph.nodes[at].op == graph.nodes[at + 1].op) return false;  // may be equal nodes
      std::swap(graph.nodes[at], graph.nodes[at + 1]);
      return true;
    }
  }
}

TEST(Hash, AThousandMutationsChangeIt) {
  std::mt19937 random(20221);
  const Graph original = base();
  const Hash128 before = structural_hash(original);
  for (int done = 0; done < 1000;) {
    Graph graph = original;
    if (!mutate(graph, random)) continue;
    ++done;
    ASSERT_NE(structural_hash(graph), before) << print(original);
    ASSERT_FALSE(structurally_equal(graph, original));
  }
}

// Parts that follow each other cannot be mistaken: [1, 2] + [3] is not [1] + [2, 3].
TEST(Hash, ListsOfDifferentSplitsDiffer) {
  const auto padded = [](Ints low, Ints high) {
    Graph graph = base();
    graph[7].attrs = Attrs{{"low", low}, {"high", high}};
    return structural_hash(graph);
  };
  std::set<Hash128> hashes = {padded({1, 2}, {3}), padded({1}, {2, 3}), padded({}, {1, 2, 3}),
                              padded({1, 2, 3}, {})};
  EXPECT_EQ(hashes.size(), 4u);
}

}  // namespace
}  // namespace riffle::ir
