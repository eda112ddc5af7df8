// The handlers that are not in lanes.h, by family, for the decoder to choose from. What each reads
// from its Instruction is said here.
#pragma once

#include "emulator/execute/float16.h"
#include "emulator/execute/warp.h"

namespace emulator {

// --- bits.cpp

/// dst = lut(a, b, c), lut in imm.
void lop3(Warp& w, const Instruction& in, std::uint32_t mask);
/// Mode in imm: 0 generic, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
void prmt(Warp& w, const Instruction& in, std::uint32_t mask);
/// bfe, bfind (flag 1: shiftamt), fns, bmsk (flag 1: wrap), szext, dp4a, dp2a …
Handler select_bfe(ptx::Type type);
Handler select_bfi(ptx::Type type);  ///< the fourth source is the first extra row
Handler select_bfind(ptx::Type type);
void fns(Warp& w, const Instruction& in, std::uint32_t mask);
/// flags 1: a signed, 2: b signed.
void dp4a(Warp& w, const Instruction& in, std::uint32_t mask);
/// flags: what follows.
enum : std::uint16_t {
  kCarryIn = 1,
  kCarryOut = 2,
  kSubtract = 4,
  kProductLow = 8,
  kProductHigh = 16
};
Handler select_carry(ptx::Type type);
/// imm: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal.
Handler select_testp(ptx::Type type);
/// mov.b64 d, {a, b …}: in.count elements of imm bytes each; the elements are extra rows.
void pack(Warp& w, const Instruction& in, std::uint32_t mask);
void unpack(Warp& w, const Instruction& in, std::uint32_t mask);
void read_clock(Warp& w, const Instruction& in, std::uint32_t mask);  ///< imm: bytes
void forget(Warp& w, const Instruction& in,
            std::uint32_t mask);  ///< rows[target..+imm] are not initialised

// --- approximate.cpp

enum class Function : std::uint8_t { ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, div };
/// Null: no such form. flags 1: ftz.
Handler select_approximate(Function function, ptx::Type type);

// --- rounded.cpp: arithmetic in a direction other than nearest

enum class Rounded : std::uint8_t { add, sub, mul, fma, div, rcp, sqrt };
constexpr std::uint16_t kRoundedFtz = 256, kRoundedSaturate = 512;
/// flags: Rounded + the kRounded… bits; imm: a Rounding.
Handler select_rounded(ptx::Type type);

// --- convert.cpp

struct Conversion {
  ptx::Type to = ptx::Type::none, from = ptx::Type::none;
  std::uint8_t to_width = 0, from_width = 0;  ///< of the registers
  Rounding rounding = Rounding::nearest;
  bool integer_rounding = false;  ///< .rni …: float to float of integral value
  bool ftz = false, saturate = false, relu = false;
};
static_assert(sizeof(Conversion) == 9);
/// Packed into imm (to, from) and flags by the decoder through encode().
void encode(const Conversion& conversion, Instruction& in);
Handler select_convert(const Conversion& conversion);
/// Two f32 to a pair of 16-bit floats: a above, b below.
Handler select_convert_pair(ptx::Type to);

// --- memory.cpp, local_memory.cpp: address in a (flag kAddress32: a 32-bit register) + imm

enum : std::uint16_t {
  kAddress32 = 1,
  kSizeShift = 1,   ///< log2 of the element's bytes, 2 bits
  kWidthShift = 3,  ///< log2 of the register's bytes, 2 bits
  kSignExtend = 32,
  kStrong = 64,    ///< volatile, relaxed, acquire, release: no race with its like
  kUniform = 128,  ///< .nc
};
/// Elements: dst, then rows[target…] (loads); b, then rows[target…] (stores). count of them.
Handler select_load(ptx::Space space, bool nc);
Handler select_store(ptx::Space space);
enum class Atomic : std::uint8_t {
  add,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare_swap,
  increment,
  decrement
};
/// b, c: operands; dst unless flag kNoResult. imm is the address offset.
constexpr std::uint16_t kNoResult = 256;
Handler select_atomic(ptx::Space space, Atomic operation, ptx::Type type);
/// dst: predicate; imm: the window.
void isspacep(Warp& w, const Instruction& in, std::uint32_t mask);
/// dst = a ± window imm, 64 bits; flag 1: to generic, flag kAddress32: 32-bit registers.
void convert_address(Warp& w, const Instruction& in, std::uint32_t mask);

// --- async_copy.cpp

/// a: shared address (flag kAddress32), b: global address, c: source size; imm: offset of a;
/// count: bytes; extra[0] constant: offset of b.
void copy_async(Warp& w, const Instruction& in, std::uint32_t mask);
void commit_copies(Warp& w, const Instruction& in, std::uint32_t mask);
void wait_copies(Warp& w, const Instruction& in,
                 std::uint32_t mask);  ///< imm: groups that may stay; −1: all wait

// --- warp_operations.cpp: run when all lanes of the mask are there

/// imm: 0 up, 1 down, 2 bfly, 3 idx. a, b, c; extra[0]: predicate result if flag 1; flag
/// kMaskInRow.
void shuffle(Warp& w, const Instruction& in, std::uint32_t mask);
/// imm: 0 all, 1 any, 2 uni, 3 ballot. a: predicate, flag 1: negated.
void vote(Warp& w, const Instruction& in, std::uint32_t mask);
Handler select_match(ptx::Type type);  ///< imm: 0 any, 1 all; extra[0]: predicate if flag 1
/// imm: Atomic; flag 1: signed.
void reduce_warp(Warp& w, const Instruction& in, std::uint32_t mask);
void active_mask(Warp& w, const Instruction& in, std::uint32_t mask);
void synchronise_warp(Warp& w, const Instruction& in, std::uint32_t mask);
void nothing(Warp& w, const Instruction& in, std::uint32_t mask);

// --- matrix.cpp

/// ldmatrix, stmatrix: count matrices, elements as for loads and stores; flag 512: transposed.
constexpr std::uint16_t kTransposed = 512;
void load_matrix(Warp& w, const Instruction& in, std::uint32_t mask);
void store_matrix(Warp& w, const Instruction& in, std::uint32_t mask);
/// mma.sync: extra rows d…, a…, b…, c…. Null: no such shape.
Handler select_mma(int m, int n, int k, ptx::Type d, ptx::Type a, ptx::Type b, ptx::Type c);

}  // namespace emulator
