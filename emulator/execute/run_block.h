// Runs blocks one after another on one host thread, reusing their memory.
#pragma once

#include <memory>
#include <vector>

#include "emulator/execute/shared_memory.h"
#include "emulator/execute/warp.h"

namespace emulator {

class AtomicLocks;

class BlockRunner {
 public:
  BlockRunner(const Launch& launch, const ExecuteOptions& options, LaunchMemory& memory,
              AtomicLocks& atomics);

  /// `number` of grid.x × grid.y × grid.z. Throws Fault with its place.
  void run(std::uint64_t number);
  std::uint64_t thread_instructions() const { return instructions_; }

 private:
  void fill_fixed(bool first);
  std::uint64_t fixed_value(const FixedRow& fixed, const Warp& w, std::uint32_t lane) const;
  /// True: something was executed.
  bool run_warp(Warp& w);
  bool choose(Warp& w, Group& chosen, std::uint32_t& stop_pc);
  void run_group(Warp& w, Group group, std::uint32_t stop_pc);
  /// Both return false when the group has been put away.
  bool warp_operation(Warp& w, Group& group, const Instruction& in);
  bool block_barrier(Warp& w, Group& group, const Instruction& in);
  void gather_waiting(Warp& w, Group& group);
  void try_release(std::uint32_t number);
  [[noreturn]] void report_deadlock();
  void place(Fault& f, const Warp& w, std::uint32_t pc, std::uint32_t lane) const;
  std::uint32_t living() const;

  const ptx::Kernel& kernel_;
  const Launch& launch_;
  Block block_;
  SharedMemory shared_;
  std::vector<std::byte> files_, local_, local_init_;
  std::vector<std::uint32_t> init_, first_init_;
  std::vector<std::uint32_t> order_;  ///< of warps
  std::uint64_t seed_;
  std::uint64_t instructions_ = 0;
  std::uint64_t executed_in_pass_ = 0;
};

}  // namespace emulator
