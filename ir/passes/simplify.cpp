// Local rewrites that change no bit of any result, for every value including -0, infinities and
// denormals. NaNs count as equal whatever their bits.
//
// A rule sees a node whose operands are already rewritten. It replaces the node by an earlier value
// (Found::value), changes the node (Found::changed), or leaves it. Beside each rule is why it is
// exact. What is deliberately absent: x + (+0) and 0 - x (change -0), x * 0 (NaN, infinities),
// x * reciprocal, sums over one element (a reduction may start from +0), anything that reorders
// a sum, and a transpose absorbed into a matmul (the order of its sum may depend on the flags).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ir/passes.h"
#include "support/float16.h"

namespace riffle::ir {
namespace {

struct Found {
  enum class Kind : std::uint8_t { nothing, changed, value } kind = Kind::nothing;
  ValueId value = kNoValue;
};
constexpr Found kNothing{};
constexpr Found kChanged{Found::Kind::changed};
Found replace_by(ValueId value) { return {Found::Kind::value, value}; }

/// The node under rewriting and the graph that it will be appended to.
class Rewrite {
 public:
  Rewrite(const Graph& graph, Node& node) : graph_(graph), node_(node) {}
  Found apply();

 private:
  Found cast();
  Found reshape();
  Found expand();
  Found permute();
  Found slice();
  Found pad();
  Found cat();
  Found binary();
  Found involution();
  Found abs();
  Found where();

  const Node& operand(std::size_t i) const { return graph_[node_.operands[i]]; }
  /// The operand stands for the node. Never for one whose type differs: where broadcasting
  /// stretches it, the result has more elements.
  Found operand_if_same_type(std::size_t i) const {
    return operand(i).type == node_.type ? replace_by(node_.operands[i]) : kNothing;
  }
  Found becomes_full(double value);
  Found reads_through();
  std::optional<double> constant(std::size_t i) const {
    if (operand(i).op != Op::full) return std::nullopt;
    return operand(i).attrs.number("fill_value");
  }

  const Graph& graph_;
  Node& node_;
};

// ---------------------------------------------------------------- constants and casts

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

bool holds_integer(DType dtype, double value) {
  const double limit = dtype == DType::i32 ? 2147483648.0 : kExactIntegers;
  return value == std::nearbyint(value) && value >= -limit && value < limit;
}

/// `value` as an element of `dtype`, when every way of rounding gives the same. f32 and f64 round
/// once, to nearest; bf16 and f16 might be reached through f32, so there only what needs no
/// rounding counts.
std::optional<double> as_element(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::bf16:
      if (std::isnan(value) || bf16_to_f32(f64_to_bf16(value)) == value) return value;
      break;
    case DType::f16:
      if (std::isnan(value) || f16_to_f32(f64_to_f16(value)) == value) return value;
      break;
    case DType::i64:
    case DType::i32:
      if (holds_integer(dtype, value)) return value + 0.0;  // an integer zero has no sign
      break;
    case DType::boolean:
      if (value == 0 || value == 1) return value + 0.0;
      break;
  }
  return std::nullopt;
}

/// Every value of `from` is a value of `to`.
bool widens(DType from, DType to) {
  switch (from) {
    case DType::boolean:
      return true;
    case DType::bf16:
    case DType::f16:
      return to == from || to == DType::f32 || to == DType::f64;
    case DType::f32:
      return to == DType::f32 || to == DType::f64;
    case DType::i32:
      return to == DType::i32 || to == DType::i64 || to == DType::f64;
    case DType::f64:
    case DType::i64:
      break;
  }
  return from == to;
}

Found Rewrite::becomes_full(double value) {
  node_.op = Op::full;
  node_.operands.clear();
  node_.attrs =
      Attrs{{"size", node_.type.shape}, {"fill_value", value}, {"dtype", node_.type.dtype}};
  return kChanged;
}

Found Rewrite::cast() {
  const Node& x = operand(0);
  if (x.type == node_.type) return replace_by(node_.operands[0]);
  // The inner cast keeps the value exactly, so the outer one rounds the same number, once.
  if (x.op == Op::to && widens(graph_[x.operands[0]].type.dtype, x.type.dtype)) {
    node_.operands[0] = x.operands[0];
    return kChanged;
  }
  if (const auto fill = constant(0)) {
    const std::optional<double> element = as_element(x.type.dtype, *fill);
    if (!element) return kNothing;
    // Casts to bool test for nonzero; as_element is defined on what a bool can hold.
    const double wanted =
        node_.type.dtype == DType::boolean ? static_cast<double>(*element != 0) : *element;
    if (const auto cast = as_element(node_.type.dtype, wanted)) return becomes_full(*cast);
  }
  return kNothing;
}

// ---------------------------------------------------------------- moving elements

/// Elements are only moved, and the operand moves them in the same way: take the operand's operand.
Found Rewrite::reads_through() {
  node_.operands[0] = operand(0).operands[0];
  return kChanged;
}

Found Rewrite::reshape() {
  if (operand(0).type == node_.type) return replace_by(node_.operands[0]);
  if (operand(0).op == Op::reshape) return reads_through();  // row-major order stays
  if (const auto fill = constant(0)) return becomes_full(*fill);
  return kNothing;
}

Found Rewrite::expand() {
  if (operand(0).type == node_.type) return replace_by(node_.operands[0]);
  if (operand(0).op == Op::expand) return reads_through();
  if (const auto fill = constant(0)) return becomes_full(*fill);
  return kNothing;
}

Found Rewrite::permute() {
  Ints dims = node_.attrs.ints("dims");
  Ints identity(dims.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (dims == identity) return replace_by(node_.operands[0]);
  if (const auto fill = constant(0)) return becomes_full(*fill);
  if (operand(0).op != Op::permute) return kNothing;
  const Ints& inner = operand(0).attrs.ints("dims");
  for (std::int64_t& dim : dims) dim = inner[static_cast<std::size_t>(dim)];
  node_.attrs.set("dims", dims);
  return reads_through();
}

Found Rewrite::slice() {
  // As many elements as the whole dimension, at steps of at least one: all of them, in order.
  if (operand(0).type == node_.type) return replace_by(node_.operands[0]);
  if (const auto fill = constant(0)) return becomes_full(*fill);
  return kNothing;
}

Found Rewrite::pad() {
  const auto none = [](const Ints& widths) {
    return std::all_of(widths.begin(), widths.end(), [](std::int64_t w) { return w == 0; });
  };
  return none(node_.attrs.ints("low")) && none(node_.attrs.ints("high"))
             ? replace_by(node_.operands[0])
             : kNothing;
}

Found Rewrite::cat() { return node_.operands.size() == 1 ? operand_if_same_type(0) : kNothing; }

// ---------------------------------------------------------------- arithmetic

Found Rewrite::binary() {
  const DType dtype = node_.type.dtype;
  const auto is = [&](std::size_t i, double value) {
    const auto fill = constant(i);
    // The sign of zero counts for floats only.
    return fill && *fill == value &&
           (!is_floating(dtype) || std::signbit(*fill) == std::signbit(value));
  };
  switch (node_.op) {
    case Op::mul:  // x * 1 is x: the product is exact, bf16 and f16 included
      if (is(1, 1.0)) return operand_if_same_type(0);
      if (is(0, 1.0)) return operand_if_same_type(1);
      break;
    case Op::div:  // x / 1 is x: exact
      if (is(1, 1.0)) return operand_if_same_type(0);
      break;
    case Op::add:  // x + (-0) is x for both zeros; x + (+0) would turn -0 into +0
      if (is(1, -0.0)) return operand_if_same_type(0);
      if (is(0, -0.0)) return operand_if_same_type(1);
      break;
    case Op::sub:  // x - (+0) is x for both zeros
      if (is(1, 0.0)) return operand_if_same_type(0);
      break;
    default:
      break;
  }
  return kNothing;
}

/// neg(neg(x)): floats flip the sign bit twice, integers wrap twice. not(not(x)) on bools.
Found Rewrite::involution() {
  return operand(0).op == node_.op ? replace_by(operand(0).operands[0]) : kNothing;
}

Found Rewrite::abs() {
  // The sign bit is cleared already.
  if (operand(0).op == Op::abs) return replace_by(node_.operands[0]);
  // neg only flips the bit that abs clears; for integers |MIN| and |-MIN| both wrap to MIN.
  if (operand(0).op == Op::neg) return reads_through();
  return kNothing;
}

Found Rewrite::where() {
  // Both arms are the same value, so the condition does not matter; or it is known.
  if (node_.operands[1] == node_.operands[2]) return operand_if_same_type(1);
  if (const auto condition = constant(0)) return operand_if_same_type(*condition != 0 ? 1 : 2);
  return kNothing;
}

Found Rewrite::apply() {
  switch (node_.op) {
    case Op::to:
      return cast();
    case Op::reshape:
      return reshape();
    case Op::expand:
      return expand();
    case Op::permute:
      return permute();
    case Op::slice:
      return slice();
    case Op::pad:
      return pad();
    case Op::cat:
      return cat();
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
      return binary();
    case Op::neg:
    case Op::logical_not:
      return involution();
    case Op::abs:
      return abs();
    case Op::where_:
      return where();
    default:
      return kNothing;
  }
}

}  // namespace

Graph simplify(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> values;  // by node of `graph`
  values.reserve(graph.nodes.size());
  for (Node node : graph.nodes) {
    for (ValueId& operand : node.operands) operand = values[static_cast<std::size_t>(operand)];
    Found found = Rewrite(result, node).apply();
    while (found.kind == Found::Kind::changed) found = Rewrite(result, node).apply();
    if (found.kind == Found::Kind::value) {
      values.push_back(found.value);
      continue;
    }
    values.push_back(result.size());
    result.nodes.push_back(std::move(node));
  }
  for (const ValueId id : graph.outputs)
    result.outputs.push_back(values[static_cast<std::size_t>(id)]);
  return result;
}

}  // namespace riffle::ir
