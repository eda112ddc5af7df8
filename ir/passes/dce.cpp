// Dead code, and the copy of a graph without some of its nodes.
#include <cassert>

#include "ir/passes.h"

namespace riffle::ir {

Graph eliminate_dead_code(const Graph& graph) {
  std::vector<bool> keep(graph.nodes.size(), false);
  for (const ValueId id : graph.outputs) keep[static_cast<std::size_t>(id)] = true;
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    const Node& node = graph[id];
    const auto at = static_cast<std::size_t>(id);
    if (node.op == Op::input || node.op == Op::param || node.op == Op::break_) keep[at] = true;
    if (!keep[at]) continue;
    for (const ValueId operand : node.operands) keep[static_cast<std::size_t>(operand)] = true;
  }
  return filter(graph, keep);
}

Graph filter(const Graph& graph, const std::vector<bool>& keep) {
  assert(keep.size() == graph.nodes.size());
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> moved(graph.nodes.size(), kNoValue);
  const auto moved_to = [&](ValueId id) {
    const ValueId to = moved[static_cast<std::size_t>(id)];
    assert(to != kNoValue && "a value that is kept or returned needs one that is not kept");
    return to;
  };
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (!keep[static_cast<std::size_t>(id)]) continue;
    Node node = graph[id];
    for (ValueId& operand : node.operands) operand = moved_to(operand);
    moved[static_cast<std::size_t>(id)] = result.size();
    result.nodes.push_back(std::move(node));
  }
  for (const ValueId id : graph.outputs) result.outputs.push_back(moved_to(id));
  return result;
}

}  // namespace riffle::ir
