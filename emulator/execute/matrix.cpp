// ldmatrix, stmatrix and mma.sync. Fragment layouts: PTX ISA 9.7.14 (warp-level matrix
// instructions); g is lane / 4, t is lane % 4.
#include <bit>

#include "emulator/execute/access.h"

namespace emulator {
namespace {

using ptx::Type;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

void need_whole_warp(Warp& w, u32 mask, const char* what) {
  if (mask != kAllLanes)
    fault(w, ~mask, FaultKind::invalid_lane, std::string(what) + " needs all 32 lanes");
}

Row element(const Warp& w, const Instruction& in, u32 e, Row first) {
  return e == 0 ? first : extra_row(w, in, e - 1);
}

/// Addresses of the rows: lane 8 i + r gives row r of matrix i.
void row_addresses(Warp& w, const Instruction& in, u64* address) {
  check(w, in, in.a, in.count == 1 ? 0xffu : in.count == 2 ? 0xffffu : ~0u);
  addresses(w, in, in.a, in.imm, in.flags & kAddress32, address);
  for (u32 l = 0; l < 8u * in.count; ++l) {
    if ((address[l] & kWindowMask) == kSharedWindow) address[l] &= ~kWindowMask;
  }
}

template <class Float>
struct Operands {
  Float a[16][16], b[16][8];
};

template <Type type>
float read16(u32 bits) {
  return type == Type::bf16 ? from_bfloat16(static_cast<u16>(bits))
                            : from_float16(static_cast<u16>(bits));
}

/// One rounding a product sum: the order of accumulation is unspecified, k ascending is ours.
template <int k>
void accumulate(const float (&a)[16][16], const float (&b)[16][8], float (&c)[16][8]) {
  for (int i = 0; i < 16; ++i)
    for (int kk = 0; kk < k; ++kk)
      for (int j = 0; j < 8; ++j) c[i][j] += a[i][kk] * b[kk][j];
}

/// m16n8k8 and m16n8k16 with f16 or bf16 inputs; k4 and k8 with tf32. Extra rows: d, a, b, c.
template <int k, Type in_type, Type sum_type>
void mma(Warp& w, const Instruction& in, u32 mask) {
  need_whole_warp(w, mask, "mma");
  constexpr bool narrow = in_type != Type::tf32;
  constexpr u32 na = narrow ? k / 4 : k / 2, nb = na / 2, nc = sum_type == Type::f32 ? 4 : 2;
  const auto at = [&](u32 i) { return extra_row(w, in, i); };
  for (u32 i = nc; i < nc + na + nb + nc; ++i) check(w, in, at(i), mask);
  float a[16][16], b[16][8], c[16][8];
  for (u32 r = 0; r < na; ++r) {
    const u32* v = row<u32>(w, at(nc + r));
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4 + (r & 1) * 8, t = l % 4;
      if (narrow) {
        const u32 column = 2 * t + (r / 2) * 8;
        a[g][column] = read16<in_type>(v[l] & 0xffff);
        a[g][column + 1] = read16<in_type>(v[l] >> 16);
      } else {
        a[g][t + (r / 2) * 4] =
            std::bit_cast<float>(v[l] & 0xffffe000u);  // the hardware reads 19 bits
      }
    }
  }
  for (u32 r = 0; r < nb; ++r) {
    const u32* v = row<u32>(w, at(nc + na + r));
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4, t = l % 4;
      if (narrow) {
        b[2 * t + r * 8][g] = read16<in_type>(v[l] & 0xffff);
        b[2 * t + r * 8 + 1][g] = read16<in_type>(v[l] >> 16);
      } else {
        b[t + r * 4][g] = std::bit_cast<float>(v[l] & 0xffffe000u);
      }
    }
  }
  for (u32 r = 0; r < nc; ++r) {
    const Row from = at(nc + na + nb + r);
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4, t = l % 4;
      if (sum_type == Type::f32) {
        c[g + (r / 2) * 8][2 * t + (r & 1)] = row<float>(w, from)[l];
      } else {
        c[g + r * 8][2 * t] = from_float16(static_cast<u16>(row<u32>(w, from)[l]));
        c[g + r * 8][2 * t + 1] = from_float16(static_cast<u16>(row<u32>(w, from)[l] >> 16));
      }
    }
  }
  accumulate<k>(a, b, c);
  for (u32 r = 0; r < nc; ++r) {
    const Row to = at(r);
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4, t = l % 4;
      if (sum_type == Type::f32) {
        const float v = c[g + (r / 2) * 8][2 * t + (r & 1)];
        row<float>(w, to)[l] = v == v ? v : std::bit_cast<float>(0x7fffffffu);
      } else {
        row<u32>(w, to)[l] = static_cast<u32>(to_float16(c[g + r * 8][2 * t + 1])) << 16 |
                             to_float16(c[g + r * 8][2 * t]);
      }
    }
    written(w, to, mask);
  }
}

/// m16n8k16 and m16n8k32 of s8 and u8 with s32 sums.
template <int k, bool signed_a, bool signed_b>
void mma_bytes(Warp& w, const Instruction& in, u32 mask) {
  need_whole_warp(w, mask, "mma");
  constexpr u32 na = k / 8, nb = k / 16, nc = 4;
  const auto at = [&](u32 i) { return extra_row(w, in, i); };
  for (u32 i = nc; i < nc + na + nb + nc; ++i) check(w, in, at(i), mask);
  int a[16][32], b[32][8];
  u32 c[16][8];
  const auto byte = [](u32 v, u32 i, bool sign) {
    return sign ? static_cast<std::int8_t>(v >> (8 * i)) : static_cast<int>(v >> (8 * i) & 0xff);
  };
  for (u32 l = 0; l < 32; ++l) {
    const u32 g = l / 4, t = l % 4;
    for (u32 r = 0; r < na; ++r)
      for (u32 i = 0; i < 4; ++i)
        a[g + (r & 1) * 8][4 * t + i + (r / 2) * 16] =
            byte(row<u32>(w, at(nc + r))[l], i, signed_a);
    for (u32 r = 0; r < nb; ++r)
      for (u32 i = 0; i < 4; ++i)
        b[4 * t + i + r * 16][g] = byte(row<u32>(w, at(nc + na + r))[l], i, signed_b);
    for (u32 r = 0; r < nc; ++r)
      c[g + (r / 2) * 8][2 * t + (r & 1)] = row<u32>(w, at(nc + na + nb + r))[l];
  }
  for (int i = 0; i < 16; ++i)
    for (int kk = 0; kk < k; ++kk)
      for (int j = 0; j < 8; ++j) c[i][j] += static_cast<u32>(a[i][kk] * b[kk][j]);
  for (u32 r = 0; r < nc; ++r) {
    for (u32 l = 0; l < 32; ++l)
      row<u32>(w, at(r))[l] = c[l / 4 + (r / 2) * 8][2 * (l % 4) + (r & 1)];
    written(w, at(r), mask);
  }
}

template <int k>
Handler bytes_of(Type a, Type b) {
  if (a == Type::s8)
    return b == Type::s8   ? mma_bytes<k, true, true>
           : b == Type::u8 ? mma_bytes<k, true, false>
                           : nullptr;
  if (a == Type::u8)
    return b == Type::s8   ? mma_bytes<k, false, true>
           : b == Type::u8 ? mma_bytes<k, false, false>
                           : nullptr;
  return nullptr;
}

}  // namespace

void load_matrix(Warp& w, const Instruction& in, u32 mask) {
  need_whole_warp(w, mask, "ldmatrix");
  u64 address[32];
  row_addresses(w, in, address);
  u16 tile[8][8];
  u32 result[4][32];
  for (u32 i = 0; i < in.count; ++i) {
    for (u32 r = 0; r < 8; ++r) {
      w.fault_lane = 8 * i + r;
      std::memcpy(tile[r],
                  w.block->shared->read(thread_of(w, 8 * i + r), address[8 * i + r], 16, 16,
                                        SharedMemory::Access::weak),
                  16);
    }
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4, t = 2 * (l % 4);
      result[i][l] = in.flags & kTransposed ? static_cast<u32>(tile[t + 1][g]) << 16 | tile[t][g]
                                            : static_cast<u32>(tile[g][t + 1]) << 16 | tile[g][t];
    }
  }
  for (u32 i = 0; i < in.count; ++i) {
    const Row d = element(w, in, i, in.dst);
    std::memcpy(w.file + d.offset, result[i], sizeof result[i]);
    written(w, d, mask);
  }
}

void store_matrix(Warp& w, const Instruction& in, u32 mask) {
  need_whole_warp(w, mask, "stmatrix");
  u64 address[32];
  row_addresses(w, in, address);
  for (u32 i = 0; i < in.count; ++i) {
    const Row b = element(w, in, i, in.b);
    check(w, in, b, mask);
    u16 tile[8][8];
    for (u32 l = 0; l < 32; ++l) {
      const u32 g = l / 4, t = 2 * (l % 4), v = row<u32>(w, b)[l];
      (in.flags & kTransposed ? tile[t][g] : tile[g][t]) = static_cast<u16>(v);
      (in.flags & kTransposed ? tile[t + 1][g] : tile[g][t + 1]) = static_cast<u16>(v >> 16);
    }
    for (u32 r = 0; r < 8; ++r) {
      w.fault_lane = 8 * i + r;
      w.block->shared->write(thread_of(w, 8 * i + r), address[8 * i + r], 16,
                             std::as_bytes(std::span(tile[r])), SharedMemory::Access::weak);
    }
  }
}

Handler select_mma(int m, int n, int k, Type d, Type a, Type b, Type c) {
  if (m != 16 || n != 8) return nullptr;
  if (d == Type::s32 && c == Type::s32)
    return k == 16 ? bytes_of<16>(a, b) : k == 32 ? bytes_of<32>(a, b) : nullptr;
  if (a != b || d != c) return nullptr;
  if (a == Type::tf32 && d == Type::f32)
    return k == 4   ? mma<4, Type::tf32, Type::f32>
           : k == 8 ? mma<8, Type::tf32, Type::f32>
                    : nullptr;
  if (a == Type::bf16 && d == Type::f32)
    return k == 8    ? mma<8, Type::bf16, Type::f32>
           : k == 16 ? mma<16, Type::bf16, Type::f32>
                     : nullptr;
  if (a == Type::f16 && d == Type::f32)
    return k == 8    ? mma<8, Type::f16, Type::f32>
           : k == 16 ? mma<16, Type::f16, Type::f32>
                     : nullptr;
  if (a == Type::f16 && d == Type::f16)
    return k == 8    ? mma<8, Type::f16, Type::f16>
           : k == 16 ? mma<16, Type::f16, Type::f16>
                     : nullptr;
  return nullptr;
}

}  // namespace emulator
