// Objects that a test leaks on purpose, left out of the leak checker's count.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define RIFFLE_CHECKS_LEAKS 1
#endif
#endif

namespace riffle::test {

/// What this thread allocates during its life is not counted as leaked.
class LeaksAllowed {
 public:
#if defined(RIFFLE_CHECKS_LEAKS)
  LeaksAllowed() { __lsan_disable(); }
  ~LeaksAllowed() { __lsan_enable(); }
#else
  LeaksAllowed() = default;
  ~LeaksAllowed() {}
#endif
  LeaksAllowed(const LeaksAllowed&) = delete;
  LeaksAllowed& operator=(const LeaksAllowed&) = delete;
};

}  // namespace riffle::test
