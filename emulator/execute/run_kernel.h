// Executes one launch: every thread of every block, with all checks on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "emulator/memory/device_memory.h"
#include "emulator/ptx/module.h"

namespace emulator {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  const ptx::Module* module = nullptr;
  std::size_t kernel = 0;  ///< index in module->kernels
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  ///< the parameter block, parameter_bytes long
  const std::map<std::string, std::uint64_t>* variables = nullptr;  ///< addresses of .global ones
};

struct ExecuteOptions {
  int workers = 0;  ///< host threads that run blocks; 0: the machine's cores
  /// Seeds the order of blocks, and the perturbation of approximate operations within their
  /// documented bound (0: none).
  std::uint64_t seed = 0;
  bool check_shared_races = true;
  /// Each thread runs alone as far as it can, instead of a warp's threads side by side: much
  /// slower, and the order that forgives a missing __syncwarp least.
  bool independent_threads = false;
  std::uint64_t instruction_limit = 0;  ///< per thread; 0: none. Beyond it: FaultKind::stuck
  std::function<bool()> cancelled;      ///< polled between blocks
};

struct LaunchStatistics {
  std::uint64_t thread_instructions = 0;
};

/// Runs the launch to its end and merges what it touched into `footprint`. Throws Fault with
/// kernel, PTX line, block and thread in its text; `footprint` then holds what was touched so far.
LaunchStatistics run_kernel(const Launch& launch, DeviceMemory& memory,
                            const ExecuteOptions& options, Footprint& footprint);

}  // namespace emulator
