// Common subexpressions: of equal nodes the first stays.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "ir/node_bytes.h"
#include "ir/passes.h"

namespace riffle::ir {

Graph eliminate_common_subexpressions(const Graph& graph) {
  std::unordered_map<std::string, ValueId> known;  // a node's bytes → the node that stays
  std::vector<ValueId> replaced_by(graph.nodes.size());
  std::vector<bool> keep(graph.nodes.size(), true);
  Graph renamed = graph;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    Node& node = renamed[id];
    for (ValueId& operand : node.operands) operand = replaced_by[static_cast<std::size_t>(operand)];
    replaced_by[at] = id;
    if (node.op == Op::input || node.op == Op::param || info(node.op).family == OpFamily::marker)
      continue;  // two inputs of one type are two inputs
    std::vector<ValueId> operands = node.operands;
    if (info(node.op).has(kCommutative)) std::sort(operands.begin(), operands.end());
    std::string bytes;
    append_bytes(bytes, node, operands);
    const auto [same, is_new] = known.emplace(std::move(bytes), id);
    if (is_new) continue;
    replaced_by[at] = same->second;
    keep[at] = false;
  }
  for (ValueId& id : renamed.outputs) id = replaced_by[static_cast<std::size_t>(id)];
  return filter(renamed, keep);
}

}  // namespace riffle::ir
