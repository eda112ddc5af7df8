// The plain arithmetic of a warp: one loop over lanes an instruction. Compiled once for each level
// of instruction set (lanes_base.cpp, lanes_avx2.cpp) from lanes.inl, because the loops vectorise;
// the machine's level is chosen when a module is decoded.
#pragma once

#include "emulator/ptx/program.h"

namespace emulator {

enum class LaneOp : std::uint8_t {
  move,
  add,
  sub,
  mul,
  mul_high,
  mul_wide,
  mad,
  mad_high,
  mad_wide,
  div,
  rem,
  neg,
  abs,
  min,
  max,
  min_nan,
  max_nan,
  fma,
  sqrt,
  copysign,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  cnot,
  shl,
  shr,
  popc,
  clz,
  brev,
  sad,
  mul24,
  mul24_high,
  mad24,
  mad24_high,
  select,
  funnel_left,
  funnel_right,
  funnel_left_clamp,
  funnel_right_clamp,
  add_sat,
  sub_sat,
};

enum class Compare : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};

struct LaneForm {
  LaneOp op = LaneOp::move;
  ptx::Type type = ptx::Type::none;
  bool ftz = false, saturate = false, relu = false;
};

/// Instruction::flags of a comparison.
enum : std::uint16_t {
  kCombineAnd = 1,
  kCombineOr = 2,
  kCombineXor = 3,
  kCombineMask = 3,
  kCombineNegated = 4,  ///< of the predicate c
  kSecondResult = 8,    ///< in rows[target]
};

/// Null: there is no such instruction.
Handler select_lanes(const LaneForm& form);
Handler select_compare(Compare compare, ptx::Type type, bool ftz);

namespace base {
Handler select_lanes(const LaneForm& form);
Handler select_compare(Compare compare, ptx::Type type, bool ftz);
}  // namespace base
namespace avx2 {
Handler select_lanes(const LaneForm& form);
Handler select_compare(Compare compare, ptx::Type type, bool ftz);
}  // namespace avx2

}  // namespace emulator
