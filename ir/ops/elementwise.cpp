// Elementwise ops of one operand. Binary ones are in binary.cpp and compare.cpp.
//
// abs, neg, sign also take integers (neg and abs of the smallest wrap). sign returns ±0 and NaN as
// they are. `to`: float → int truncates and saturates, NaN → 0; i64 → i32 keeps the low bits;
// anything → bool is x != 0 (true for NaN); float → float rounds to nearest even.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/array.h"
#include "ir/math.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/scalar_builder.h"

namespace riffle::ir {
namespace {

using Scalars = std::span<const Scalar>;
using Doubles = std::span<const double>;
using rules::UnaryGradient;

Value neg_gradient(const UnaryGradient& g) { return g.b.neg(g.dy()); }
Value abs_gradient(const UnaryGradient& g) {
  const Value sign = g.b.unary(Op::sign, g.x());
  return g.b.mul(g.dy(), sign);
}
Value exp_gradient(const UnaryGradient& g) {
  const Value result = g.result();
  return g.b.mul(g.dy(), result);
}
Value log_gradient(const UnaryGradient& g) {
  const Value x = g.x();
  return g.b.div(g.dy(), x);
}
Value sqrt_gradient(const UnaryGradient& g) {
  const Value result = g.result();
  return g.b.div(g.b.mul(g.dy(), 0.5), result);
}
Value rsqrt_gradient(const UnaryGradient& g) {
  const Value r = g.result();
  const Value cube = g.b.mul(r, g.b.mul(r, r));
  return g.b.mul(g.b.mul(g.dy(), -0.5), cube);
}
Value reciprocal_gradient(const UnaryGradient& g) {
  const Value r = g.result();
  const Value square = g.b.mul(r, r);
  return g.b.mul(g.b.neg(g.dy()), square);
}
Value sin_gradient(const UnaryGradient& g) {
  const Value slope = g.b.unary(Op::cos, g.x());
  return g.b.mul(g.dy(), slope);
}
Value cos_gradient(const UnaryGradient& g) {
  const Value slope = g.b.unary(Op::sin, g.x());
  return g.b.mul(g.b.neg(g.dy()), slope);
}
Value tanh_gradient(const UnaryGradient& g) {
  const Value r = g.result();
  const Value square = g.b.mul(r, r);
  const Value slope = g.b.sub(g.b.scalar(1, g.b.type(r).dtype), square);
  return g.b.mul(g.dy(), slope);
}
// erf'(x) = 2/√π · exp(−x²)
Value erf_gradient(const UnaryGradient& g) {
  const Value x = g.x();
  const Value bell = g.b.unary(Op::exp, g.b.neg(g.b.mul(x, x)));
  const Value slope = g.b.mul(bell, 2 * std::numbers::inv_sqrtpi);
  return g.b.mul(g.dy(), slope);
}

TensorType infer_to(const TypeQuery& q) { return {q.attrs.dtype("dtype"), q.operands[0].shape}; }

double to_integer(double x, double lowest, double highest) {
  if (std::isnan(x)) return 0;
  return std::trunc(std::min(std::max(x, lowest), highest));
}

double convert(double x, DType to) {
  switch (to) {
    case DType::i64:  // 2^63 stands for the largest i64, which no double is
      return to_integer(x, -0x1p63, 0x1p63);
    case DType::i32:
      return to_integer(x, -0x1p31, 0x1p31 - 1);
    case DType::boolean:
      return x != 0;
    default:
      return x;
  }
}

double wrap_to_i32(double x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x)));
}

Array reference_to(std::span<const Array> operands, const Attrs& attrs, const TensorType& result) {
  Array out(result);
  const DType from = operands[0].type.dtype, to = attrs.dtype("dtype");
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const double x = operands[0].data[i];
    out.data[i] = from == DType::i64 && to == DType::i32 ? wrap_to_i32(x) : convert(x, to);
  }
  return out;
}

std::vector<Value> to_vjp(const VjpQuery& q) {
  const DType from = q.b.type(q.operands[0]).dtype;
  if (!q.wanted[0] || !is_floating(from) || !is_floating(q.b.type(q.result).dtype))
    return {Value{}};
  return {q.b.cast(q.cotangent, from)};
}

std::vector<Sample> to_samples() {
  std::vector<Sample> samples;
  for (DType to : kAllDTypes)
    for (const TensorType& from :
         {rules::t({67}), rules::i64({3, 43}), rules::i32({67}), rules::boolean({67})})
      samples.push_back({.operands = {from},
                         .attrs = {{"dtype", to}},
                         .low = -100,
                         .high = 100,
                         .smooth = is_floating(to)});
  samples.push_back({.operands = {rules::t({})}, .attrs = {{"dtype", DType::f64}}});
  samples.push_back({.operands = {rules::t({0, 3})}, .attrs = {{"dtype", DType::f32}}});
  return samples;
}

std::vector<Sample> logical_not_samples() {
  return rules::with_dtype(rules::unary_samples(0, 1), DType::boolean);
}

}  // namespace

const OpBlock op_neg = {
    .infer = rules::numeric_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.neg(a[0]); },
    .reference = [](Doubles a, const Attrs&) { return -a[0]; },
    .vjp = rules::unary_vjp<neg_gradient>,
    .samples = rules::numeric_unary_samples,
};

const OpBlock op_abs = {
    .infer = rules::numeric_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.abs(a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::fabs(a[0]); },
    .vjp = rules::unary_vjp<abs_gradient>,
    .samples = rules::numeric_unary_samples,
};

const OpBlock op_sign = {
    .infer = rules::numeric_unary,
    .emit =
        [](ScalarBuilder& b, Scalars a, const Attrs&) {
          const Scalar zero = b.constant(a[0].dtype, 0);
          const Scalar rest =
              b.select(b.compare(Compare::lt, a[0], zero), b.constant(a[0].dtype, -1), a[0]);
          return b.select(b.compare(Compare::gt, a[0], zero), b.constant(a[0].dtype, 1), rest);
        },
    .reference = [](Doubles a, const Attrs&) { return a[0] > 0   ? 1
                                                      : a[0] < 0 ? -1
                                                                 : a[0]; },
    .vjp = rules::no_gradient,
    .samples = rules::numeric_unary_samples,
};

const OpBlock op_exp = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_exp(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::exp(a[0]); },
    .vjp = rules::unary_vjp<exp_gradient>,
    .samples = rules::unary_in<-5, 5>,
};

const OpBlock op_log = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_log(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::log(a[0]); },
    .vjp = rules::unary_vjp<log_gradient>,
    .samples = [] { return rules::unary_samples(0.1, 20); },
};

const OpBlock op_sqrt = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.sqrt(a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::sqrt(a[0]); },
    .vjp = rules::unary_vjp<sqrt_gradient>,
    .samples = [] { return rules::unary_samples(0.1, 20); },
};

const OpBlock op_rsqrt = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_rsqrt(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return 1 / std::sqrt(a[0]); },
    .vjp = rules::unary_vjp<rsqrt_gradient>,
    .samples = [] { return rules::unary_samples(0.1, 20); },
};

const OpBlock op_reciprocal = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a,
               const Attrs&) { return b.div(b.constant(a[0].dtype, 1), a[0]); },
    .reference = [](Doubles a, const Attrs&) { return 1 / a[0]; },
    .vjp = rules::unary_vjp<reciprocal_gradient>,
    .samples = [] { return rules::unary_samples(0.25, 4) + rules::unary_samples(-4, -0.25); },
};

const OpBlock op_sin = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_sin(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::sin(a[0]); },
    .vjp = rules::unary_vjp<sin_gradient>,
    .samples = rules::unary_in<-10, 10>,
};

const OpBlock op_cos = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_cos(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::cos(a[0]); },
    .vjp = rules::unary_vjp<cos_gradient>,
    .samples = rules::unary_in<-10, 10>,
};

const OpBlock op_tanh = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_tanh(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::tanh(a[0]); },
    .vjp = rules::unary_vjp<tanh_gradient>,
    .samples = rules::unary_in<-4, 4>,
};

const OpBlock op_erf = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return math_erf(b, a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::erf(a[0]); },
    .vjp = rules::unary_vjp<erf_gradient>,
    .samples = rules::unary_in<-3, 3>,
};

const OpBlock op_floor = {
    .infer = rules::floating_unary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.floor(a[0]); },
    .reference = [](Doubles a, const Attrs&) { return std::floor(a[0]); },
    .vjp = rules::no_gradient,
    .samples = rules::unary_in<-4, 4>,
};

const OpBlock op_logical_not = {
    .infer = rules::boolean_unary,
    .emit = [](ScalarBuilder& b, Scalars a,
               const Attrs&) { return b.bit_xor(a[0], b.constant(DType::boolean, 1)); },
    .reference = [](Doubles a, const Attrs&) { return a[0] == 0 ? 1.0 : 0.0; },
    .samples = logical_not_samples,
};

const OpBlock op_to = {
    .infer = infer_to,
    .emit = [](ScalarBuilder& b, Scalars a,
               const Attrs& attrs) { return b.cast(a[0], attrs.dtype("dtype")); },
    .reference = [](Doubles a, const Attrs& attrs) { return convert(a[0], attrs.dtype("dtype")); },
    .reference_array = reference_to,  // knows where an integer comes from
    .vjp = to_vjp,
    .samples = to_samples,
};

}  // namespace riffle::ir
