// How much work long suites do: RIFFLE_TEST_SCALE times what they do in full, which is what they do
// when it is unset; a tenth under a sanitizer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "tests/support/sanitizer.h"

namespace riffle::test {

inline double scale() {
  const char* text = std::getenv("RIFFLE_TEST_SCALE");
  const double given = text == nullptr ? 0 : std::strtod(text, nullptr);
  return given > 0 ? given : kSanitized ? 0.1 : 1.0;
}

/// At least 1.
inline std::uint64_t scaled(std::uint64_t full) {
  return std::max<std::uint64_t>(1, std::llround(scale() * static_cast<double>(full)));
}

}  // namespace riffle::test
