// relu, gelu, silu, sigmoid: composites over elementwise primitives, in compute_dtype.
//
// relu propagates NaN and gives +0 for -0; its gradient is 0 where the result is 0.
#include <numbers>

#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"

namespace riffle::ir {
namespace {

using rules::UnaryGradient;
using rules::wide;

// relu is exact in every dtype: nothing to widen.
Value decompose_relu(Builder& b, std::span<const Value> a, const Attrs&) {
  const Value zero = b.scalar(0, b.type(a[0]).dtype);
  return b.where(b.binary(Op::le, a[0], zero), zero, a[0]);
}

std::vector<Value> relu_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  Builder& b = q.b;
  const Value zero = b.scalar(0, b.type(q.result).dtype);
  return {b.where(b.binary(Op::le, q.result, zero), zero, q.cotangent)};
}

TensorType infer_gelu(const TypeQuery& q) {
  rules::require_word(q.attrs, "approximate", {"none", "tanh"});
  return rules::floating_unary(q);
}

// gelu(x) = x·Φ(x), Φ(x) = (1 + erf(x/√2))/2; or with tanh(√(2/π)(x + 0.044715x³)) for the erf.
constexpr double kInverseSqrt2 = 1 / std::numbers::sqrt2;
constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

Value half_of_one_plus(Builder& b, Value x) { return b.mul(b.add(x, 1), 0.5); }

Value gelu_tanh(Builder& b, Value x) {
  const Value cube = b.mul(b.mul(b.mul(x, x), x), kCubic);
  return b.unary(Op::tanh, b.mul(b.add(x, cube), kSqrt2OverPi));
}

Value decompose_gelu(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const Value x = wide(b, a[0]);
  const Value inner = attrs.text("approximate") == "tanh"
                          ? gelu_tanh(b, x)
                          : b.unary(Op::erf, b.mul(x, kInverseSqrt2));
  return b.cast(b.mul(x, half_of_one_plus(b, inner)), b.type(a[0]).dtype);
}

// d(x·Φ) = Φ + x·φ
Value gelu_gradient(const UnaryGradient& g) {
  Builder& b = g.b;
  const Value x = g.x();
  if (g.q.attrs.text("approximate") == "tanh") {
    const Value t = gelu_tanh(b, x);
    const Value square = b.mul(t, t);
    const Value sech2 = b.sub(b.scalar(1, b.type(x).dtype), square);
    const Value inner = b.mul(b.add(b.mul(b.mul(x, x), 3 * kCubic), 1), 0.5 * kSqrt2OverPi);
    const Value bend = b.mul(b.mul(x, sech2), inner);
    const Value slope = b.add(half_of_one_plus(b, t), bend);
    return b.mul(g.dy(), slope);
  }
  const Value cdf = half_of_one_plus(b, b.unary(Op::erf, b.mul(x, kInverseSqrt2)));
  const Value bell = b.unary(Op::exp, b.mul(b.mul(x, x), -0.5));
  const Value pdf = b.mul(bell, 0.5 * kSqrt2OverPi);
  const Value slope = b.add(cdf, b.mul(x, pdf));
  return b.mul(g.dy(), slope);
}

std::vector<Sample> gelu_samples() {
  std::vector<Sample> samples = rules::unary_samples(-4, 4);
  for (Sample sample : rules::unary_samples(-4, 4)) {
    sample.attrs.set("approximate", std::string("tanh"));
    samples.push_back(sample);
  }
  return samples;
}

// 1/(1 + exp(−x)): exp overflows to infinity for very negative x, and the result is 0.
Value sigmoid_of(Builder& b, Value x) {
  const Value one = b.scalar(1, b.type(x).dtype);
  return b.div(one, b.add(b.unary(Op::exp, b.neg(x)), one));
}

Value decompose_sigmoid(Builder& b, std::span<const Value> a, const Attrs&) {
  return b.cast(sigmoid_of(b, wide(b, a[0])), b.type(a[0]).dtype);
}

Value sigmoid_gradient(const UnaryGradient& g) {
  const Value s = g.result();
  const Value rest = g.b.sub(g.b.scalar(1, g.b.type(s).dtype), s);
  const Value slope = g.b.mul(s, rest);
  return g.b.mul(g.dy(), slope);
}

Value decompose_silu(Builder& b, std::span<const Value> a, const Attrs&) {
  const Value x = wide(b, a[0]);
  return b.cast(b.mul(x, sigmoid_of(b, x)), b.type(a[0]).dtype);
}

// s·(1 + x·(1 − s))
Value silu_gradient(const UnaryGradient& g) {
  Builder& b = g.b;
  const Value x = g.x(), s = sigmoid_of(b, x);
  const Value rest = b.sub(b.scalar(1, b.type(s).dtype), s);
  const Value slope = b.mul(s, b.add(b.mul(x, rest), 1));
  return b.mul(g.dy(), slope);
}

}  // namespace

const OpBlock op_relu = {
    .infer = rules::numeric_unary,
    .decompose = decompose_relu,
    .vjp = relu_vjp,
    .samples = rules::numeric_unary_samples,
};
const OpBlock op_gelu = {
    .infer = infer_gelu,
    .decompose = decompose_gelu,
    .vjp = rules::unary_vjp<gelu_gradient>,
    .samples = gelu_samples,
};
const OpBlock op_silu = {
    .infer = rules::floating_unary,
    .decompose = decompose_silu,
    .vjp = rules::unary_vjp<silu_gradient>,
    .samples = rules::unary_in<-6, 6>,
};
const OpBlock op_sigmoid = {
    .infer = rules::floating_unary,
    .decompose = decompose_sigmoid,
    .vjp = rules::unary_vjp<sigmoid_gradient>,
    .samples = rules::unary_in<-6, 6>,
};

}  // namespace riffle::ir
