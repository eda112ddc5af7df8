// bf16 and f16 ↔ f32 on the host: round to nearest even, denormals kept, integer code only.
#pragma once

#include <bit>
#include <cstdint>

namespace riffle {

inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t f32_to_bf16(float value) noexcept;  ///< NaN → quiet NaN
float f16_to_f32(std::uint16_t bits) noexcept;
std::uint16_t f32_to_f16(float value) noexcept;  ///< overflow → infinity
/// Straight from double: rounding once, not by way of f32.
std::uint16_t f64_to_bf16(double value) noexcept;
std::uint16_t f64_to_f16(double value) noexcept;

}  // namespace riffle
