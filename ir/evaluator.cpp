#include "ir/evaluator.h"

#include <cmath>

#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/ops/reference.h"

namespace riffle::ir {
namespace {

// i32 results wrap as two's complement. i64 results are exact up to 2^53 only, far from wrapping.
void wrap_i32(Array& array) {
  for (double& x : array.data)
    if (!(x >= -0x1p31 && x < 0x1p31) && std::fabs(x) < 0x1p63)
      x = static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x)));
}

[[noreturn]] void fail_at(const Graph& graph, const Node& node, std::string what,
                          std::string hint = {}) {
  std::string where = to_string(node.location);
  if (where.empty()) where = fmt::format("%{} in @{}", node.name, graph.name);
  throw GraphError({.what = std::move(what), .where = std::move(where), .hint = std::move(hint)});
}

Array evaluate_composite(const OpInfo& op, std::span<const Array> operands, const Node& node) {
  Builder b{std::string(op.text)};
  std::vector<Value> values;
  for (const Array& operand : operands)
    values.push_back(b.append_source(Op::input, operand.type, {}));
  const Value result = op.block.decompose(b, values, node.attrs);
  const Graph graph = b.finish({result});
  return evaluate(graph, operands).front();
}

Array evaluate_node(const Node& node, std::span<const Array> operands) {
  const OpInfo& op = info(node.op);
  if (op.block.reference_array) return op.block.reference_array(operands, node.attrs, node.type);
  if (op.block.reference)
    return rules::map_broadcast(operands, node.type, [&](std::span<const double> arguments) {
      return op.block.reference(arguments, node.attrs);
    });
  if (op.block.decompose) return evaluate_composite(op, operands, node);
  throw GraphError({.what = fmt::format("{} has no reference implementation", op.text)});
}

// Arrays must have the types of the sources that they stand for.
void check_source(const Graph& graph, const Node& node, const Array& given) {
  if (given.type != node.type)
    fail_at(graph, node,
            fmt::format("%{} is {}, but the array given for it is {}", node.name,
                        to_string(node.type), to_string(given.type)));
  if (static_cast<std::int64_t>(given.data.size()) != given.type.elements())
    fail_at(graph, node,
            fmt::format("the array given for %{} has {} elements: expected {}", node.name,
                        given.data.size(), given.type.elements()));
}

}  // namespace

std::vector<Array> evaluate_all(const Graph& graph, std::span<const Array> inputs_then_parameters) {
  const std::size_t inputs = graph.inputs().size(), parameters = graph.parameters().size();
  if (inputs_then_parameters.size() != inputs + parameters)
    throw GraphError({.what = fmt::format("{} arrays given for {} inputs and {} parameters",
                                          inputs_then_parameters.size(), inputs, parameters),
                      .where = "@" + graph.name});
  std::vector<Array> values(graph.nodes.size());
  std::size_t next_input = 0, next_parameter = inputs;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    Array& value = values[static_cast<std::size_t>(id)];
    if (node.op == Op::break_) continue;
    if (node.op == Op::input || node.op == Op::param) {
      const Array& given =
          inputs_then_parameters[node.op == Op::input ? next_input++ : next_parameter++];
      check_source(graph, node, given);
      value = given;
      continue;
    }
    std::vector<Array> operands;
    for (ValueId operand : node.operands)
      operands.push_back(values[static_cast<std::size_t>(operand)]);
    try {
      value = evaluate_node(node, operands);
    } catch (const GraphError& error) {
      fail_at(graph, node, fmt::format("%{}: {}", node.name, error.message()),
              std::string(error.hint()));
    }
    if (node.type.dtype == DType::i32) wrap_i32(value);
  }
  return values;
}

std::vector<Array> evaluate(const Graph& graph, std::span<const Array> inputs_then_parameters) {
  std::vector<Array> values = evaluate_all(graph, inputs_then_parameters);
  std::vector<Array> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

}  // namespace riffle::ir
