// What type rules share: broadcasting, dimensions, dtype classes, and how they complain.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/attrs.h"
#include "ir/op.h"
#include "riffle/types.h"

namespace riffle::ir::rules {

/// Throws GraphError; infer_type puts the op's name before `what`, the Builder adds the place.
[[noreturn]] void fail(std::string what, std::string hint = {});

/// NumPy's and PyTorch's rule: align at the last dimension, 1 stretches. nullopt: they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
/// Of all operands' shapes; fails naming the two that do not fit.
Shape broadcast_operands(std::span<const TensorType> operands);
bool broadcasts_to(const Shape& from, const Shape& to);

/// 0 … rank-1 from -rank … rank-1. Fails otherwise.
std::int64_t dim(std::int64_t given, const TensorType& x);
/// Normalises the attribute in place.
void normalize_dim(Attrs& attrs, std::string_view name, const TensorType& x);
/// Each dimension once, sorted.
Ints sorted_dims(const Ints& given, const TensorType& x);
/// x's shape with `dims` (normalised) removed, or set to 1.
Shape reduced_shape(const Shape& shape, const Ints& dims, bool keepdim);

// Dtype classes. `what` names the operand: "x".
void require_floating(const TensorType& type, std::string_view what);
void require_numeric(const TensorType& type, std::string_view what);
void require_boolean(const TensorType& type, std::string_view what);
void require_index(const TensorType& type, std::string_view what);
void require_same_dtype(const TensorType& a, std::string_view a_name, const TensorType& b,
                        std::string_view b_name);
/// One of the words, which it lists otherwise.
void require_word(const Attrs& attrs, std::string_view attribute,
                  std::initializer_list<std::string_view> words);

// Type rules of whole families.
TensorType floating_unary(const TypeQuery&);
TensorType numeric_unary(const TypeQuery&);
TensorType boolean_unary(const TypeQuery&);
TensorType floating_binary(const TypeQuery&);
TensorType numeric_binary(const TypeQuery&);
TensorType boolean_binary(const TypeQuery&);
TensorType numeric_compare(const TypeQuery&);
TensorType any_compare(const TypeQuery&);

}  // namespace riffle::ir::rules
