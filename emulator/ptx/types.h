// The types of PTX, and the closed lists of names that the parser and the decoder share.
#pragma once

#include <cstdint>
#include <string_view>

namespace emulator::ptx {

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  tf32,
  f16x2,
  bf16x2,
  u16x2,
  s16x2,
  b64,
  u64,
  s64,
  f64,
  b128,
};

/// "f32" without its dot; none: no such type.
Type type_named(std::string_view name) noexcept;
std::string_view name(Type type) noexcept;

/// 0 for none and pred.
constexpr std::uint32_t size_of(Type type) noexcept {
  if (type <= Type::pred) return 0;
  if (type <= Type::s8) return 1;
  if (type <= Type::bf16) return 2;
  if (type <= Type::s16x2) return 4;
  if (type <= Type::f64) return 8;
  return 16;
}
constexpr bool is_float(Type type) noexcept {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64 ||
         type == Type::f16x2 || type == Type::bf16x2 || type == Type::tf32;
}
constexpr bool is_signed(Type type) noexcept {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64 ||
         type == Type::s16x2;
}
constexpr bool is_bits(Type type) noexcept {
  return type == Type::b8 || type == Type::b16 || type == Type::b32 || type == Type::b64 ||
         type == Type::b128;
}
constexpr bool is_packed(Type type) noexcept {
  return type == Type::f16x2 || type == Type::bf16x2 || type == Type::u16x2 || type == Type::s16x2;
}

enum class Space : std::uint8_t { generic, reg, global, constant, shared, local, param };

/// Read-only registers that the launch sets. `none`: no such register.
enum class Special : std::uint8_t {
  none,
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  warp_size,
  smid,
  nsmid,
  gridid,
  clock,
  clock64,
  globaltimer,
  dynamic_smem_size,
  total_smem_size,
  cluster_x,
  cluster_size_x,
};
/// "%tid.x" with its component.
Special special_named(std::string_view name) noexcept;

}  // namespace emulator::ptx
