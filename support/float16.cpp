#include "support/float16.h"

#include <cmath>

namespace riffle {
namespace {

/// The f32 nearest to `value` in round-to-odd: a second rounding to fewer bits is then exact
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
float round_to_odd(double value) noexcept {
  const float nearest = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = nearest;
  if (back == value || value != value || (bits & 1) != 0) return nearest;
  bits += std::fabs(back) < std::fabs(value) ? 1U : ~0U;
  return std::bit_cast<float>(bits);
}

}  // namespace

std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) {
    if (fraction != 0) fraction |= 0x200U;
    return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  }
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  if (fraction == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(fraction) - 21;  // brings the leading one to bit 10
  const auto biased = static_cast<std::uint32_t>(113 - shift);
  return std::bit_cast<float>(sign | (biased << 23) | (((fraction << shift) & 0x3ffU) << 13));
}

std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t result;
  if (magnitude > 0x7f800000U) {
    result = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x477ff000U) {  // at least 65520, the tie between the largest and 2^16
    result = 0x7c00U;
  } else if (magnitude >= 0x38800000U) {  // normal: at least 2^-14
    result = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  } else if (magnitude < 0x33000000U) {  // below 2^-25, half of the smallest denormal
    result = 0;
  } else {
    const std::uint32_t significand = (magnitude & 0x7fffffU) | 0x800000U;
    const std::uint32_t shift = 126 - (magnitude >> 23);  // units of 2^-24
    const std::uint32_t half = 1U << (shift - 1);
    result = (significand + half - 1 + ((significand >> shift) & 1U)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | result);
}

std::uint16_t f64_to_bf16(double value) noexcept { return f32_to_bf16(round_to_odd(value)); }
std::uint16_t f64_to_f16(double value) noexcept { return f32_to_f16(round_to_odd(value)); }

}  // namespace riffle
