// Conversions between f32 and the 16-bit floats, round to nearest even, denormals kept; and exact
// rounding of a double to any smaller format. NaNs become the canonical one of PTX.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

namespace emulator {

[[gnu::always_inline]] inline float from_bfloat16(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

[[gnu::always_inline]] inline std::uint16_t to_bfloat16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

[[gnu::always_inline]] inline float from_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7fff;
  // Normal: shift into place and rebase the exponent. Denormal: an exact multiplication.
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const auto denormal = __builtin_bit_cast(
      std::uint32_t, static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t bits = magnitude >= 0x7c00 ? special : magnitude >= 0x400 ? normal : denormal;
  return __builtin_bit_cast(float, sign | bits);
}

[[gnu::always_inline]] inline std::uint16_t to_float16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // Adding 0.5 leaves value / 2^-24, rounded to nearest even, in the low bits.
  const auto shifted =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f);
  const std::uint32_t denormal = shifted - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? denormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result |= sign;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7fffu : result);
}

struct FloatFormat {
  int precision;  ///< bits of significand with the hidden one
  int least;      ///< exponent of the smallest normal number
  double largest;
};
constexpr FloatFormat kFloat16{11, -14, 65504.0};
constexpr FloatFormat kBfloat16{8, -126, 0x1.fep127};
constexpr FloatFormat kTf32{11, -126, 0x1.ffcp127};

enum class Rounding : std::uint8_t { nearest, zero, down, up, nearest_away };

/// `value` rounded to the format (infinity where it overflows and the mode says so). Slow.
double round_to(double value, FloatFormat format, Rounding rounding);

/// a + b rounded to odd in double: rounding the result once more to at most 50 bits is then as
/// good as rounding the exact sum.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!(sum - sum == 0)) return sum;
  const double b_part = sum - a, a_part = sum - b_part;
  const double error = (a - a_part) + (b - b_part);
  auto bits = __builtin_bit_cast(std::uint64_t, sum);
  if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
  return __builtin_bit_cast(double, bits);
}

}  // namespace emulator
