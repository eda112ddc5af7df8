// atom and red: lane after lane, under a lock where other workers may reach the bytes.
#include <atomic>
#include <cmath>
#include <mutex>
#include <type_traits>

#include "emulator/execute/access.h"
#include "emulator/execute/atomic_locks.h"

namespace emulator {
namespace {

using ptx::Space;
using ptx::Type;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T>
T apply(Atomic operation, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (operation) {
    case Atomic::add:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    case Atomic::min:
      return old < b ? old : b;
    case Atomic::max:
      return old > b ? old : b;
    case Atomic::bit_and:
      return old & b;
    case Atomic::bit_or:
      return old | b;
    case Atomic::bit_xor:
      return old ^ b;
    case Atomic::exchange:
      return b;
    case Atomic::compare_swap:
      return old == b ? c : old;
    case Atomic::increment:
      return old >= b ? T(0) : static_cast<T>(old + 1);
    case Atomic::decrement:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  return old;
}

float finish(float a) { return a == a ? a : std::bit_cast<float>(0x7fffffffu); }

struct Single {  // atom.add.f32 on global memory flushes denormals no more since sm_60… keep them
  using Bits = u32;
  static u32 run(Atomic, u32 old, u32 b, u32) {
    return std::bit_cast<u32>(finish(std::bit_cast<float>(old) + std::bit_cast<float>(b)));
  }
};
struct Double {
  using Bits = u64;
  static u64 run(Atomic, u64 old, u64 b, u64) {
    return std::bit_cast<u64>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
  }
};
template <bool bfloat>
struct Half {
  using Bits = u16;
  static u16 run(Atomic operation, u16 old, u16 b, u16) {
    const float x = bfloat ? from_bfloat16(old) : from_float16(old),
                y = bfloat ? from_bfloat16(b) : from_float16(b);
    const float r = operation == Atomic::min   ? std::fmin(x, y)
                    : operation == Atomic::max ? std::fmax(x, y)
                                               : x + y;
    return bfloat ? to_bfloat16(r) : to_float16(r);
  }
};
template <bool bfloat>
struct HalfPair {
  using Bits = u32;
  static u32 run(Atomic operation, u32 old, u32 b, u32) {
    const u16 low = Half<bfloat>::run(operation, static_cast<u16>(old), static_cast<u16>(b), 0);
    const u16 high =
        Half<bfloat>::run(operation, static_cast<u16>(old >> 16), static_cast<u16>(b >> 16), 0);
    return static_cast<u32>(high) << 16 | low;
  }
};
template <class T>
struct Integer {
  using Bits = T;
  static T run(Atomic operation, T old, T b, T c) { return apply<T>(operation, old, b, c); }
};

template <class F, Space space, Atomic operation>
void atomic(Warp& w, const Instruction& in, u32 mask) {
  using T = typename F::Bits;
  check(w, in, in.a, mask), check(w, in, in.b, mask);
  if (operation == Atomic::compare_swap) check(w, in, in.c, mask);
  u64 address[32];
  addresses(w, in, in.a, in.imm, in.flags & kAddress32, address);
  const auto update = [&](std::byte* place, u32 l) {
    T old;
    std::memcpy(&old, place, sizeof old);
    const T value = F::run(operation, old, row<T>(w, in.b)[l],
                           operation == Atomic::compare_swap ? row<T>(w, in.c)[l] : T(0));
    std::memcpy(place, &value, sizeof value);
    if (!(in.flags & kNoResult)) row<T>(w, in.dst)[l] = old;
  };
  const auto part = [&](Space where, u32 lanes) {
    for (; lanes; lanes &= lanes - 1) {
      const auto l = static_cast<u32>(std::countr_zero(lanes));
      w.fault_lane = l;
      if (where == Space::global) {
        const AtomicLocks::Hold hold(*static_cast<AtomicLocks*>(w.block->atomics), address[l]);
        update(w.block->memory->update(address[l], sizeof(T), sizeof(T)), l);
      } else if (where == Space::shared) {
        update(w.block->shared->update(thread_of(w, l), address[l], sizeof(T), sizeof(T)), l);
      } else {
        throw make_fault(FaultKind::illegal_address,
                         "atomic operation outside global and shared memory");
      }
    }
  };
  if (space == Space::generic)
    by_window(address, mask, part);
  else
    part(space, mask);
  if (!(in.flags & kNoResult)) written(w, in.dst, mask);
}

template <class F, Atomic operation>
Handler in_space(Space space) {
  switch (space) {
    case Space::global:
      return atomic<F, Space::global, operation>;
    case Space::shared:
      return atomic<F, Space::shared, operation>;
    case Space::generic:
      return atomic<F, Space::generic, operation>;
    default:
      return nullptr;
  }
}

template <class T>
Handler arithmetic(Space space, Atomic operation) {
  switch (operation) {
    case Atomic::add:
      return in_space<Integer<T>, Atomic::add>(space);
    case Atomic::min:
      return in_space<Integer<T>, Atomic::min>(space);
    case Atomic::max:
      return in_space<Integer<T>, Atomic::max>(space);
    case Atomic::increment:
      return std::is_same_v<T, u32> ? in_space<Integer<T>, Atomic::increment>(space) : nullptr;
    case Atomic::decrement:
      return std::is_same_v<T, u32> ? in_space<Integer<T>, Atomic::decrement>(space) : nullptr;
    default:
      return nullptr;
  }
}
template <class T>
Handler bitwise(Space space, Atomic operation) {
  switch (operation) {
    case Atomic::bit_and:
      return in_space<Integer<T>, Atomic::bit_and>(space);
    case Atomic::bit_or:
      return in_space<Integer<T>, Atomic::bit_or>(space);
    case Atomic::bit_xor:
      return in_space<Integer<T>, Atomic::bit_xor>(space);
    case Atomic::exchange:
      return in_space<Integer<T>, Atomic::exchange>(space);
    case Atomic::compare_swap:
      return in_space<Integer<T>, Atomic::compare_swap>(space);
    default:
      return nullptr;
  }
}
template <class F>
Handler half(Space space, Atomic operation) {
  switch (operation) {
    case Atomic::add:
      return in_space<F, Atomic::add>(space);
    case Atomic::min:
      return in_space<F, Atomic::min>(space);
    case Atomic::max:
      return in_space<F, Atomic::max>(space);
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_atomic(Space space, Atomic operation, Type type) {
  switch (type) {
    case Type::u32:
      return arithmetic<u32>(space, operation);
    case Type::s32:
      return arithmetic<std::int32_t>(space, operation);
    case Type::u64:
      return arithmetic<u64>(space, operation);
    case Type::s64:
      return arithmetic<std::int64_t>(space, operation);
    case Type::b32:
      return bitwise<u32>(space, operation);
    case Type::b64:
      return bitwise<u64>(space, operation);
    case Type::b16:
      return operation == Atomic::compare_swap ? in_space<Integer<u16>, Atomic::compare_swap>(space)
                                               : nullptr;
    case Type::f32:
      return operation == Atomic::add ? in_space<Single, Atomic::add>(space) : nullptr;
    case Type::f64:
      return operation == Atomic::add ? in_space<Double, Atomic::add>(space) : nullptr;
    case Type::f16:
      return half<Half<false>>(space, operation);
    case Type::bf16:
      return half<Half<true>>(space, operation);
    case Type::f16x2:
      return half<HalfPair<false>>(space, operation);
    case Type::bf16x2:
      return half<HalfPair<true>>(space, operation);
    default:
      return nullptr;
  }
}

}  // namespace emulator
