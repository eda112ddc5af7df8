// Bit fields, permutations, carries, packing: one lane at a time.
#include <bit>
#include <chrono>
#include <type_traits>

#include "emulator/execute/handlers.h"

namespace emulator {
namespace {

using ptx::Type;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class F>
void each_lane(u32 mask, F f) {
  for (; mask; mask &= mask - 1) f(static_cast<u32>(std::countr_zero(mask)));
}

template <class T>
void extract(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  using U = std::make_unsigned_t<T>;
  constexpr u32 bits = sizeof(T) * 8;
  each_lane(mask, [&](u32 l) {
    const U a = row<U>(w, in.a)[l];
    const u32 position = row<u32>(w, in.b)[l] & 0xff, length = row<u32>(w, in.c)[l] & 0xff;
    const u32 last = std::min(position + length - 1, bits - 1);
    const bool sign =
        std::is_signed_v<T> && length > 0 && (a >> (length == 0 ? bits - 1 : last) & 1);
    U d = position >= bits ? 0 : static_cast<U>(a >> position);
    const u32 have = position >= bits ? 0 : std::min(length, bits - position);
    if (have < bits) {
      const U low = (U{1} << have) - 1;
      d = sign ? static_cast<U>(d | ~low) : static_cast<U>(d & low);
    }
    if (length == 0) d = 0;
    row<U>(w, in.dst)[l] = d;
  });
  written(w, in.dst, mask);
}

template <class U>
void insert(Warp& w, const Instruction& in, u32 mask) {
  const Row length_row = extra_row(w, in, 0);
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask),
      check(w, in, length_row, mask);
  constexpr u32 bits = sizeof(U) * 8;
  each_lane(mask, [&](u32 l) {
    const u32 position = row<u32>(w, in.c)[l] & 0xff, length = row<u32>(w, length_row)[l] & 0xff;
    U d = row<U>(w, in.b)[l];
    if (position < bits && length > 0) {
      const U low = length >= bits ? ~U{0} : static_cast<U>((U{1} << length) - 1);
      const U field = static_cast<U>(low << position);
      d = static_cast<U>((d & ~field) | (static_cast<U>(row<U>(w, in.a)[l] << position) & field));
    }
    row<U>(w, in.dst)[l] = d;
  });
  written(w, in.dst, mask);
}

template <class T>
void find_bit(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  using U = std::make_unsigned_t<T>;
  each_lane(mask, [&](u32 l) {
    U a = row<U>(w, in.a)[l];
    if (std::is_signed_v<T> && static_cast<T>(a) < 0) a = static_cast<U>(~a);
    const auto zeros = static_cast<u32>(std::countl_zero(a));
    row<u32>(w, in.dst)[l] = a == 0           ? ~0u
                             : (in.flags & 1) ? zeros
                                              : static_cast<u32>(sizeof(T) * 8) - 1 - zeros;
  });
  written(w, in.dst, mask);
}

template <class U>
void with_carry(Warp& w, const Instruction& in, u32 mask) {
  using Wide = unsigned __int128;
  using Signed = std::make_signed_t<U>;
  const bool product = in.flags & (kProductLow | kProductHigh);
  check(w, in, in.a, mask), check(w, in, in.b, mask);
  if (product) check(w, in, in.c, mask);
  constexpr u32 bits = sizeof(U) * 8;
  each_lane(mask, [&](u32 l) {
    U a = row<U>(w, in.a)[l], b = row<U>(w, in.b)[l];
    if (product) {
      if (in.flags & kProductLow)
        a = static_cast<U>(Wide{a} * b);
      else if (in.imm)
        a = static_cast<U>(static_cast<__int128>(static_cast<Signed>(a)) * static_cast<Signed>(b) >>
                           bits);
      else
        a = static_cast<U>(Wide{a} * b >> bits);
      b = row<U>(w, in.c)[l];
    }
    const u32 carry = (in.flags & kCarryIn) ? w.carry >> l & 1 : 0;
    // CC.CF of a subtraction is the borrow.
    const Wide sum = (in.flags & kSubtract) ? Wide{a} - b - carry : Wide{a} + b + carry;
    row<U>(w, in.dst)[l] = static_cast<U>(sum);
    if (in.flags & kCarryOut)
      w.carry = (w.carry & ~(1u << l)) | static_cast<u32>(sum >> bits & 1) << l;
  });
  written(w, in.dst, mask);
}

template <class T, class U, int significand>
void classify(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  u32 result = 0;
  constexpr int exponents = sizeof(U) * 8 - 1 - significand;
  each_lane(mask, [&](u32 l) {
    const U bits = row<U>(w, in.a)[l];
    const U exponent = bits >> significand & ((U{1} << exponents) - 1),
            fraction = bits & ((U{1} << significand) - 1);
    const bool special = exponent == (U{1} << exponents) - 1;
    const bool answers[] = {!special,
                            special && fraction == 0,
                            !(special && fraction),
                            special && fraction,
                            exponent != 0 && !special,
                            exponent == 0 && fraction != 0};
    result |= static_cast<u32>(answers[in.imm]) << l;
  });
  set_predicate(w, in.dst, result, mask);
}

u64 read_element(Warp& w, Row r, std::int64_t bytes, u32 l) {
  u64 value = 0;
  std::memcpy(&value, w.file + r.offset + static_cast<std::size_t>(bytes) * l,
              static_cast<std::size_t>(bytes));
  return value;
}

}  // namespace

void lop3(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  u32 result[32] = {};
  const u32 *a = row<u32>(w, in.a), *b = row<u32>(w, in.b), *c = row<u32>(w, in.c);
  for (u32 term = 0; term < 8; ++term) {
    if (!(in.imm >> term & 1)) continue;
    const u32 na = term & 4 ? 0 : ~0u, nb = term & 2 ? 0 : ~0u, nc = term & 1 ? 0 : ~0u;
    for (u32 l = 0; l < 32; ++l) result[l] |= (a[l] ^ na) & (b[l] ^ nb) & (c[l] ^ nc);
  }
  u32* d = row<u32>(w, in.dst);
  for (u32 l = 0; l < 32; ++l) d[l] = (mask >> l & 1) ? result[l] : d[l];
  written(w, in.dst, mask);
}

void prmt(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  each_lane(mask, [&](u32 l) {
    const u64 bytes = static_cast<u64>(row<u32>(w, in.b)[l]) << 32 | row<u32>(w, in.a)[l];
    const u32 c = row<u32>(w, in.c)[l], n = c & 3;
    u32 d = 0;
    for (u32 i = 0; i < 4; ++i) {
      u32 pick = 0;
      switch (in.imm) {
        case 0:
          pick = c >> (4 * i) & 0xf;
          break;
        case 1:
          pick = (n + i) & 7;
          break;
        case 2:
          pick = (n + 8 - i) & 7;
          break;
        case 3:
          pick = n;
          break;
        case 4:
          pick = std::max(i, n);
          break;
        case 5:
          pick = std::min(i, n);
          break;
        default:
          pick = (n & 1) * 2 + (i & 1);
      }
      u32 byte = static_cast<u32>(bytes >> (8 * (pick & 7)) & 0xff);
      if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
      d |= byte << (8 * i);
    }
    row<u32>(w, in.dst)[l] = d;
  });
  written(w, in.dst, mask);
}

Handler select_bfe(Type type) {
  switch (type) {
    case Type::u32:
      return extract<u32>;
    case Type::s32:
      return extract<std::int32_t>;
    case Type::u64:
      return extract<u64>;
    case Type::s64:
      return extract<std::int64_t>;
    default:
      return nullptr;
  }
}
Handler select_bfi(Type type) {
  return type == Type::b32 ? insert<u32> : type == Type::b64 ? insert<u64> : nullptr;
}
Handler select_bfind(Type type) {
  switch (type) {
    case Type::u32:
      return find_bit<u32>;
    case Type::s32:
      return find_bit<std::int32_t>;
    case Type::u64:
      return find_bit<u64>;
    case Type::s64:
      return find_bit<std::int64_t>;
    default:
      return nullptr;
  }
}
Handler select_carry(Type type) {
  return type == Type::u32 || type == Type::s32   ? with_carry<u32>
         : type == Type::u64 || type == Type::s64 ? with_carry<u64>
                                                  : nullptr;
}
Handler select_testp(Type type) {
  return type == Type::f32   ? classify<float, u32, 23>
         : type == Type::f64 ? classify<double, u64, 52>
                             : nullptr;
}

void fns(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  each_lane(mask, [&](u32 l) {
    const u32 bits = row<u32>(w, in.a)[l], base = row<u32>(w, in.b)[l];
    const auto offset = row<std::int32_t>(w, in.c)[l];
    u32 found = ~0u;
    if (base < 32) {
      if (offset == 0) {
        if (bits >> base & 1) found = base;
      } else {
        const int step = offset > 0 ? 1 : -1;
        auto left =
            offset > 0 ? static_cast<std::int64_t>(offset) : -static_cast<std::int64_t>(offset);
        for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step) {
          if (!(bits >> i & 1)) continue;
          if (--left == 0) {
            found = static_cast<u32>(i);
            break;
          }
        }
      }
    }
    row<u32>(w, in.dst)[l] = found;
  });
  written(w, in.dst, mask);
}

void dp4a(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  each_lane(mask, [&](u32 l) {
    const u32 a = row<u32>(w, in.a)[l], b = row<u32>(w, in.b)[l];
    u32 sum = row<u32>(w, in.c)[l];
    for (u32 i = 0; i < 32; i += 8) {
      const int x =
          in.flags & 1 ? static_cast<std::int8_t>(a >> i) : static_cast<int>(a >> i & 0xff);
      const int y =
          in.flags & 2 ? static_cast<std::int8_t>(b >> i) : static_cast<int>(b >> i & 0xff);
      sum += static_cast<u32>(x * y);
    }
    row<u32>(w, in.dst)[l] = sum;
  });
  written(w, in.dst, mask);
}

void pack(Warp& w, const Instruction& in, u32 mask) {
  u32 initialised = ~0u;
  const auto total = static_cast<std::size_t>(in.imm) * in.count;
  for (u32 e = 0; e < in.count; ++e) initialised &= w.init[extra_row(w, in, e).slot];
  each_lane(mask, [&](u32 l) {
    std::byte value[16];
    for (u32 e = 0; e < in.count; ++e) {
      const u64 element = read_element(w, extra_row(w, in, e), in.imm, l);
      std::memcpy(value + e * static_cast<std::size_t>(in.imm), &element,
                  static_cast<std::size_t>(in.imm));
    }
    std::memcpy(w.file + in.dst.offset + total * l, value, total);
  });
  written_as(w, in.dst, initialised, mask);
}

void unpack(Warp& w, const Instruction& in, u32 mask) {
  const auto total = static_cast<std::size_t>(in.imm) * in.count,
             size = static_cast<std::size_t>(in.imm);
  each_lane(mask, [&](u32 l) {
    std::byte value[16];
    std::memcpy(value, w.file + in.a.offset + total * l, total);
    for (u32 e = 0; e < in.count; ++e)
      std::memcpy(w.file + extra_row(w, in, e).offset + size * l, value + e * size, size);
  });
  for (u32 e = 0; e < in.count; ++e) written_as(w, extra_row(w, in, e), w.init[in.a.slot], mask);
}

void read_clock(Warp& w, const Instruction& in, u32 mask) {
  const auto now = static_cast<u64>(std::chrono::steady_clock::now().time_since_epoch().count());
  each_lane(mask, [&](u32 l) {
    std::memcpy(w.file + in.dst.offset + static_cast<std::size_t>(in.imm) * l, &now,
                static_cast<std::size_t>(in.imm));
  });
  written(w, in.dst, mask);
}

void forget(Warp& w, const Instruction& in, u32 mask) {
  for (u32 i = 0; i < static_cast<u32>(in.imm); ++i) w.init[extra_row(w, in, i).slot] &= ~mask;
}

void nothing(Warp&, const Instruction&, u32) {}

}  // namespace emulator
