// Small kernels in PTX, as a DeviceModule: what code generation would hand to the runtime.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace riffle::runtime::test {

/// In the order of kPtxKernels. Each thread of `kThreads` in blocks of `kBlock` does, for its own
/// index i:
enum PtxKernel : std::int32_t {
  kIncrement,      ///< (u32 x[kThreads]): ++x[i]
  kCopyScratch,    ///< (u32 x[kThreads]): scratch[i] = i, then in a second grid x[i] += scratch[i]
  kReportIndex,    ///< (): index 17 is out of range [0, 10)
  kReportAnother,  ///< (): index 3 is out of range [0, 2)
  kReverse,        ///< (u32 x[kThreads]): reversed within blocks, through 64 KiB of shared memory
  kWild,           ///< (u32 x[kThreads]): writes far behind x
};
inline constexpr unsigned kBlocks = 4, kBlock = 64, kThreads = kBlocks * kBlock;

/// `scratch_bytes` of kCopyScratch, at least kThreads * 4.
ModuleImage ptx_image(const std::string& name, std::int64_t scratch_bytes = kThreads * 4);
/// The same with other PTX; its kernels must still be there.
ModuleImage ptx_image_with(const std::string& name, std::string ptx, int ptx_version = 70,
                           std::int64_t scratch_bytes = kThreads * 4);
std::string ptx_text();

}  // namespace riffle::runtime::test
