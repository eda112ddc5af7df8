#include "support/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace riffle {
namespace {

float bits_to_f32(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// The value that `bits` stand for, from the definition of the format.
double value_of(std::uint16_t bits, int fraction_bits, int exponent_bits) {
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 2 * bias + 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

struct Format {
  const char* name;
  int fraction_bits, exponent_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*from_f32)(float);
  std::uint16_t (*from_f64)(double);

  double value(std::uint16_t bits) const { return value_of(bits, fraction_bits, exponent_bits); }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
};

class Float16 : public testing::TestWithParam<Format> {};

TEST_P(Float16, WidensEveryValueAsTheFormatDefines) {
  const Format& f = GetParam();
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = f.value(bits);
    const float got = f.widen(bits);
    if (expected != expected) {
      EXPECT_TRUE(std::isnan(got)) << i;
    } else {
      ASSERT_EQ(got, expected) << i;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << i;
    }
  }
}

TEST_P(Float16, RoundTripsEveryValue) {
  const Format& f = GetParam();
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = f.widen(bits);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(f.widen(f.from_f32(wide)))) << i;
      EXPECT_TRUE(std::isnan(f.widen(f.from_f64(wide)))) << i;
    } else {
      ASSERT_EQ(f.from_f32(wide), bits);
      ASSERT_EQ(f.from_f64(wide), bits);
    }
  }
}

TEST_P(Float16, RoundsEveryTieToEvenAndItsNeighboursToTheNearest) {
  const Format& f = GetParam();
  // Up to the step from the largest number to infinity, whose tie rounds to infinity.
  for (std::uint16_t low = 0; low < f.infinity(); ++low) {
    const double a = f.value(low);
    const double b = low + 1 == f.infinity()
                         ? a + (a - f.value(static_cast<std::uint16_t>(low - 1)))
                         : f.value(static_cast<std::uint16_t>(low + 1));
    const double tie = (a + b) / 2;
    const auto high = static_cast<std::uint16_t>(low + 1);
    const std::uint16_t even = (low & 1) != 0 ? high : low;
    const auto tie_f32 = static_cast<float>(tie);
    if (tie_f32 == tie) {  // all but some below the smallest bf16
      ASSERT_EQ(f.from_f32(tie_f32), even) << low;
      ASSERT_EQ(f.from_f32(-tie_f32), even | 0x8000) << low;
      ASSERT_EQ(f.from_f32(std::nextafter(tie_f32, 0.0F)), low) << low;
      ASSERT_EQ(f.from_f32(std::nextafter(tie_f32, INFINITY)), high) << low;
    }
    ASSERT_EQ(f.from_f64(tie), even) << low;
    ASSERT_EQ(f.from_f64(-tie), even | 0x8000) << low;
    // By way of f32 these would round to the tie first, and then perhaps the wrong way.
    ASSERT_EQ(f.from_f64(std::nextafter(tie, 0.0)), low) << low;
    ASSERT_EQ(f.from_f64(std::nextafter(tie, static_cast<double>(INFINITY))), high) << low;
  }
}

TEST_P(Float16, KeepsInfinitiesNaNsAndSignsOfZero) {
  const Format& f = GetParam();
  EXPECT_EQ(f.from_f32(INFINITY), f.infinity());
  EXPECT_EQ(f.from_f32(-INFINITY), f.infinity() | 0x8000);
  EXPECT_EQ(f.from_f32(0.0F), 0);
  EXPECT_EQ(f.from_f32(-0.0F), 0x8000);
  EXPECT_EQ(f.from_f64(1e300), f.infinity());
  EXPECT_EQ(f.from_f64(-1e300), f.infinity() | 0x8000);
  EXPECT_EQ(f.from_f64(1e-300), 0);
  // Payloads whose upper bits are zero must not become infinity.
  for (std::uint32_t payload : {0x00000001U, 0x00000fffU, 0x003fffffU, 0x00400000U, 0x007fffffU})
    for (std::uint32_t sign : {0U, 0x80000000U}) {
      const float nan = bits_to_f32(0x7f800000U | payload | sign);
      EXPECT_TRUE(std::isnan(f.widen(f.from_f32(nan)))) << payload;
      EXPECT_NE(f.from_f32(nan) & (1 << (f.fraction_bits - 1)), 0) << "quiet: " << payload;
    }
}

TEST_P(Float16, AgreesWithTheNearestValueOnRandomNumbers) {
  const Format& f = GetParam();
  constexpr std::uint64_t seed = 20;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200000; ++i) {
    const float x = bits_to_f32(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(x)) continue;
    const std::uint16_t got = f.from_f32(x);
    if ((got & 0x7fff) == f.infinity()) continue;  // the tie test covers the step to infinity
    const double error = std::fabs(f.value(got) - x);
    for (int step : {-1, 1}) {
      const auto other = static_cast<std::uint16_t>(got + step);
      if (((other ^ got) & 0x8000) != 0 || (other & 0x7fff) >= f.infinity()) continue;
      ASSERT_LE(error, std::fabs(f.value(other) - x)) << x << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float16,
                         testing::Values(Format{"bf16", 7, 8, bf16_to_f32, f32_to_bf16,
                                                f64_to_bf16},
                                         Format{"f16", 10, 5, f16_to_f32, f32_to_f16, f64_to_f16}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace riffle
