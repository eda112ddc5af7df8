// Booleans as bytes: 0 and 1 and nothing else; kernels compute with them as numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace riffle {

/// The index of the first byte that is no boolean.
inline std::optional<std::size_t> first_bad_bool(std::span<const std::byte> bytes) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > std::byte{1}) return i;
  return std::nullopt;
}

}  // namespace riffle
