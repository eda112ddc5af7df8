// shfl, vote, match, redux: the loop calls these when every living lane of the member mask is here,
// with `mask` the lanes that take part.
#include <bit>

#include "emulator/execute/handlers.h"
#include "emulator/execute/shared_memory.h"

namespace emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T>
void match(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const T* a = row<T>(w, in.a);
  u32 result[32] = {}, p = 0;
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    for (u32 n = mask; n; n &= n - 1) {
      const int other = std::countr_zero(n);
      result[l] |= static_cast<u32>(a[l] == a[other]) << other;
    }
    if (in.imm == 1) {
      if (result[l] == mask)
        p |= 1u << l;
      else
        result[l] = 0;
    }
  }
  for (u32 m = mask; m; m &= m - 1)
    row<u32>(w, in.dst)[std::countr_zero(m)] = result[std::countr_zero(m)];
  written(w, in.dst, mask);
  if (in.flags & 1) set_predicate(w, extra_row(w, in, 0), p, mask);
}

}  // namespace

void shuffle(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.b, mask), check(w, in, in.c, mask);
  const u32* a = row<u32>(w, in.a);
  u32 result[32] = {}, p = 0, initialised = 0;
  const u32 known = w.init[in.a.slot];
  for (u32 m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const u32 b = row<u32>(w, in.b)[lane], c = row<u32>(w, in.c)[lane];
    const int bval = static_cast<int>(b & 31), cval = static_cast<int>(c & 31),
              segment = static_cast<int>(c >> 8 & 31);
    const int most = (lane & segment) | (cval & ~segment), least = lane & segment;
    int j = lane;
    bool inside = false;
    switch (in.imm) {
      case 0:
        j = lane - bval, inside = j >= most;
        break;
      case 1:
        j = lane + bval, inside = j <= most;
        break;
      case 2:
        j = lane ^ bval, inside = j <= most;
        break;
      default:
        j = least | (bval & ~segment), inside = j <= most;
    }
    if (!inside) j = lane;
    if (!(mask >> j & 1))
      fault(
          w, 1u << lane, FaultKind::invalid_lane,
          "lane " + std::to_string(lane) + " reads lane " + std::to_string(j) + ", which " +
              ((w.alive >> j & 1) ? "is not in the member mask" : "has exited or does not exist"));
    p |= static_cast<u32>(inside) << lane;
    result[lane] = a[j];
    initialised |= (known >> j & 1) << lane;
  }
  for (u32 m = mask; m; m &= m - 1)
    row<u32>(w, in.dst)[std::countr_zero(m)] = result[std::countr_zero(m)];
  written_as(w, in.dst, initialised, mask);
  if (in.flags & 1) set_predicate(w, extra_row(w, in, 0), p, mask);
}

void vote(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const u32 yes = (predicate(w, in.a) ^ (in.flags & 1 ? ~0u : 0u)) & mask;
  if (in.imm == 3) {
    for (u32 m = mask; m; m &= m - 1) row<u32>(w, in.dst)[std::countr_zero(m)] = yes;
    written(w, in.dst, mask);
    return;
  }
  const bool answer = in.imm == 0 ? yes == mask : in.imm == 1 ? yes != 0 : yes == mask || yes == 0;
  set_predicate(w, in.dst, answer ? ~0u : 0u, mask);
}

Handler select_match(ptx::Type type) {
  return type == ptx::Type::b32 ? match<u32> : type == ptx::Type::b64 ? match<u64> : nullptr;
}

void reduce_warp(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const u32* a = row<u32>(w, in.a);
  u32 result = a[std::countr_zero(mask)];
  const bool sign = in.flags & 1;
  for (u32 m = mask & (mask - 1); m; m &= m - 1) {
    const u32 v = a[std::countr_zero(m)];
    const bool smaller =
        sign ? static_cast<std::int32_t>(v) < static_cast<std::int32_t>(result) : v < result;
    switch (static_cast<Atomic>(in.imm)) {
      case Atomic::add:
        result += v;
        break;
      case Atomic::min:
        result = smaller ? v : result;
        break;
      case Atomic::max:
        result = smaller ? result : v;
        break;
      case Atomic::bit_and:
        result &= v;
        break;
      case Atomic::bit_or:
        result |= v;
        break;
      default:
        result ^= v;
    }
  }
  for (u32 m = mask; m; m &= m - 1) row<u32>(w, in.dst)[std::countr_zero(m)] = result;
  written(w, in.dst, mask);
}

void active_mask(Warp& w, const Instruction& in, u32 mask) {
  for (u32 m = mask; m; m &= m - 1) row<u32>(w, in.dst)[std::countr_zero(m)] = mask;
  written(w, in.dst, mask);
}

void synchronise_warp(Warp& w, const Instruction&, u32 mask) {
  w.block->shared->synchronise_lanes(w.index, mask, mask == w.alive);
}

}  // namespace emulator
