// Elementwise arithmetic of two operands.
//
// Integers wrap; integer division truncates, and x/0 and MIN/-1 give 0. maximum and minimum
// propagate NaN; of -0 and +0 maximum gives +0 and minimum -0; ties share the gradient in halves,
// as PyTorch does. pow is C's.
#include <cmath>
#include <limits>

#include "ir/array.h"
#include "ir/math.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/reference.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/scalar_builder.h"

namespace riffle::ir {
namespace {

using Scalars = std::span<const Scalar>;
using Doubles = std::span<const double>;
using rules::gradient_of;
using rules::wide;

std::vector<Value> add_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  for (std::size_t i = 0; i < 2; ++i)
    if (q.wanted[i]) gradients[i] = gradient_of(q.b, q.cotangent, q.operands[i]);
  return gradients;
}

std::vector<Value> sub_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  if (q.wanted[0]) gradients[0] = gradient_of(q.b, q.cotangent, q.operands[0]);
  if (q.wanted[1]) gradients[1] = gradient_of(q.b, q.b.neg(q.cotangent), q.operands[1]);
  return gradients;
}

std::vector<Value> mul_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  for (std::size_t i = 0; i < 2; ++i)
    if (q.wanted[i]) {
      const Value other = wide(q.b, q.operands[1 - i]);
      const Value product = q.b.mul(wide(q.b, q.cotangent), other);
      gradients[i] = gradient_of(q.b, product, q.operands[i]);
    }
  return gradients;
}

// d(x/y) = dy/y − dy·(x/y)/y
std::vector<Value> div_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  if (!q.wanted[0] && !q.wanted[1]) return gradients;
  const Value other = wide(b, q.operands[1]);
  const Value share = b.div(wide(b, q.cotangent), other);
  if (q.wanted[0]) gradients[0] = gradient_of(b, share, q.operands[0]);
  if (q.wanted[1])
    gradients[1] =
        gradient_of(b, b.neg(b.mul(share, b.div(wide(b, q.operands[0]), other))), q.operands[1]);
  return gradients;
}

// With PyTorch's conventions at 0: the gradient to x is 0 where the exponent is 0; the one to the
// exponent is 0 where x is 0 and the exponent is not negative.
std::vector<Value> pow_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  if (!q.wanted[0] && !q.wanted[1]) return gradients;
  const Value x = wide(b, q.operands[0]), exponent = wide(b, q.operands[1]);
  const Value dy = wide(b, q.cotangent);
  const DType dtype = b.type(dy).dtype;
  const Value zero = b.scalar(0, dtype);
  if (q.wanted[0]) {
    const Value slope = b.mul(exponent, b.binary(Op::pow, x, b.add(exponent, -1)));
    const Value dx = b.mul(dy, slope);
    const Value constant = b.binary(Op::eq, exponent, zero);
    gradients[0] = gradient_of(b, b.where(constant, zero, dx), q.operands[0]);
  }
  if (q.wanted[1]) {
    const Value not_negative = b.binary(Op::ge, exponent, zero);
    const Value flat = b.binary(Op::logical_and, b.binary(Op::eq, x, zero), not_negative);
    const Value log = b.unary(Op::log, x);
    const Value slope = b.mul(b.binary(Op::pow, x, exponent), log);
    gradients[1] = gradient_of(b, b.where(flat, zero, b.mul(dy, slope)), q.operands[1]);
  }
  return gradients;
}

// Everything but the loser takes part: winners wholly, ties by halves, NaN on both sides.
std::vector<Value> extremum_vjp(const VjpQuery& q, Op loses) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  if (!q.wanted[0] && !q.wanted[1]) return gradients;
  const Value dy = wide(b, q.cotangent);
  const Value half = b.mul(dy, 0.5);
  const Value share = b.where(b.binary(Op::eq, q.operands[0], q.operands[1]), half, dy);
  const Value zero = b.scalar(0, b.type(dy).dtype);
  for (std::size_t i = 0; i < 2; ++i)
    if (q.wanted[i])
      gradients[i] =
          gradient_of(b, b.where(b.binary(loses, q.operands[i], q.operands[1 - i]), zero, share),
                      q.operands[i]);
  return gradients;
}
std::vector<Value> maximum_vjp(const VjpQuery& q) { return extremum_vjp(q, Op::lt); }
std::vector<Value> minimum_vjp(const VjpQuery& q) { return extremum_vjp(q, Op::gt); }

// Equal operands differ at most in the sign of zero: AND of the bits clears it, OR sets it.
Scalar emit_extremum(ScalarBuilder& b, Scalar x, Scalar y, bool largest) {
  const Compare wins = largest ? Compare::gt : Compare::lt;
  if (!is_floating(x.dtype)) return b.select(b.compare(wins, x, y), x, y);
  const DType dtype = x.dtype, compute = compute_dtype(dtype);
  const DType bits = compute == DType::f64 ? DType::i64 : DType::i32;
  x = b.cast(x, compute);
  y = b.cast(y, compute);
  const Scalar x_bits = b.bitcast(x, bits), y_bits = b.bitcast(y, bits);
  const Scalar tie =
      b.bitcast(largest ? b.bit_and(x_bits, y_bits) : b.bit_or(x_bits, y_bits), compute);
  Scalar result = b.select(b.compare(wins, x, y), x, y);  // y where either is NaN
  result = b.select(b.compare(Compare::eq, x, y), tie, result);
  result = b.select(b.compare(Compare::ne, x, x), x, result);
  return b.cast(result, dtype);
}

// The product of two i32 is exact in 64 bits but not in a double, and wraps.
Array reference_mul(std::span<const Array> operands, const Attrs&, const TensorType& result) {
  if (result.dtype != DType::i32)
    return rules::map_broadcast(operands, result, [](Doubles a) { return a[0] * a[1]; });
  return rules::map_broadcast(operands, result, [](Doubles a) -> double {
    const auto product = static_cast<std::int64_t>(a[0]) * static_cast<std::int64_t>(a[1]);
    return static_cast<std::int32_t>(product);
  });
}

Array reference_div(std::span<const Array> operands, const Attrs& attrs, const TensorType& result) {
  const DType dtype = result.dtype;
  if (is_floating(dtype))
    return rules::map_broadcast(operands, result, [](Doubles a) { return a[0] / a[1]; });
  const double lowest = dtype == DType::i64 ? -0x1p63 : -0x1p31;
  return rules::map_broadcast(operands, result, [lowest](Doubles a) {
    return a[1] == 0 || (a[0] == lowest && a[1] == -1) ? 0.0 : std::trunc(a[0] / a[1]);
  });
}

std::vector<Sample> div_samples() {
  return rules::binary_samples(0.25, 4) + rules::binary_samples(-4, -0.25) +
         rules::with_dtype(rules::binary_samples(-9, 9), DType::i64) +
         rules::with_dtype(rules::binary_samples(-2, 2), DType::i32);
}

std::vector<Sample> pow_samples() {
  return rules::binary_samples(0.25, 3) +
         std::vector<Sample>{
             {.operands = {rules::t({5}), rules::t({5})}, .low = 0, .high = 0, .smooth = false},
             {.operands = {rules::t({5}), rules::t({5})}, .low = -2, .high = -2, .smooth = false}};
}

}  // namespace

const OpBlock op_add = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.add(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] + a[1]; },
    .vjp = add_vjp,
    .samples = rules::numeric_binary_samples,
};

const OpBlock op_sub = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.sub(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] - a[1]; },
    .vjp = sub_vjp,
    .samples = rules::numeric_binary_samples,
};

const OpBlock op_mul = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.mul(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] * a[1]; },
    .reference_array = reference_mul,  // knows integers
    .vjp = mul_vjp,
    .samples = rules::numeric_binary_samples,
};

const OpBlock op_div = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.div(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] / a[1]; },
    .reference_array = reference_div,  // knows integers
    .vjp = div_vjp,
    .samples = div_samples,
};

const OpBlock op_pow = {
    .infer = rules::floating_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_pow(b, a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return std::pow(a[0], a[1]); },
    .vjp = pow_vjp,
    .samples = pow_samples,
};

const OpBlock op_maximum = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a,
               const Attrs&) { return emit_extremum(b, a[0], a[1], true); },
    .reference = [](Doubles a, const Attrs&) { return rules::larger(a[0], a[1]); },
    .vjp = maximum_vjp,
    .samples = rules::numeric_binary_samples,
};

const OpBlock op_minimum = {
    .infer = rules::numeric_binary,
    .emit = [](ScalarBuilder& b, Scalars a,
               const Attrs&) { return emit_extremum(b, a[0], a[1], false); },
    .reference = [](Doubles a, const Attrs&) { return rules::smaller(a[0], a[1]); },
    .vjp = minimum_vjp,
    .samples = rules::numeric_binary_samples,
};

}  // namespace riffle::ir
