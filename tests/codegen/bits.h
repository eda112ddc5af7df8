// Comparing slots bit by bit.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codegen/kernel_spec.h"

namespace riffle::codegen::testing {

inline bool is_nan(DType dtype, const std::byte* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(size_of(dtype)));
  switch (dtype) {
    case DType::f32:
      return (bits & 0x7fffffffU) > 0x7f800000U;
    case DType::f64:
      return (bits & ~(1ULL << 63)) > 0x7ff0000000000000ULL;
    case DType::bf16:
      return (bits & 0x7fffU) > 0x7f80U;
    case DType::f16:
      return (bits & 0x7fffU) > 0x7c00U;
    default:
      return false;
  }
}

/// Equal bits, all NaNs equal; where they differ first.
inline ::testing::AssertionResult same(const Slot& slot, std::span<const std::byte> actual,
                                       std::span<const std::byte> expected) {
  const auto size = static_cast<std::size_t>(size_of(slot.type.dtype));
  for (std::size_t k = 0; k + size <= expected.size(); k += size) {
    if (std::memcmp(&actual[k], &expected[k], size) == 0) continue;
    if (is_nan(slot.type.dtype, &actual[k]) && is_nan(slot.type.dtype, &expected[k])) continue;
    std::uint64_t a = 0, e = 0;
    std::memcpy(&a, &actual[k], size);
    std::memcpy(&e, &expected[k], size);
    return ::testing::AssertionFailure()
           << slot.name << ' ' << to_string(slot.type) << " element " << k / size << ": "
           << fmt::format("{:#x}, expected {:#x}", a, e);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace riffle::codegen::testing
