#include "driver/reference_scale.h"

#include <algorithm>

#include "ir/evaluator.h"

namespace riffle::driver {
namespace {

using ir::Array;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// Ops that are linear in every operand, or a product of operands: the op itself, applied to the
/// squares, gives the squares of the terms.
bool hands_on(const Node& node) {
  switch (node.op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::neg:
    case Op::to:
    case Op::expand:
    case Op::reshape:
    case Op::permute:
    case Op::slice:
    case Op::cat:
    case Op::sum:
    case Op::mean:
    case Op::matmul:
    case Op::linear:
      return true;
    default:
      return false;
  }
}

/// `node` on `operands` alone, with the signs that would cancel squares turned round.
Array evaluate_on(const Node& node, const std::vector<Array>& operands) {
  ir::Graph graph;
  graph.name = "scale";
  for (const Array& operand : operands) {
    Node input;
    input.op = Op::input;
    input.name = "x" + std::to_string(graph.nodes.size());
    input.attrs = ir::Attrs{{"requires_grad", false}};
    input.type = operand.type;
    graph.nodes.push_back(std::move(input));
  }
  Node alone = node;
  if (node.op == Op::sub) alone.op = Op::add;
  for (std::size_t i = 0; i < operands.size(); ++i) alone.operands[i] = static_cast<ValueId>(i);
  graph.nodes.push_back(std::move(alone));
  graph.outputs = {static_cast<ValueId>(operands.size())};
  return ir::evaluate(graph, operands).front();
}

Array handed_on(const ir::Graph& graph, const Node& node, const std::vector<Array>& values,
                const std::vector<Array>& scales) {
  const auto at = [](ValueId id) { return static_cast<std::size_t>(id); };
  std::vector<Array> operands;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId id = node.operands[i];
    const bool divisor = node.op == Op::div && i == 1;
    operands.push_back(divisor ? squares_of(values[at(id)]) : scales[at(id)]);
  }
  if (node.op == Op::neg) return operands.front();
  Array scale = evaluate_on(node, operands);
  if (node.op == Op::mean && node.type.elements() > 0) {
    // (Σx/n)² has terms x²/n², and the mean of squares divides by n once.
    const double n = static_cast<double>(graph[node.operands[0]].type.elements()) /
                     static_cast<double>(node.type.elements());
    for (double& x : scale.data) x /= n;
  }
  return scale;
}

}  // namespace

Array squares_of(const Array& array) {
  Array squares = array;
  for (double& x : squares.data) x *= x;
  return squares;
}

std::vector<Array> squared_scales(const ir::Graph& graph, const std::vector<Array>& values,
                                  const std::vector<Array>& sources) {
  std::vector<Array> scales(values.size());
  std::size_t input = 0, parameter = graph.inputs().size();
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    const auto i = static_cast<std::size_t>(id);
    const bool floating =
        is_floating(node.type.dtype) &&
        std::all_of(node.operands.begin(), node.operands.end(),
                    [&](ValueId operand) { return is_floating(graph[operand].type.dtype); });
    if (node.op == Op::input)
      scales[i] = sources.at(input++);
    else if (node.op == Op::param)
      scales[i] = sources.at(parameter++);
    else if (node.op != Op::break_)
      scales[i] = floating && hands_on(node) ? handed_on(graph, node, values, scales)
                                             : squares_of(values[i]);
  }
  return scales;
}

}  // namespace riffle::driver
