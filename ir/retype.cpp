#include "ir/retype.h"

#include <set>

#include "ir/builder.h"

namespace riffle::ir {
namespace {

/// Leading sizes that changed: old → new. A size that changed in two ways is left out.
std::map<std::int64_t, std::int64_t> changed_leading_sizes(
    const Graph& graph, const std::map<std::string, TensorType, std::less<>>& inputs) {
  std::map<std::int64_t, std::int64_t> changes;
  std::set<std::int64_t> ambiguous;
  for (ValueId id : graph.inputs()) {
    auto found = inputs.find(graph[id].name);
    if (found == inputs.end()) continue;
    const Shape& before = graph[id].type.shape;
    const Shape& after = found->second.shape;
    if (before.empty() || after.empty() || before[0] == after[0]) continue;
    auto [place, inserted] = changes.try_emplace(before[0], after[0]);
    if (!inserted && place->second != after[0]) ambiguous.insert(before[0]);
  }
  for (std::int64_t size : ambiguous) changes.erase(size);
  return changes;
}

/// A leading size may be batch × something after a reshape: it scales when it is a multiple.
std::int64_t follow(std::int64_t size, const std::map<std::int64_t, std::int64_t>& changes) {
  if (auto exact = changes.find(size); exact != changes.end()) return exact->second;
  return size;
}

Attrs follow_shape(const Node& node, const std::string& attribute, std::int64_t elements_before,
                   std::int64_t elements_after,
                   const std::map<std::int64_t, std::int64_t>& changes) {
  Attrs attrs = node.attrs;
  Ints sizes = attrs.ints(attribute);
  if (sizes.empty()) return attrs;
  if (node.op == Op::reshape) {
    // The leading size takes up the change in the number of elements, when it can.
    std::int64_t rest = 1;
    for (std::size_t i = 1; i < sizes.size(); ++i) rest *= sizes[i];
    if (elements_before != elements_after && rest != 0 && elements_after % rest == 0)
      sizes[0] = elements_after / rest;
  } else {
    sizes[0] = follow(sizes[0], changes);
  }
  attrs.set(attribute, sizes);
  return attrs;
}

}  // namespace

Graph retype(const Graph& graph, const std::map<std::string, TensorType, std::less<>>& inputs) {
  const auto changes = changed_leading_sizes(graph, inputs);
  Builder builder(graph.name);
  std::vector<Value> values;
  for (const Node& node : graph.nodes) {
    builder.set_location(node.location);
    builder.set_program_id(node.program_id);
    if (node.op == Op::break_) {
      builder.append_break();
      values.emplace_back();
      continue;
    }
    if (node.op == Op::input || node.op == Op::param) {
      auto found = inputs.find(node.name);
      const bool replaced = node.op == Op::input && found != inputs.end();
      values.push_back(builder.append_source(node.op, replaced ? found->second : node.type,
                                             node.name, node.attrs));
      continue;
    }
    std::vector<Value> operands;
    for (ValueId operand : node.operands) operands.push_back(values[operand]);
    Attrs attrs = node.attrs;
    if (node.op == Op::reshape)
      attrs = follow_shape(node, "shape", graph[node.operands[0]].type.elements(),
                           builder.type(operands[0]).elements(), changes);
    else if (node.op == Op::expand || node.op == Op::full)
      attrs = follow_shape(node, "size", 0, 0, changes);
    else if (node.op == Op::arange)
      attrs.set("end", follow(attrs.integer("end"), changes));
    values.push_back(builder.append(node.op, operands, std::move(attrs), node.name));
  }
  // append_break may not return a value; ids are positions in both graphs.
  std::vector<Value> outputs;
  for (ValueId output : graph.outputs) outputs.push_back(values[output]);
  return builder.finish(std::move(outputs));
}

}  // namespace riffle::ir
