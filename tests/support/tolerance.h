// How close is close: the one table of tolerances.
//
// u is the unit roundoff of a dtype, half the distance from 1 to the next number: 2^-53, 2^-24,
// 2^-11, 2^-8 for f64, f32, f16, bf16. A value computed from exact inputs carries
//   * a rounding to its own dtype, and the roundings of the few primitives of that dtype that a
//     gradient is made of (a saved result, a product before a sum): 4 u;
//   * the roundings inside, in compute_dtype: a composite is some ten primitives and each
//   elementary
//     function has a few ulp, so 32 u of that dtype, and a sum over n terms drifts as √n, with a
//     factor of 4 for its tail: 4·√n u.
// Both are relative to the largest expected magnitude of the array too, because an element that
// cancels is as wrong as what it was made of.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ir/array.h"

namespace riffle::test {

struct Tolerance {
  double relative = 0;    ///< of the expected element
  double of_largest = 0;  ///< of the largest finite expected magnitude in the array
};

inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;  // integers and booleans are exact
  }
}

/// For a value of `dtype` that sums over about `terms` terms.
inline Tolerance tolerance(DType dtype, std::int64_t terms = 1) {
  const double inside = unit_roundoff(compute_dtype(dtype));
  const double bound =
      4 * unit_roundoff(dtype) +
      (32 + 4 * std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1)))) * inside;
  return {bound, bound};
}

/// Equal types; NaN where NaN, infinity where infinity, everything else within the tolerance.
/// `at_least` counts as the largest magnitude when the array has none: for a gradient, that of the
/// cotangent, since a rule that reads the rounded result errs in proportion to it.
inline ::testing::AssertionResult close(const ir::Array& actual, const ir::Array& expected,
                                        const Tolerance& tolerance, double at_least = 0) {
  if (actual.type != expected.type)
    return ::testing::AssertionFailure()
           << "is " << to_string(actual.type) << ", expected " << to_string(expected.type);
  double largest = at_least;
  for (double x : expected.data)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double a = actual.data[i], e = expected.data[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double allowed = tolerance.relative * std::fabs(e) + tolerance.of_largest * largest;
    if (!(std::isfinite(a) && std::isfinite(e) && std::fabs(a - e) <= allowed))
      return ::testing::AssertionFailure()
             << "element " << i << " is " << a << ", expected " << e << " ± " << allowed;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace riffle::test
