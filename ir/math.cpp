// Polynomials come from scripts/fit_math.py. Start at ir/math_terms.h: the notation, and what exp
// and log share. Comments give what each step costs in accuracy; docs/numerics.md the totals.
#include "ir/math.h"

#include "ir/math_terms.h"

namespace riffle::ir {

using namespace terms;

namespace terms {

Term log_of_split(Term e, Term f) {
  if (f.wide()) {
    // s = f/(2+f): log(1+f) = 2s + s³·T(s²), with 2s = f − f²/2 + s·f²/2 so that f leads exactly.
    const Term s = f / (f + 2.0);
    const Term z = s * s;
    const Term half_square = f * f * 0.5;
    const Term tail = z * fma(z, atanh_tail(z), 0x1.5555555555555p-1);
    const Term small = fma(s, half_square + tail, e * 0x1.ef35793c76730p-45);
    return fma(e, 0x1.62e42fefa3800p-1, f - (half_square - small));
  }
  const Term tail =
      polynomial(f, {-0.5, 0x1.555506p-2, -0x1.fffef2p-3, 0x1.99d04cp-3, -0x1.559d8ap-3,
                     0x1.1ed4aap-3, -0x1.f31940p-4, 0x1.1e7394p-3, -0x1.07f22ap-3});
  const Term small = fma(f * f, tail, e * -0x1.05c610p-29);
  return fma(e, 0x1.62e430p-1, f + small);
}

Term log_special(Term x, Term result) {
  result = select(equal(x, kInfinity), x, result);
  result = select(equal(x, 0.0), x.like(-kInfinity), result);
  // Negative or NaN. The comparison is ordered, so its negation holds for NaN too.
  return select(!compare(Compare::ge, x, x.like(0.0)), x.like(kNaN), result);
}

}  // namespace terms

namespace {

/// e^x where the result is a normal number: no range checks.
Term exp_normal(Term x) {
  const Reduced n = reduce_exp(x);
  const Term mantissa = fma(n.r * n.r, exp_tail(n.r), n.r) + 1.0;
  return mantissa * exp2_integer(n.k, x);
}

Term exp_of(Term x) {
  // Beyond these the result is infinite or zero, and stays so.
  x = x.wide() ? at_least(at_most(x, 710.0), -746.0) : at_least(at_most(x, 89.0), -104.0);
  const Reduced n = reduce_exp(x);
  return scale(fma(n.r * n.r, exp_tail(n.r), n.r) + 1.0, n.k);
}

Term expm1_of(Term x) {
  const Term bounded =
      x.wide() ? at_least(at_most(x, 710.0), -40.0) : at_least(at_most(x, 89.0), -20.0);
  const Reduced n = reduce_exp(bounded);
  const Term p = fma(n.r * n.r, exp_tail(n.r), n.r);
  // 2^k·p + (2^k − 1), at half scale because 2^128 (2^1024) is infinite.
  const Term one{n.k.b, n.k.b->constant(n.k.dtype(), 1)};
  const Term half_scale = exp2_integer(n.k - one, x);
  const Term result = fma(half_scale, p, half_scale - 0.5) * 2.0;
  // Tiny: halving would lose a denormal's last bit, and −0.
  return select(abs(x) < (x.wide() ? 0x1p-54 : 0x1p-25), x, result);
}

Term log_of(Term x) {
  const Split n = split_exponent(x);
  return log_special(x, log_of_split(n.e, n.m - 1.0));
}

Term log1p_of(Term x) {
  const Term u = x + 1.0;
  // What the sum lost, exactly (Dekker's Fast2Sum: the larger operand first).
  const Term lost = select(abs(x) < 1.0, x - (u - 1.0), 1.0 - (u - x));
  const Split n = split_exponent(u);
  // Past 2^60 the lost part no longer counts, and 2^-e would leave the normal numbers.
  const Term exponent = at_most(n.exponent, 60.0);
  const Term f = fma(lost, exp2_integer(-exponent, x), n.m - 1.0);
  const Term result = log_special(u, log_of_split(n.e, f));
  return select(equal(x, 0.0), x, result);  // −0
}

Term tanh_of(Term x) {
  const Term a = abs(x);
  const Term e = exp_normal(at_most(a, x.wide() ? 20.0 : 10.0) * 2.0);
  const Term large = 1.0 - 2.0 / (e + 1.0);
  const Term z = a * a;
  const Term tail =
      x.wide()
          ? polynomial(z, {-0x1.5555555555555p-2, 0x1.11111111110b4p-3, -0x1.ba1ba1ba14728p-5,
                           0x1.664f488085664p-6, -0x1.226e34f626c3bp-7, 0x1.d6d3b89cba8abp-9,
                           -0x1.7da180b208eb9p-10, 0x1.353e535b6b741p-11, -0x1.f39604ce6c687p-13,
                           0x1.8a3102dfa2d65p-14, -0x1.14b29efd789f8p-15, 0x1.f491fdb624359p-18})
          : polynomial(
                z, {-0x1.55554cp-2, 0x1.110d3cp-3, -0x1.b92bbap-5, 0x1.595688p-6, -0x1.9bba6ep-8});
  const Term small = fma(a * z, tail, a);
  return with_sign_of(select(a > 0.55, large, small), x);
}

Term erf_of(Term x) {
  const Term a = abs(x);
  const Term z = a * a;
  // Small: a + a·P(a²). Large: 1 − e^g(a), where e^g is erfc, so its error counts little.
  const Term small_tail =
      x.wide()
          ? polynomial(z, {0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b20p-4,
                           -0x1.b82ce3128499cp-6, 0x1.565bcd0db02d3p-8, -0x1.c02db3d8ecfddp-11,
                           0x1.f9a321a11a2d9p-14, -0x1.f4d1df390fe4cp-17, 0x1.b9def19b5ef42p-20,
                           -0x1.5f1d36af120c1p-23, 0x1.f7a41176eccc8p-27, -0x1.386abec93f42ap-30,
                           0x1.0579a5ded2601p-34})
          : polynomial(z, {0x1.06eba6p-3, -0x1.8126e8p-2, 0x1.ce1abap-4, -0x1.b68ff4p-6,
                           0x1.475756p-8, -0x1.3a8aa2p-11});
  const Term small = fma(a, small_tail, a);
  const Term g =
      x.wide() ? polynomial(at_most(a, 6.0) - 1.5,
                            {-0x1.b137096b18e96p+1,  -0x1.c1206279e92bdp+1,  -0x1.c90827462a1bbp-1,
                             -0x1.a71a4bde024e1p-6,  0x1.89a87b4929a61p-8,   -0x1.4992623564217p-10,
                             0x1.c4e86a77e47e8p-13,  -0x1.790bc40bee803p-16, -0x1.634062d0c698cp-19,
                             0x1.3e359718be816p-19,  -0x1.b793c11d83bb9p-21, 0x1.9d9b485880639p-23,
                             -0x1.de4ccba278be1p-26, -0x1.2ee3b48a340dfp-30, 0x1.47777a959f749p-29,
                             -0x1.02efcb67a92f4p-30, 0x1.08bf05ae99792p-32,  -0x1.7cb248330fc4ap-35,
                             0x1.743493780aebdp-38,  -0x1.bbc3882c0e6e8p-42, 0x1.e56c826638329p-47})
               : polynomial(at_most(a, 4.0),
                            {0x1.70d60ep-13, -0x1.212846p+0, -0x1.444470p-1, -0x1.bb927cp-4,
                             0x1.9bb542p-6, -0x1.119738p-8, 0x1.c85d7ep-12, -0x1.630bd2p-16});
  const Term large = 1.0 - exp_normal(g);
  return with_sign_of(select(a > (x.wide() ? 1.0 : 0.92), large, small), x);
}

Term rsqrt_of(Term x) { return 1.0 / sqrt(x); }

}  // namespace

Scalar math_exp(ScalarBuilder& b, Scalar x) { return through_f32(b, x, exp_of); }
Scalar math_expm1(ScalarBuilder& b, Scalar x) { return through_f32(b, x, expm1_of); }
Scalar math_log(ScalarBuilder& b, Scalar x) { return through_f32(b, x, log_of); }
Scalar math_log1p(ScalarBuilder& b, Scalar x) { return through_f32(b, x, log1p_of); }
Scalar math_tanh(ScalarBuilder& b, Scalar x) { return through_f32(b, x, tanh_of); }
Scalar math_erf(ScalarBuilder& b, Scalar x) { return through_f32(b, x, erf_of); }
Scalar math_rsqrt(ScalarBuilder& b, Scalar x) { return through_f32(b, x, rsqrt_of); }

}  // namespace riffle::ir
