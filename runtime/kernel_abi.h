// The calling convention of compiled kernels: all that code generation and runtime share.
#pragma once

#include <atomic>
#include <cstdint>

namespace riffle::runtime {

/// Part of every cache key; raise it whenever anything in this file changes meaning.
inline constexpr std::uint32_t kKernelAbiVersion = 2;

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

// ---- Kernels of a GPU. The object of a partition holds one DeviceModule under
// kDeviceModuleSymbol; its launch functions are host code that calls the driver through a pointer,
// so that the object has no undefined symbol.

/// cuLaunchKernel's signature; returns a CUresult.
using LaunchGrid = int (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, void* stream, void** parameters, void** extra);

/// Enqueues the grids of one KernelSpec on `stream`, in order. `functions[i]` is the loaded
/// function of grid i; every grid takes the same parameters, all 64-bit global addresses: the
/// operands in the KernelSpec's order, `scratch`, `status` (a KernelStatus). Stops at the first
/// result that is not 0 and returns it. Any thread.
using DeviceLaunch = int (*)(LaunchGrid launch, void* const* functions, void* const* operands,
                             void* scratch, void* status, void* stream);

struct DeviceGrid {
  const char* symbol;  ///< in the PTX
  std::uint32_t grid[3], block[3];
  std::uint32_t shared_bytes;  ///< dynamic; above 48 KiB the function must be told beforehand
  std::uint32_t reserved;
};
struct DeviceKernel {
  const char* name;  ///< the KernelSpec's
  DeviceLaunch launch;
  const DeviceGrid* grids;
  std::int64_t grid_count;
  std::int64_t operand_count;
  /// Device memory for all grids of one launch, 256-byte aligned, not shared with a concurrent
  /// launch; uninitialised.
  std::int64_t scratch_bytes;
};
struct DeviceModule {
  const char* ptx;         ///< ends with a 0
  std::int64_t ptx_bytes;  ///< without the 0
  std::int32_t sm, ptx_version;
  const DeviceKernel* kernels;  ///< one a KernelSpec, in order
  std::int64_t kernel_count;
};
inline constexpr char kDeviceModuleSymbol[] = "riffle_device_module";

}  // namespace riffle::runtime
