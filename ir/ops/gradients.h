// What VJP rules share. A gradient is computed in compute_dtype and rounded once, at its end.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/op.h"

namespace riffle::ir::rules {

/// In the dtype that composites and gradients compute in.
inline Value wide(Builder& b, Value x) { return b.cast(x, compute_dtype(b.type(x).dtype)); }

/// The last step of a gradient: summed to the operand's shape, rounded to its dtype.
inline Value gradient_of(Builder& b, Value gradient, Value operand) {
  const TensorType type = b.type(operand);
  return b.cast(b.sum_to(gradient, type.shape), type.dtype);
}

/// Piecewise constant: no gradient flows.
inline std::vector<Value> no_gradient(const VjpQuery& q) {
  return std::vector<Value>(q.operands.size());
}

/// What the rule of a one-operand op computes from, each in compute_dtype. Asking for x or the
/// result is what makes autodiff keep it, so a rule asks only for what it needs.
struct UnaryGradient {
  const VjpQuery& q;
  Builder& b = q.b;
  Value x() const { return wide(b, q.operands[0]); }
  Value result() const { return wide(b, q.result); }
  Value dy() const { return wide(b, q.cotangent); }
};

template <Value (*rule)(const UnaryGradient&)>
std::vector<Value> unary_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  return {gradient_of(q.b, rule({q}), q.operands[0])};
}

/// x reduced over dims (normalised, dropped) back to rank of `like`, ready to broadcast over it.
inline Value keep_dims(Builder& b, Value reduced, Shape shape, const Ints& dims) {
  for (std::int64_t d : dims) shape[static_cast<std::size_t>(d)] = 1;
  return b.reshape(reduced, shape);
}

}  // namespace riffle::ir::rules
