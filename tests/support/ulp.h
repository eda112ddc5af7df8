// Distance of a result from the exact value in units in the last place, and the bounds that
// docs/numerics.md states for the elementary functions. One table: tests and page must agree.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "ir/math.h"

namespace riffle::test {

/// |got − exact| in units of the last place of the exact value in a format of `precision` bits
/// (24, 53) whose smallest normal exponent is `minimum` (-126, -1022). NaN matches NaN; an overflow
/// must be the infinity that rounding gives or, as 1 ULP, its largest finite neighbour.
inline double ulp_distance(double got, long double exact, int precision, int minimum,
                           double largest) {
  const double wrong = std::numeric_limits<double>::infinity();
  if (exact != exact) return got != got ? 0 : wrong;
  if (got != got) return wrong;
  // Beyond the largest number by half an ULP, rounding gives infinity.
  const long double half = std::ldexp(1.0L, std::ilogb(largest) - precision);
  if (std::fabs(exact) >= static_cast<long double>(largest) + half) {
    if (std::signbit(got) != std::signbit(exact)) return wrong;
    return std::isinf(got) ? 0 : std::fabs(got) == largest ? 1 : wrong;
  }
  if (std::isinf(got))
    return static_cast<long double>(largest) - std::fabs(exact) < 2 * half ? 1 : wrong;
  int exponent = exact == 0 ? minimum : std::ilogb(exact);
  if (exponent < minimum) exponent = minimum;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - precision + 1));
}
inline double ulp_distance_f32(double got, long double exact) {
  return ulp_distance(got, exact, 24, -126, std::numeric_limits<float>::max());
}
inline double ulp_distance_f64(double got, long double exact) {
  return ulp_distance(got, exact, 53, -1022, std::numeric_limits<double>::max());
}

/// A function of one operand, what it should be, and its bounds in ULP. glibc's long double
/// functions are good to about 1e-19, 2^-10 of an f64's ULP.
struct UnaryFunction {
  const char* name;
  ir::Scalar (*emit)(ir::ScalarBuilder&, ir::Scalar);
  long double (*exact)(long double);
  double bound_f32, bound_f64;
};

inline long double exact_rsqrt(long double x) { return 1 / std::sqrt(x); }

inline constexpr UnaryFunction kUnaryFunctions[] = {
    {"exp", ir::math_exp, ::expl, 1.0, 1.0},
    {"expm1", ir::math_expm1, ::expm1l, 1.5, 2.0},
    {"log", ir::math_log, ::logl, 1.0, 1.0},
    {"log1p", ir::math_log1p, ::log1pl, 1.75, 1.75},
    {"sin", ir::math_sin, ::sinl, 1.75, 2.0},
    {"cos", ir::math_cos, ::cosl, 1.75, 2.0},
    {"tanh", ir::math_tanh, ::tanhl, 1.75, 1.75},
    {"erf", ir::math_erf, ::erfl, 1.5, 1.5},
    // Half an ULP from the root counts up to one in its reciprocal, and half from the division.
    {"rsqrt", ir::math_rsqrt, exact_rsqrt, 1.5, 1.5},
};
inline constexpr double kPowBoundF32 = 0.51, kPowBoundF64 = 0.75;

}  // namespace riffle::test
