#include "ir/ops/rules.h"

#include <algorithm>

#include <fmt/format.h>

namespace riffle::ir::rules {

void fail(std::string what, std::string hint) {
  throw GraphError({.what = std::move(what), .hint = std::move(hint)});
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Shape broadcast_operands(std::span<const TensorType> operands) {
  Shape shape;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    auto wider = broadcast(shape, operands[i].shape);
    if (!wider) {
      // Name the first operand that clashes by itself; there is one, because sizes are 1 or equal.
      std::size_t other = 0;
      while (broadcast(operands[other].shape, operands[i].shape)) ++other;
      fail(fmt::format("{} and {} do not broadcast: aligned at the last dimension, sizes must be "
                       "equal or 1",
                       to_string(operands[other]), to_string(operands[i])),
           "reshape or expand one of them");
    }
    shape = std::move(*wider);
  }
  return shape;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  auto shape = broadcast(from, to);
  return shape && *shape == to;
}

std::int64_t dim(std::int64_t given, const TensorType& x) {
  const std::int64_t rank = x.rank();
  if (given >= -rank && given < rank) return given < 0 ? given + rank : given;
  if (rank == 0) fail(fmt::format("dim {} does not fit the scalar {}", given, to_string(x)));
  fail(fmt::format("dim {} does not fit {}: expected {} to {}", given, to_string(x), -rank,
                   rank - 1));
}

void normalize_dim(Attrs& attrs, std::string_view name, const TensorType& x) {
  attrs.set(name, dim(attrs.integer(name), x));
}

Ints sorted_dims(const Ints& given, const TensorType& x) {
  Ints dims;
  for (std::int64_t d : given) dims.push_back(dim(d, x));
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    fail(fmt::format("dim {} names a dimension of {} twice", to_string(given), to_string(x)));
  return dims;
}

Shape reduced_shape(const Shape& shape, const Ints& dims, bool keepdim) {
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced =
        std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
    if (!reduced)
      result.push_back(shape[d]);
    else if (keepdim)
      result.push_back(1);
  }
  return result;
}

void require_floating(const TensorType& type, std::string_view what) {
  if (!is_floating(type.dtype))
    fail(fmt::format("{} is {}: expected a floating dtype", what, to_string(type)),
         fmt::format("to({}, dtype=f32)", what));
}

void require_numeric(const TensorType& type, std::string_view what) {
  if (type.dtype == DType::boolean)
    fail(fmt::format("{} is {}: expected a floating or integer dtype", what, to_string(type)),
         fmt::format("to({}, dtype=f32) or to({}, dtype=i64)", what, what));
}

void require_boolean(const TensorType& type, std::string_view what) {
  if (type.dtype != DType::boolean)
    fail(fmt::format("{} is {}: expected bool", what, to_string(type)),
         fmt::format("to({}, dtype=bool), which is {} != 0", what, what));
}

void require_index(const TensorType& type, std::string_view what) {
  if (!is_integer(type.dtype))
    fail(fmt::format("{} is {}: expected i64 or i32", what, to_string(type)),
         fmt::format("to({}, dtype=i64)", what));
}

void require_same_dtype(const TensorType& a, std::string_view a_name, const TensorType& b,
                        std::string_view b_name) {
  if (a.dtype != b.dtype)
    fail(fmt::format("{} is {} but {} is {}: expected equal dtypes", a_name, to_string(a), b_name,
                     to_string(b)),
         fmt::format("to({}, dtype={})", b_name, name_of(a.dtype)));
}

void require_word(const Attrs& attrs, std::string_view attribute,
                  std::initializer_list<std::string_view> words) {
  const std::string& given = attrs.text(attribute);
  if (std::find(words.begin(), words.end(), given) != words.end()) return;
  std::string list;
  for (std::string_view word : words) {
    if (!list.empty()) list += ", ";
    list += fmt::format("'{}'", word);
  }
  fail(fmt::format("{}='{}' is unknown: expected one of {}", attribute, given, list));
}

TensorType floating_unary(const TypeQuery& q) {
  require_floating(q.operands[0], "x");
  return q.operands[0];
}
TensorType numeric_unary(const TypeQuery& q) {
  require_numeric(q.operands[0], "x");
  return q.operands[0];
}
TensorType boolean_unary(const TypeQuery& q) {
  require_boolean(q.operands[0], "x");
  return q.operands[0];
}

namespace {
TensorType binary(const TypeQuery& q) {
  require_same_dtype(q.operands[0], "x", q.operands[1], "other");
  return {q.operands[0].dtype, broadcast_operands(q.operands)};
}
}  // namespace

TensorType floating_binary(const TypeQuery& q) {
  require_floating(q.operands[0], "x");
  return binary(q);
}
TensorType numeric_binary(const TypeQuery& q) {
  require_numeric(q.operands[0], "x");
  return binary(q);
}
TensorType boolean_binary(const TypeQuery& q) {
  require_boolean(q.operands[0], "x");
  return binary(q);
}
TensorType numeric_compare(const TypeQuery& q) {
  require_numeric(q.operands[0], "x");
  return {DType::boolean, binary(q).shape};
}
TensorType any_compare(const TypeQuery& q) { return {DType::boolean, binary(q).shape}; }

}  // namespace riffle::ir::rules
