// The elementary functions through the host evaluator: special values, boundaries, and a first
// check of the bounds. tests/codegen/scalar_llvm_test.cpp measures a million points in generated
// code.
#include "ir/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ir/scalar_eval.h"
#include "tests/support/ulp.h"

namespace riffle::ir {
namespace {

using test::kUnaryFunctions;
using test::UnaryFunction;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Scalar exact(DType dtype, double value) {
  EvalScalarBuilder b;
  const Scalar s = b.constant(dtype, value);
  EXPECT_TRUE(scalar_value(s) == value || value != value) << value;
  return s;
}
double evaluate(const UnaryFunction& f, DType dtype, double x) {
  EvalScalarBuilder b;
  return scalar_value(f.emit(b, exact(dtype, x)));
}
double evaluate_pow(DType dtype, double x, double y) {
  EvalScalarBuilder b;
  return scalar_value(math_pow(b, exact(dtype, x), exact(dtype, y)));
}

/// The same number, signs of zeros and all; every NaN equal.
testing::AssertionResult same(double got, double expected) {
  if (std::isnan(got) && std::isnan(expected)) return testing::AssertionSuccess();
  if (got == expected && std::signbit(got) == std::signbit(expected))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << got << " is not " << expected;
}

class MathOfDType : public testing::TestWithParam<DType> {};

TEST_P(MathOfDType, SpecialValues) {
  const DType d = GetParam();
  struct Row {
    Scalar (*emit)(ScalarBuilder&, Scalar);
    double x, expected;
  };
  const Row rows[] = {
      {math_exp, 0.0, 1},       {math_exp, -0.0, 1},       {math_exp, kInf, kInf},
      {math_exp, -kInf, 0},     {math_expm1, 0.0, 0.0},    {math_expm1, -0.0, -0.0},
      {math_expm1, kInf, kInf}, {math_expm1, -kInf, -1},   {math_log, 0.0, -kInf},
      {math_log, -0.0, -kInf},  {math_log, 1, 0.0},        {math_log, -1, kNaN},
      {math_log, kInf, kInf},   {math_log, -kInf, kNaN},   {math_log1p, 0.0, 0.0},
      {math_log1p, -0.0, -0.0}, {math_log1p, -1, -kInf},   {math_log1p, -2, kNaN},
      {math_log1p, kInf, kInf}, {math_log1p, -kInf, kNaN}, {math_sin, 0.0, 0.0},
      {math_sin, -0.0, -0.0},   {math_sin, kInf, kNaN},    {math_sin, -kInf, kNaN},
      {math_cos, 0.0, 1},       {math_cos, -0.0, 1},       {math_cos, kInf, kNaN},
      {math_cos, -kInf, kNaN},  {math_tanh, 0.0, 0.0},     {math_tanh, -0.0, -0.0},
      {math_tanh, kInf, 1},     {math_tanh, -kInf, -1},    {math_erf, 0.0, 0.0},
      {math_erf, -0.0, -0.0},   {math_erf, kInf, 1},       {math_erf, -kInf, -1},
      {math_rsqrt, 0.0, kInf},  {math_rsqrt, -0.0, -kInf}, {math_rsqrt, 4, 0.5},
      {math_rsqrt, kInf, 0},    {math_rsqrt, -1, kNaN},
  };
  EvalScalarBuilder b;
  for (const Row& row : rows) {
    const Scalar got = row.emit(b, exact(d, row.x));
    EXPECT_EQ(got.dtype, d);
    EXPECT_TRUE(same(scalar_value(got), row.expected)) << "row " << (&row - rows) << ", " << row.x;
  }
  for (const UnaryFunction& f : kUnaryFunctions)
    EXPECT_TRUE(std::isnan(evaluate(f, d, kNaN))) << f.name;
}

TEST_P(MathOfDType, PowHasTheSpecialCasesOfC) {
  const DType d = GetParam();
  const double values[] = {0.0,  -0.0, 1,    -1, 2,  -2,   3,     -3,  0.5,
                           -0.5, 1.5,  -1.5, 4,  -4, kInf, -kInf, kNaN};
  for (double x : values)
    for (double y : values) {
      const double expected = std::pow(x, y);
      const double got = evaluate_pow(d, x, y);
      if (expected != expected || expected == std::rint(expected)) {
        EXPECT_TRUE(same(got, expected)) << x << " ^ " << y;
      } else {
        const double ulp = d == DType::f64 ? 0x1p-53 : d == DType::f32 ? 0x1p-24 : 0x1p-8;
        EXPECT_NEAR(got, expected, 2 * ulp * std::fabs(expected)) << x << " ^ " << y;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MathOfDType,
                         testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Points near which a branch, a range or a rounding could go wrong.
std::vector<double> boundaries(DType dtype) {
  std::vector<double> points;
  const bool wide = dtype == DType::f64;
  const auto around = [&](double x) {
    double low = x, high = x;
    for (int i = 0; i < 3; ++i) {
      points.insert(points.end(), {low, high, -low, -high});
      if (wide) {
        low = std::nextafter(low, -kInf), high = std::nextafter(high, kInf);
      } else {
        low = std::nextafterf(static_cast<float>(low), -INFINITY);
        high = std::nextafterf(static_cast<float>(high), INFINITY);
      }
    }
  };
  const double ln2 = std::log(2.0), pi = std::acos(-1.0);
  for (double x :
       {0.0,  0.5, 0.55, 0.92, 1.0,  1.5,   2.0,   2.0 / 3, 4.0 / 3, std::sqrt(0.5), std::sqrt(2.0),
        4.0,  6.0, 10.0, 20.0, 87.3, 88.72, 103.9, 104.0,   709.78,  708.4,          745.1,
        746.0})
    around(wide ? x : static_cast<float>(x));
  for (int k = -150; k <= 150; ++k) around(wide ? k * ln2 / 2 : static_cast<float>(k * ln2 / 2));
  for (int k = 1; k <= 64; ++k) around(wide ? k * pi / 4 : static_cast<float>(k * pi / 4));
  const int low = wide ? -1074 : -149, high = wide ? 1023 : 127;
  for (int e = low; e <= high; ++e) around(std::ldexp(1.0, e));
  around(wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
  return points;
}

TEST(Math, BoundariesKeepTheBound) {
  for (const UnaryFunction& f : kUnaryFunctions)
    for (DType d : {DType::f32, DType::f64})
      for (double x : boundaries(d)) {
        const double got = evaluate(f, d, x);
        const long double expected = f.exact(x);
        if (d == DType::f32) {
          EXPECT_LE(test::ulp_distance_f32(got, expected), f.bound_f32) << f.name << " f32 " << x;
        } else {
          EXPECT_LE(test::ulp_distance_f64(got, expected), f.bound_f64) << f.name << " f64 " << x;
        }
      }
}

TEST(Math, PowKeepsTheBound) {
  constexpr std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  EvalScalarBuilder b;
  for (int i = 0; i < 50000; ++i) {
    // Near 1 with a large exponent, everywhere with a small one, and in between.
    const double range[] = {0.01, 1, 700}, exponent[] = {70000, 700, 2};
    const double x = std::exp(uniform(-range[i % 3], range[i % 3]));
    const double y = uniform(-exponent[i % 3], exponent[i % 3]);
    EXPECT_LE(test::ulp_distance_f64(evaluate_pow(DType::f64, x, y), powl(x, y)),
              test::kPowBoundF64)
        << x << " ^ " << y << ", seed " << seed;
    const auto xf = static_cast<float>(x), yf = static_cast<float>(y);
    EXPECT_LE(test::ulp_distance_f32(evaluate_pow(DType::f32, xf, yf), powl(xf, yf)),
              test::kPowBoundF32)
        << xf << " ^ " << yf << ", seed " << seed;
  }
}

TEST(Math, HalvesRoundTheF32ResultOnce) {
  EvalScalarBuilder b;
  for (const UnaryFunction& f : kUnaryFunctions)
    for (DType d : {DType::bf16, DType::f16})
      for (std::uint64_t bits = 0; bits < 0x10000; bits += 37) {
        const Scalar x = scalar_from_memory(d, bits);
        const Scalar wide = f.emit(b, b.cast(x, DType::f32));
        EXPECT_TRUE(same(scalar_value(f.emit(b, x)), scalar_value(b.cast(wide, d)))) << f.name;
      }
}

TEST(ScalarEval, IntegersWrapAndDivideWithoutTraps) {
  EvalScalarBuilder b;
  for (DType d : {DType::i32, DType::i64}) {
    const std::int64_t min = d == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                             : std::numeric_limits<std::int64_t>::min();
    const auto integer = [&](std::int64_t v) {
      return b.constant_bits(d, static_cast<std::uint64_t>(v));
    };
    EXPECT_EQ(scalar_value(b.div(integer(7), integer(0))), 0);
    EXPECT_EQ(scalar_value(b.div(integer(min), integer(-1))), 0);
    EXPECT_EQ(scalar_value(b.div(integer(-7), integer(2))), -3);
    EXPECT_EQ(scalar_value(b.abs(integer(min))), static_cast<double>(min));
    EXPECT_EQ(scalar_value(b.sub(integer(min), integer(1))),
              scalar_value(b.bit_xor(integer(min), integer(-1))));
  }
}

TEST(ScalarEval, ConversionsSaturateAndRoundOnce) {
  EvalScalarBuilder b;
  const auto to = [&](DType from, double v, DType d) {
    return scalar_value(b.cast(b.constant(from, v), d));
  };
  EXPECT_EQ(to(DType::f32, 1e20, DType::i32), 2147483647);
  EXPECT_EQ(to(DType::f32, -1e20, DType::i32), -2147483648.0);
  EXPECT_EQ(to(DType::f64, kNaN, DType::i64), 0);
  EXPECT_EQ(to(DType::f64, -2.9, DType::i32), -2);
  EXPECT_EQ(to(DType::f64, kNaN, DType::boolean), 1);
  EXPECT_EQ(to(DType::f32, -0.0, DType::boolean), 0);
  // A hair above the tie between 1 and 1 + 2^-7: f32 would round to the tie, then to even.
  EXPECT_EQ(to(DType::f64, 1 + 0x1p-8 + 0x1p-40, DType::bf16), 1 + 0x1p-7);
  EXPECT_EQ(to(DType::i32, 16777216 + 65536 + 1, DType::bf16), 16777216 + 131072);
}

}  // namespace
}  // namespace riffle::ir
