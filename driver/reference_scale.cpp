#include "driver/reference_scale.h"

#include <algorithm>
#include <cmath>

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

/// Ops that hand on the elements of their floating operands, or sums of them, by integer operands.
bool hands_on_by_index(const Node& node) {
  return node.op == Op::gather || node.op == Op::scatter_add || node.op == Op::pad;
}

/// Functions of an element through which an error goes by its derivative: `log(1 + x)` is as wrong
/// as the sum is, however small it is itself. Not exp: its argument's error is a relative one of
/// the result, and a softmax's, of `x - max`, would count all of x though it cancels.
bool bends(const Node& node) {
  if (node.op == Op::exp || node.op == Op::sign || node.op == Op::floor) return false;
  return ir::info(node.op).family == ir::OpFamily::elementwise;
}

/// `node` on `operands` alone.
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
  for (std::size_t i = 0; i < operands.size(); ++i) alone.operands[i] = static_cast<ValueId>(i);
  graph.nodes.push_back(std::move(alone));
  graph.outputs = {static_cast<ValueId>(operands.size())};
  return ir::evaluate(graph, operands).front();
}

/// What a linear op or a product makes of its operands' squares.
Array handed_on(const ir::Graph& graph, const Node& node, const std::vector<Array>& values,
                const std::vector<Array>& scales) {
  const auto at = [](ValueId id) { return static_cast<std::size_t>(id); };
  std::vector<Array> operands;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId id = node.operands[i];
    const bool divisor = node.op == Op::div && i == 1;
    const bool index = !is_floating(graph[id].type.dtype);
    operands.push_back(index     ? values[at(id)]
                       : divisor ? squares_of(values[at(id)])
                                 : scales[at(id)]);
  }
  if (node.op == Op::neg) return operands.front();
  Node squared = node;  // with the signs turned round that would let squares cancel
  if (node.op == Op::sub) squared.op = Op::add;
  if (node.op == Op::pad) {
    const double value = node.attrs.number("value");
    squared.attrs.set("value", value * value);
  }
  Array scale = evaluate_on(squared, operands);
  if (node.op == Op::mean && node.type.elements() > 0) {
    // (Σx/n)² has terms x²/n², and the mean of squares divides by n once.
    const double n = static_cast<double>(graph[node.operands[0]].type.elements()) /
                     static_cast<double>(node.type.elements());
    for (double& x : scale.data) x /= n;
  }
  return scale;
}

/// The square of the value, or of what an error of its operands' size would make of it by the
/// slope there, whichever is larger.
Array bent(const ir::Graph& graph, const Node& node, const std::vector<Array>& values,
           const std::vector<Array>& scales, const Array& value) {
  constexpr double kStep = 1e-6;  // the slope is right to about 1e-6, its rounding error is 1e-10
  const auto at = [](ValueId id) { return static_cast<std::size_t>(id); };
  std::vector<Array> operands;
  for (ValueId id : node.operands) operands.push_back(values[at(id)]);
  Array scale = squares_of(value);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto id = node.operands[i];
    if (!is_floating(graph[id].type.dtype)) continue;
    const Array as_it_is = operands[i];
    for (const double step : {kStep, -kStep}) {
      for (std::size_t e = 0; e < as_it_is.data.size(); ++e)
        operands[i].data[e] += step * std::sqrt(scales[at(id)].data[e]);
      const Array moved = evaluate_on(node, operands);
      operands[i] = as_it_is;
      for (std::size_t e = 0; e < moved.data.size(); ++e) {
        const double slope = (moved.data[e] - value.data[e]) / step;
        if (std::isfinite(slope)) scale.data[e] = std::max(scale.data[e], slope * slope);
      }
    }
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
    const bool floating = is_floating(node.type.dtype);
    const bool floats_alone =
        std::all_of(node.operands.begin(), node.operands.end(),
                    [&](ValueId operand) { return is_floating(graph[operand].type.dtype); });
    if (node.op == Op::input)
      scales[i] = sources.at(input++);
    else if (node.op == Op::param)
      scales[i] = sources.at(parameter++);
    else if (floating && ((hands_on(node) && floats_alone) || hands_on_by_index(node)))
      scales[i] = handed_on(graph, node, values, scales);
    else if (floating && bends(node) && !hands_on(node))
      scales[i] = bent(graph, node, values, scales, values[i]);
    else if (node.op != Op::break_)
      scales[i] = squares_of(values[i]);
  }
  return scales;
}

}  // namespace riffle::driver
