// State of a running warp and block. The handlers see these; run_block.cpp drives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "emulator/execute/run_kernel.h"
#include "emulator/ptx/program.h"

namespace emulator {

constexpr std::uint32_t kAllLanes = ~0u;

/// Windows of the generic address space: above what a host pointer can be, so no device address
/// collides with them. The offset in a window is what .shared, .local and .param addresses are.
constexpr std::uint64_t kSharedWindow = std::uint64_t{0xfd} << 48;
constexpr std::uint64_t kLocalWindow = std::uint64_t{0xfe} << 48;
constexpr std::uint64_t kParamWindow = std::uint64_t{0xfc} << 48;
constexpr std::uint64_t kWindowMask = std::uint64_t{0xff} << 48;

class SharedMemory;
struct Block;

/// One cp.async that has not been waited for.
struct PendingCopy {
  std::uint32_t lane = 0, shared = 0, bytes = 0;
  std::uint32_t group = 0;  ///< the lane's number of groups committed before it
  std::byte data[16];
};

struct Group {
  enum class State : std::uint8_t { runnable, waiting, at_barrier } state = State::runnable;
  std::uint32_t pc = 0, mask = 0;
  std::uint32_t barrier = 0;
};

struct Warp {
  std::byte* file = nullptr;      ///< register rows
  std::uint32_t* init = nullptr;  ///< initialised lanes, one mask a slot
  Block* block = nullptr;
  std::uint32_t index = 0;
  std::uint32_t alive = 0;
  std::uint32_t carry = 0;  ///< CC.CF, one bit a lane
  std::uint32_t fault_lane = 0;
  std::uint64_t seed = 0;           ///< of the perturbation of approximate operations; 0: none
  std::byte* local = nullptr;       ///< 32 × local_bytes
  std::byte* local_init = nullptr;  ///< one byte a byte
  std::vector<Group> groups;
  std::vector<PendingCopy> copies;
  std::uint32_t committed[32] = {};  ///< cp.async groups so far
  std::uint64_t executed[32] = {};   ///< instructions by lane
  bool retry = false;                ///< lanes exited: those who wait may have all they wait for
  bool rotate = false;  ///< a group looped long while others could run: let another one
};

struct Barrier {
  std::uint32_t arrived = 0, expected = 0;  ///< expected 0: all threads
  std::uint32_t yes = 0, votes = 0;         ///< of bar.red
  std::vector<std::uint32_t> warps;         ///< that arrived
};

struct Block {
  const ptx::Kernel* kernel = nullptr;
  const Launch* launch = nullptr;
  LaunchMemory* memory = nullptr;
  SharedMemory* shared = nullptr;
  void* atomics = nullptr;  ///< AtomicLocks: of the whole launch
  std::uint32_t index[3] = {0, 0, 0};
  std::uint32_t threads = 0;
  std::vector<Warp> warps;
  Barrier barriers[16];
  bool independent_threads = false;
  std::uint64_t instruction_limit = 0;
};

// --- rows

template <class T>
[[gnu::always_inline]] inline T* row(Warp& w, Row r) {
  return reinterpret_cast<T*>(w.file + r.offset);
}

/// Operand `i` of those beyond four.
Row extra_row(const Warp& w, const Instruction& in, std::uint32_t i);

/// "misaligned address: " and what.
Fault make_fault(FaultKind kind, const std::string& what);

/// Both set warp.fault_lane to the first lane of `lanes`.
[[noreturn]] void fault(Warp& w, std::uint32_t lanes, FaultKind kind, const std::string& what);
[[noreturn]] void fault_uninitialised(Warp& w, const Instruction& in, Row r, std::uint32_t lanes);

[[gnu::always_inline]] inline void check(Warp& w, const Instruction& in, Row r,
                                         std::uint32_t mask) {
  const std::uint32_t missing = mask & ~w.init[r.slot];
  if (missing) [[unlikely]]
    fault_uninitialised(w, in, r, missing);
}
[[gnu::always_inline]] inline void written(Warp& w, Row r, std::uint32_t mask) {
  w.init[r.slot] |= mask;
}
/// Copies whether initialised, as well as what.
[[gnu::always_inline]] inline void written_as(Warp& w, Row r, std::uint32_t initialised,
                                              std::uint32_t mask) {
  w.init[r.slot] = (w.init[r.slot] & ~mask) | (initialised & mask);
}

[[gnu::always_inline]] inline std::uint32_t predicate(Warp& w, Row r) {
  return *row<std::uint32_t>(w, r);
}
[[gnu::always_inline]] inline void set_predicate(Warp& w, Row r, std::uint32_t value,
                                                 std::uint32_t mask) {
  std::uint32_t* p = row<std::uint32_t>(w, r);
  *p = (*p & ~mask) | (value & mask);
  written(w, r, mask);
}

}  // namespace emulator
