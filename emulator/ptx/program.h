// A kernel ready to run: dense instructions whose operands are rows of a warp's register file.
//
// A register is a *row*: one value for each of the 32 lanes, side by side, so that an instruction
// is one loop over lanes. Constants, special registers and addresses of variables are rows too,
// filled before a block starts; every operand is then an offset. Predicates are 32-bit masks.
// Functions are inlined where they are called, each call with rows of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/ptx/types.h"

namespace emulator {

struct Warp;
struct Instruction;
/// Executes one instruction for the lanes of `mask`, which is not 0.
using Handler = void (*)(Warp& warp, const Instruction& instruction, std::uint32_t mask);

struct Row {
  std::uint32_t offset = 0;  ///< in the warp's register file
  std::uint32_t slot = 0;    ///< of the mask that says which lanes are initialised
};

/// What the warp's loop does itself; everything else is `plain` and goes through the handler.
enum class Control : std::uint8_t {
  plain,
  branch,          ///< to `target`
  branch_indexed,  ///< to targets[target + a], imm of them
  exit,
  trap,
  warp_operation,  ///< handler runs when all living lanes of the member mask are here
  block_barrier,   ///< a: number, b: threads (if counted), flags: see kBarrier…
};

enum : std::uint16_t {
  kBarrierCounted = 1,   ///< b holds the number of threads
  kBarrierArrive = 2,    ///< does not wait
  kBarrierAligned = 4,   ///< the whole warp comes together
  kBarrierReduces = 8,   ///< dst, c: predicate; the operation in imm: 0 popc, 1 and, 2 or
  kBarrierNegated = 16,  ///< of c
  /// warp_operation: all living lanes. Otherwise the extra row number `count` is the member mask.
  kWholeWarp = 0x8000,
};

struct Instruction {
  Handler handler = nullptr;
  Row dst, a, b, c;
  std::uint32_t guard = ~0u;  ///< index in Program::guards
  std::uint32_t line = 0;
  Control control = Control::plain;
  std::uint8_t count = 0;  ///< of vector elements
  std::uint16_t flags = 0;
  std::uint32_t target = 0;  ///< of a branch, or the first of `extra`
  std::int64_t imm = 0;
};

/// Rows that hold the same in every thread or follow from its place.
struct FixedRow {
  enum class Kind : std::uint8_t { constant, special, variable } kind = Kind::constant;
  std::uint8_t width = 4;  ///< 1, 2, 4, 8; 0: a predicate
  Row row;
  std::uint64_t bits = 0;  ///< constant, or offset from the variable
  ptx::Special special = ptx::Special::none;
  std::string variable;
};

struct Guard {
  Row row;
  bool negated = false;
};

namespace ptx {

struct Kernel {
  std::vector<Instruction> code;
  std::vector<Row> rows;               ///< operands beyond four: Instruction::target
  std::vector<std::uint32_t> targets;  ///< of branch_indexed
  std::vector<Guard> guards;
  std::vector<FixedRow> fixed;
  std::vector<std::string> mnemonics;      ///< "add.f32", …: for messages
  std::vector<std::uint32_t> mnemonic_of;  ///< each instruction's, in mnemonics
  std::uint32_t file_bytes = 0;            ///< of one warp's register file
  std::uint32_t slots = 0;
  std::uint32_t local_bytes = 0, static_shared_bytes = 0, parameter_bytes = 0;

  const std::string& mnemonic(std::size_t pc) const { return mnemonics[mnemonic_of[pc]]; }
};

}  // namespace ptx
}  // namespace emulator
