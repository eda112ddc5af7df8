// What a CPU does while it polls, and the floating-point state that kernels are promised.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace riffle::runtime::cpu {

inline void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Default floating-point state (round to nearest, denormals kept, exceptions masked) for its
/// lifetime; then the caller's again. A host program may have set flush-to-zero.
class DefaultFloatState {
 public:
#if defined(__x86_64__)
  DefaultFloatState() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultFloatState() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFloatState() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(0ul));
  }
  ~DefaultFloatState() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  unsigned long saved_;
#else
  DefaultFloatState() noexcept {}
  ~DefaultFloatState() {}

 public:
#endif
  DefaultFloatState(const DefaultFloatState&) = delete;
  DefaultFloatState& operator=(const DefaultFloatState&) = delete;
};

}  // namespace riffle::runtime::cpu
