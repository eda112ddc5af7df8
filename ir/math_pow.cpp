// pow(x, y) = e^(y·log|x|) with the sign and the special cases of C's pow. y·log|x| may reach 745,
// so log must carry ten bits more than the result: f32 computes in f64, f64 in pairs of f64 whose
// sum is the value (double-double, Dekker 1971).
#include "ir/math.h"
#include "ir/math_terms.h"

namespace riffle::ir {

using namespace terms;

namespace {

/// log(x) of an f64 x > 0, finite, to about 2^-65.
Pair log_pair(Term x) {
  const Split n = split_exponent(x);
  // s = f/(1+m), f = m − 1.
  const Term f = n.m - 1.0;
  const Term denominator = n.m + 1.0;
  const Term denominator_low = n.m - (denominator - 1.0);
  const Term s = f / denominator;
  const Term remainder = fma(-s, denominator_low, fma(-s, denominator, f));
  const Term s_low = remainder / denominator;
  // z = s²
  const Pair square = two_product(s, s);
  const Term z = square.high;
  const Term z_low = fma(s + s, s_low, square.low);
  // u = 2/3 + z·tail(z): beyond the leading term one f64 is enough.
  const Pair sum = fast_two_sum(z.like(0x1.5555555555555p-1), z * atanh_tail(z));
  const Term u = sum.high;
  const Term u_low = sum.low + 0x1.5555555555555p-55;
  // v = s·z·u
  const Pair cube = two_product(s, z);
  const Term cube_low = cube.low + fma(s, z_low, s_low * z);
  const Pair v = two_product(cube.high, u);
  const Term v_low = v.low + fma(cube.high, u_low, cube_low * u);
  // log m = 2s + v, then e·ln2, whose high part has few enough bits for an exact product.
  const Pair mantissa = fast_two_sum(s + s, v.high);
  const Term mantissa_low = mantissa.low + (v_low + (s_low + s_low));
  const Pair total = two_sum(n.e * 0x1.62e42fefa3800p-1, mantissa.high);
  return fast_two_sum(total.high, total.low + fma(n.e, 0x1.ef35793c76730p-45, mantissa_low));
}

/// e^(y·log(magnitude)) for f64, magnitude ≥ 0 or NaN.
Term power_of_magnitude(Term magnitude, Term y) {
  const Pair log = log_pair(magnitude);
  const Term high = log_special(magnitude, log.high);
  const Pair product = two_product(high, y);
  // Beyond these the result is infinite or zero, and the low part, perhaps NaN, means nothing.
  const Term inside = abs(product.high) < 746.0;
  const Term x = at_least(at_most(product.high, 710.0), -746.0);
  const Term low = select(inside, fma(log.low, y, product.low), x.like(0.0));
  // As exp, but 1 + r and what is below it are kept apart until the last sum.
  const Nearest k = nearest(x, 0x1.71547652b82fep0);
  const Term high_part = fma(-k.value, 0x1.62e42fefa39efp-1, x);
  const Term low_part = fma(-k.value, 0x1.abc9e3b39803fp-56, low);
  const Term r = high_part + low_part;
  const Pair one = fast_two_sum(x.like(1.0), high_part);
  return scale(one.high + (one.low + fma(r * r, exp_tail(r), low_part)), k.integer);
}

/// The same for f32 operands, in plain f64.
Term power_of_magnitude_f32(Term magnitude, Term y) {
  const Term wide = magnitude.cast(DType::f64);
  const Split n = split_exponent(wide);
  const Term log = log_special(wide, log_of_split(n.e, n.m - 1.0));
  const Term x = at_least(at_most(log * y.cast(DType::f64), 200.0), -200.0);
  const Reduced reduced = reduce_exp(x);
  const Term r = reduced.r;
  const Term tail =
      polynomial(r, {0x1.fffffffff121ep-2, 0x1.555555558a5c2p-3, 0x1.5555557e2c458p-5,
                     0x1.1111108d6266fp-7, 0x1.6c163b622f2bdp-10, 0x1.a01b75039eff1p-13,
                     0x1.a16edf09c5510p-16, 0x1.71010bd34aa89p-19});
  return ((fma(r * r, tail, r) + 1.0) * exp2_integer(reduced.k, x)).cast(DType::f32);
}

Term pow_of(Term x, Term y) {
  const Term magnitude = abs(x);
  Term result = x.wide() ? power_of_magnitude(magnitude, y) : power_of_magnitude_f32(magnitude, y);

  const Term integer = equal(floor(y), y);  // infinity is an even integer
  const Term half = y * 0.5;
  const Term odd = integer & !equal(floor(half), half);
  const Term sign = select(odd, sign_bits(x), x.bits_constant(0));
  result = (result.bits() ^ sign).bitcast(x.dtype());

  const Term finite_negative = (x < 0.0) & !equal(x, -kInfinity);
  result = select(finite_negative & !integer, x.like(kNaN), result);
  const Term is_one =
      equal(x, 1.0) | equal(y, 0.0) | (equal(magnitude, 1.0) & equal(abs(y), kInfinity));
  return select(is_one, x.like(1.0), result);
}

}  // namespace

Scalar math_pow(ScalarBuilder& b, Scalar x, Scalar y) {
  assert(x.dtype == y.dtype && is_floating(x.dtype));
  if (x.dtype == DType::f32 || x.dtype == DType::f64) return pow_of({&b, x}, {&b, y}).s;
  const Term result = pow_of({&b, b.cast(x, DType::f32)}, {&b, b.cast(y, DType::f32)});
  return b.cast(result.s, x.dtype);
}

}  // namespace riffle::ir
