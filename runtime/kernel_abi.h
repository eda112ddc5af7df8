// The calling convention of compiled kernels: all that code generation and runtime share.
#pragma once

#include <atomic>
#include <cstdint>

namespace riffle::runtime {

/// Part of every cache key; raise it whenever anything in this file changes meaning.
inline constexpr std::uint32_t kKernelAbiVersion = 1;

/// Where a kernel reports what it could not do; shared by all tasks of a launch, zero before it.
/// Kernels write it with relaxed stores: any one of several reports may win.
struct KernelStatus {
  std::int64_t code = 0;   ///< 0 fine; 1 index out of range
  std::int64_t value = 0;  ///< the offending index
  std::int64_t limit = 0;  ///< its exclusive upper bound
};
inline constexpr std::int64_t kIndexOutOfRange = 1;

/// Runs tasks [begin, end) of a launch. Tasks are independent and may run in any order, on any
/// threads; results do not depend on how they are divided. `operands` are the addresses of the
/// KernelSpec's operands, each 64-byte aligned (kOperandAlignment). `scratch` is private to the
/// call, 64-byte aligned, of the size that KernelEntry says. MXCSR is at its default.
using HostKernel = void (*)(void* const* operands, std::int64_t begin, std::int64_t end,
                            void* scratch, KernelStatus* status);
inline constexpr std::int64_t kOperandAlignment = 64;

/// What the runtime needs to know to launch a kernel.
struct KernelGeometry {
  std::int64_t tasks = 1;
  std::int64_t scratch_bytes = 0;  ///< per concurrent call
  double work_ns = 0;              ///< rough single-thread time of all tasks; decides about threads
};

}  // namespace riffle::runtime
