// The reverse walk: one partition, forward and backward, in one graph.
//
// The partition's nodes are appended to a builder; then they are visited in reverse order and each
// one's VJP rule is called, with the cotangents added up as they come. A composite without a rule
// of its own is taken apart and its pieces are visited in its place; the pieces' contributions to
// an operand are summed inside, so that the composite contributes once, like any other node.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/split.h"

namespace riffle::ir {

struct JointGraph {
  /// Inputs: the partition's, then the cotangents that come in, then the seed. Parameters: the
  /// partition's. Outputs: the partition's, then the cotangents that go out. Composites and all.
  Graph graph;
  /// Values of the whole graph whose partial gradients come in, in the order of the inputs.
  std::vector<ValueId> cotangent_inputs;
  /// Whether the last input stands for the loss's own cotangent.
  bool has_seed = false;
  /// Values of the whole graph that this partition contributes to and does not compute, in the
  /// order of its last contributions, which is that of the outputs.
  std::vector<ValueId> cotangent_outputs;
};

struct ReverseQuery {
  const PartitionedGraph& graph;
  std::size_t partition = 0;
  /// Per value of the whole graph: does it depend on a value whose gradient is wanted.
  const std::vector<bool>& wanted;
  /// Per value of the whole graph: have later partitions contributed to its gradient.
  const std::vector<bool>& started;
  /// Values of the whole graph by name: one table for all partitions.
  const std::unordered_map<std::string_view, ValueId>& by_name;
  /// Whether the loss's cotangent, 1, enters here.
  bool seed = false;
};

/// Throws GraphError for an op on the way that has no rule.
JointGraph differentiate_joint(const ReverseQuery& query);

/// Per value: is it floating and does it depend, through differentiable ops, on a value for which
/// `is_root` holds.
std::vector<bool> differentiable_from(const Graph& graph, const std::vector<bool>& is_root);

}  // namespace riffle::ir
