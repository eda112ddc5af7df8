// Shared by ir/math*.cpp: a Scalar that carries its builder, so that a formula
// reads like one. Every operator is one rounded operation of the builder; nothing else happens.
#pragma once

#include <cassert>
#include <initializer_list>

#include "ir/scalar_builder.h"

namespace riffle::ir::terms {

struct Term {
  ScalarBuilder* b = nullptr;
  Scalar s;

  DType dtype() const noexcept { return s.dtype; }
  bool wide() const noexcept { return s.dtype == DType::f64; }
  /// A constant of this term's dtype.
  Term like(double value) const { return {b, b->constant(s.dtype, value)}; }
  Term cast(DType to) const { return {b, b->cast(s, to)}; }
  Term bitcast(DType to) const { return {b, b->bitcast(s, to)}; }
  DType bits_dtype() const noexcept { return wide() ? DType::i64 : DType::i32; }
  Term bits() const { return bitcast(bits_dtype()); }
  Term bits_constant(std::uint64_t value) const {
    return {b, b->constant_bits(bits_dtype(), value)};
  }
};

inline Term operator+(Term a, Term b) { return {a.b, a.b->add(a.s, b.s)}; }
inline Term operator-(Term a, Term b) { return {a.b, a.b->sub(a.s, b.s)}; }
inline Term operator*(Term a, Term b) { return {a.b, a.b->mul(a.s, b.s)}; }
inline Term operator/(Term a, Term b) { return {a.b, a.b->div(a.s, b.s)}; }
inline Term operator+(Term a, double b) { return a + a.like(b); }
inline Term operator-(Term a, double b) { return a - a.like(b); }
inline Term operator-(double a, Term b) { return b.like(a) - b; }
inline Term operator*(Term a, double b) { return a * a.like(b); }
inline Term operator/(double a, Term b) { return b.like(a) / b; }
inline Term operator-(Term a) { return {a.b, a.b->neg(a.s)}; }
inline Term abs(Term a) { return {a.b, a.b->abs(a.s)}; }
inline Term sqrt(Term a) { return {a.b, a.b->sqrt(a.s)}; }
inline Term round_even(Term a) { return {a.b, a.b->round_even(a.s)}; }
inline Term floor(Term a) { return {a.b, a.b->floor(a.s)}; }
inline Term fma(Term a, Term b, Term c) { return {a.b, a.b->fma(a.s, b.s, c.s)}; }
inline Term fma(Term a, double b, Term c) { return fma(a, a.like(b), c); }
inline Term fma(Term a, Term b, double c) { return fma(a, b, a.like(c)); }
inline Term fma(Term a, double b, double c) { return fma(a, a.like(b), a.like(c)); }

inline Term compare(Compare how, Term a, Term b) { return {a.b, a.b->compare(how, a.s, b.s)}; }
inline Term operator<(Term a, Term b) { return compare(Compare::lt, a, b); }
inline Term operator>(Term a, Term b) { return compare(Compare::gt, a, b); }
inline Term operator<(Term a, double b) { return a < a.like(b); }
inline Term operator>(Term a, double b) { return a > a.like(b); }
inline Term equal(Term a, Term b) { return compare(Compare::eq, a, b); }
inline Term equal(Term a, double b) { return equal(a, a.like(b)); }
inline Term select(Term condition, Term a, Term b) {
  return {a.b, a.b->select(condition.s, a.s, b.s)};
}
inline Term operator&(Term a, Term b) { return {a.b, a.b->bit_and(a.s, b.s)}; }
inline Term operator|(Term a, Term b) { return {a.b, a.b->bit_or(a.s, b.s)}; }
inline Term operator^(Term a, Term b) { return {a.b, a.b->bit_xor(a.s, b.s)}; }
inline Term operator<<(Term a, int bits) { return {a.b, a.b->shift_left(a.s, bits)}; }
/// Arithmetic.
inline Term operator>>(Term a, int bits) { return {a.b, a.b->shift_right_arithmetic(a.s, bits)}; }
inline Term operator!(Term a) { return {a.b, a.b->bit_xor(a.s, a.b->constant(DType::boolean, 1))}; }

/// NaN stays NaN: `a` is returned unless it is beyond the bound.
inline Term at_most(Term a, double bound) { return select(a > bound, a.like(bound), a); }
inline Term at_least(Term a, double bound) { return select(a < bound, a.like(bound), a); }

/// Horner's rule; coefficients from the lowest power up.
inline Term polynomial(Term x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.end();
  Term sum = x.like(*--c);
  while (c != coefficients.begin()) sum = fma(sum, x, *--c);
  return sum;
}

/// The sign bit of x, and a value ≥ 0 with that sign.
inline Term sign_bits(Term x) {
  return x.bits() & x.bits_constant(x.wide() ? 1ULL << 63 : 1ULL << 31);
}
inline Term with_sign_of(Term magnitude, Term x) {
  return (magnitude.bits() | sign_bits(x)).bitcast(x.dtype());
}

inline constexpr double kInfinity = __builtin_huge_val();
inline constexpr double kNaN = __builtin_nan("");

/// function(x); bf16 and f16 compute in f32 and round once.
template <class Function>
Scalar through_f32(ScalarBuilder& b, Scalar x, Function function) {
  assert(is_floating(x.dtype));
  if (x.dtype == compute_dtype(x.dtype)) return function(Term{&b, x}).s;
  return b.cast(function(Term{&b, b.cast(x, DType::f32)}).s, x.dtype);
}

// ---- pairs whose sum is the value (double-double, Dekker 1971)
// -----------------------------------

struct Pair {
  Term high, low;
};

/// a + b exactly, |a| ≥ |b| or a = 0.
inline Pair fast_two_sum(Term a, Term b) {
  const Term sum = a + b;
  return {sum, b - (sum - a)};
}
/// a + b exactly.
inline Pair two_sum(Term a, Term b) {
  const Term sum = a + b;
  const Term part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
/// a·b exactly, unless it over- or underflows.
inline Pair two_product(Term a, Term b) {
  const Term product = a * b;
  return {product, fma(a, b, -product)};
}

// ---- powers of two -----------------------------------------------------------------------------

inline double power_of_two(int k) { return __builtin_ldexp(1.0, k); }
inline int fraction_bits(Term x) { return x.wide() ? 52 : 23; }
inline int exponent_bias(Term x) { return x.wide() ? 1023 : 127; }
/// 1.5·2^fraction_bits: adding it rounds to an integer, which the low bits then hold.
inline double rounding_magic(Term x) { return x.wide() ? 0x1.8p52 : 0x1.8p23; }

/// An integer near x·scale, as a float and as an integer of the same size. |x·scale| < 2^22.
struct Nearest {
  Term value, integer;
};
inline Nearest nearest(Term x, double scale) {
  const Term shifted = fma(x, scale, rounding_magic(x));
  return {shifted - rounding_magic(x), shifted.bits() - x.like(rounding_magic(x)).bits()};
}

/// 2^k for an integer k (same size as `like`) whose result is a normal number.
inline Term exp2_integer(Term k, Term like) {
  const Term bias{k.b, k.b->constant(k.dtype(), exponent_bias(like))};
  return ((k + bias) << fraction_bits(like)).bitcast(like.dtype());
}

/// e^x = 2^k·e^r with |r| ≤ ln2/2; x must be within the range that `nearest` allows.
struct Reduced {
  Term r, k;
};
inline Reduced reduce_exp(Term x) {
  const Nearest n = nearest(x, 0x1.71547652b82fep0);  // 1/ln2
  const Term minus = -n.value;
  if (x.wide())
    return {fma(minus, 0x1.abc9e3b39803fp-56, fma(minus, 0x1.62e42fefa39efp-1, x)), n.integer};
  return {fma(minus, -0x1.05c610p-29, fma(minus, 0x1.62e430p-1, x)), n.integer};
}

/// (e^r − 1 − r)/r² on |r| ≤ ln2/2.
inline Term exp_tail(Term r) {
  if (r.wide())
    return polynomial(r, {0x1.0000000000000p-1, 0x1.555555555555bp-3, 0x1.5555555555502p-5,
                          0x1.111111110ec1ap-7, 0x1.6c16c16c3077dp-10, 0x1.a01a01b398ff9p-13,
                          0x1.a01a0135fdf08p-16, 0x1.71ddefdc809e8p-19, 0x1.27e5b4ef8c3bdp-22,
                          0x1.af6c612c23f8ep-26, 0x1.1e3cdd8452633p-29});
  return polynomial(r,
                    {0x1.fffffcp-2, 0x1.555490p-3, 0x1.5558f4p-5, 0x1.123a6cp-7, 0x1.6a2352p-10});
}

/// value·2^k where the result may overflow or be denormal: one rounding, at the last product.
inline Term scale(Term value, Term k) {
  const Term half = k >> 1;
  return value * exp2_integer(half, value) * exp2_integer(k - half, value);
}

// ---- logarithms --------------------------------------------------------------------------------

/// x = 2^e·m with m in [2/3, 4/3) for f32, [√½, √2) for f64; x > 0, finite.
struct Split {
  Term e, m;
  Term exponent;  ///< e as an integer, not counting a denormal's scaling
};
inline Split split_exponent(Term x) {
  const int shift = fraction_bits(x);
  const Term tiny = x < (x.wide() ? 0x1p-1022 : 0x1p-126);
  const Term bits = select(tiny, x * (x.wide() ? 0x1p54 : 0x1p24), x).bits();
  const Term offset = x.bits_constant(x.wide() ? 0x3fe6a09e667f3bcdULL : 0x3f2aaaabULL);
  const Term exponent = (bits - offset) >> shift;
  const Term m = (bits - (exponent << shift)).bitcast(x.dtype());
  const Term e = exponent.cast(x.dtype());
  return {select(tiny, e - (x.wide() ? 54.0 : 24.0), e), m, exponent};
}

/// (log((1+s)/(1−s)) − 2s)/s³ as a polynomial of z = s², less its constant term 2/3, over z.
inline Term atanh_tail(Term z) {
  return polynomial(z, {0x1.999999999999ap-2, 0x1.2492492492451p-2, 0x1.c71c71c7257fap-3,
                        0x1.745d174016b11p-3, 0x1.3b13b378865a4p-3, 0x1.111081ffb34d6p-3,
                        0x1.e20f790c948d0p-4, 0x1.aaae8e72fdab9p-4, 0x1.c4b0697daa7dap-4});
}

/// e·ln2 + log(1+f), f as split_exponent's m − 1.
Term log_of_split(Term e, Term f);
/// log's values where log_of_split has none: x zero, negative, infinite or NaN.
Term log_special(Term x, Term result);

}  // namespace riffle::ir::terms
