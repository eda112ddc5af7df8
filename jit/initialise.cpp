#include "jit/initialise.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace riffle::jit {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

struct Rule {
  enum class Kind { constant, uniform, normal } kind = Kind::uniform;
  double scale = 1;
};

Rule uniform_by_fan_in(std::int64_t fan_in) {
  return {Rule::Kind::uniform,
          1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fan_in)))};
}

std::int64_t last_size(const TensorType& type) {
  return type.shape.empty() ? 1 : type.shape.back();
}

/// The rule that one use asks for; `position` is the operand's.
std::optional<Rule> rule_of_use(const Graph& graph, const Node& user, std::size_t position) {
  switch (user.op) {
    case Op::linear:
      return uniform_by_fan_in(last_size(graph[user.operands[1]].type));
    case Op::matmul: {
      const TensorType& type = graph[user.operands[1]].type;
      const bool rows = !user.attrs.flag("transpose_other") && type.rank() >= 2;
      return uniform_by_fan_in(rows ? type.shape[type.shape.size() - 2] : last_size(type));
    }
    case Op::layer_norm:
      if (position == 0) return std::nullopt;
      return Rule{Rule::Kind::constant, position == 1 ? 1.0 : 0.0};
    case Op::embedding:
      return Rule{Rule::Kind::normal, 1.0};
    default:
      return std::nullopt;
  }
}

Rule rule_for(const Graph& graph, ValueId parameter) {
  for (const Node& user : graph.nodes)
    for (std::size_t i = 0; i < user.operands.size(); ++i)
      if (user.operands[i] == parameter)
        if (auto rule = rule_of_use(graph, user, i)) return *rule;
  return uniform_by_fan_in(last_size(graph[parameter].type));
}

ir::Array fill(const TensorType& type, const Rule& rule, const CounterRandom& random) {
  ir::Array array(type);
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    switch (rule.kind) {
      case Rule::Kind::constant:
        array.data[i] = rule.scale;
        break;
      case Rule::Kind::uniform:
        array.data[i] = (2 * random.uniform(i) - 1) * rule.scale;
        break;
      case Rule::Kind::normal:
        array.data[i] = random.normal(i) * rule.scale;
        break;
    }
  }
  return array;
}

}  // namespace

ir::Array initial_parameter(const Graph& graph, ValueId parameter, std::uint64_t seed) {
  const TensorType& type = graph[parameter].type;
  if (!is_floating(type.dtype)) return ir::Array(type);
  return fill(type, rule_for(graph, parameter),
              CounterRandom(seed, static_cast<std::uint64_t>(parameter)));
}

ir::Array initial_input(const Graph& graph, ValueId input, std::uint64_t seed) {
  const TensorType& type = graph[input].type;
  if (!is_floating(type.dtype)) return ir::Array(type);
  return fill(type, {Rule::Kind::normal, 1.0},
              CounterRandom(seed, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(input)));
}

}  // namespace riffle::jit
