// Whether this build runs under a sanitizer, where long suites do a tenth of their work.
#pragma once

#include <cstdint>

namespace riffle::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// `full` cases, or a tenth of them under a sanitizer.
constexpr std::uint64_t cases(std::uint64_t full) { return kSanitized ? (full + 9) / 10 : full; }

}  // namespace riffle::test
