// Where the lanes of a memory instruction point, checked, as host pointers. Shared by loads,
// stores, atomics and asynchronous copies.
#pragma once

#include <bit>

#include "emulator/execute/handlers.h"
#include "emulator/execute/shared_memory.h"

namespace emulator {

/// Addresses of all lanes (of those not in the mask too): row a plus imm.
inline void addresses(Warp& w, const Instruction& in, Row base, std::int64_t offset, bool narrow,
                      std::uint64_t* out) {
  if (narrow) {
    const std::uint32_t* a = row<std::uint32_t>(w, base);
    for (int l = 0; l < 32; ++l) out[l] = a[l] + static_cast<std::uint64_t>(offset);
  } else {
    const std::uint64_t* a = row<std::uint64_t>(w, base);
    for (int l = 0; l < 32; ++l) out[l] = a[l] + static_cast<std::uint64_t>(offset);
  }
}

/// Points each lane into what access(address, bytes, alignment) returns. Lanes that fill an aligned
/// 16-byte line together are one access, and so are neighbours at one address: LaunchMemory's fast
/// path takes at most a line. When a line fails, its lanes are tried alone, so that the fault names
/// the right one.
template <class Pointer, class Access>
inline void resolve_lanes(Warp& w, const std::uint64_t* address, std::uint32_t mask,
                          std::uint32_t bytes, Pointer* pointers, Access access) {
  constexpr std::uint32_t kLine = 16;
  const std::uint32_t together = bytes < kLine ? kLine / bytes : 1;
  std::uint32_t l = 0;
  while (l < 32) {
    if (!(mask >> l & 1)) {
      ++l;
      continue;
    }
    w.fault_lane = l;
    const std::uint64_t begin = address[l];
    if (l > 0 && (mask >> (l - 1) & 1) && address[l - 1] == begin) {
      pointers[l] = pointers[l - 1];
      ++l;
      continue;
    }
    if (together > 1 && begin % kLine == 0 && l + together <= 32) {
      std::uint32_t n = 1;
      while (n < together && (mask >> (l + n) & 1) && address[l + n] == begin + n * bytes) ++n;
      if (n == together) {
        try {
          const Pointer p = access(begin, kLine, kLine);
          for (std::uint32_t i = 0; i < n; ++i) pointers[l + i] = p + i * bytes;
          l += n;
          continue;
        } catch (const Fault&) {
          // The first lane that fails alone throws below.
          for (std::uint32_t i = 0; i < n; ++i) {
            w.fault_lane = l + i;
            pointers[l + i] = access(address[l + i], bytes, bytes);
          }
          l += n;
          continue;
        }
      }
    }
    pointers[l] = access(begin, bytes, bytes);
    ++l;
  }
}

inline std::uint32_t thread_of(const Warp& w, std::uint32_t lane) { return w.index * 32 + lane; }

/// Calls each(space, lanes) for the parts of `mask` whose generic addresses lie in one window, with
/// `address` made an offset in it.
template <class Each>
void by_window(std::uint64_t* address, std::uint32_t mask, Each each) {
  std::uint32_t global = 0, shared = 0, local = 0, param = 0;
  for (std::uint32_t m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t window = address[l] & kWindowMask;
    (window == kSharedWindow  ? shared
     : window == kLocalWindow ? local
     : window == kParamWindow ? param
                              : global) |= 1u << l;
    if (window == kSharedWindow || window == kLocalWindow || window == kParamWindow)
      address[l] &= ~kWindowMask;
  }
  if (global) each(ptx::Space::global, global);
  if (shared) each(ptx::Space::shared, shared);
  if (local) each(ptx::Space::local, local);
  if (param) each(ptx::Space::param, param);
}

}  // namespace emulator
