// The pieces of softmax, log_softmax, cross_entropy and attention.
#pragma once

#include "ir/builder.h"

namespace riffle::ir::rules {

/// Along dim, all in x's dtype: x − max, its exponential, and that one's sum (size 1 along dim).
struct SoftmaxParts {
  Value shifted, exponential, sum;
};
inline SoftmaxParts softmax_parts(Builder& b, Value x, std::int64_t dim) {
  SoftmaxParts parts;
  parts.shifted = b.sub(x, b.reduce(Op::amax, x, {dim}, true));
  parts.exponential = b.unary(Op::exp, parts.shifted);
  parts.sum = b.sum(parts.exponential, {dim}, true);
  return parts;
}

/// Gradient of softmax along dim, from its result p: p·(dy − Σ p·dy).
inline Value softmax_gradient(Builder& b, Value p, Value dy, std::int64_t dim) {
  return b.mul(p, b.sub(dy, b.sum(b.mul(p, dy), {dim}, true)));
}

}  // namespace riffle::ir::rules
