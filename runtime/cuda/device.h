// The CUDA device: one GPU through the driver's API, loaded at run time (driver.h). The emulator is
// the same device with another library. docs/cuda.md says what it needs and how to embed it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace riffle::runtime {

struct CudaOptions {
  int device_index = 0;
  /// libcuda to load; empty: RIFFLE_CUDA_DRIVER, then the system's.
  std::string library_path;
  /// Device "cuda-emulated": with no library_path, the emulator that is installed beside riffle.
  bool emulated = false;
  /// CUcontext of the embedder, current on no particular thread; it must outlive the device and
  /// everything made by it. Null: the device's primary context.
  void* context = nullptr;
  /// CUstreams of that context, for the streams driven by the waiter (compute), and for those with
  /// a priority (communication). Null: streams of our own.
  void* compute_stream = nullptr;
  void* communication_stream = nullptr;
  bool graphs = true;  ///< launch segments as CUDA graphs
  /// Bytes of freed memory that are kept for the next allocation; negative: 256 MiB.
  std::int64_t release_threshold = -1;
};

/// What code generation and people need to know of a device.
struct CudaFacts {
  std::string name;  ///< "NVIDIA H200"
  int index = 0;
  int sm = 0;              ///< 90 for compute capability 9.0
  int driver_version = 0;  ///< CUDA version that the driver is for: 13000
  int multiprocessors = 0;
  std::int64_t shared_bytes = 0;  ///< most that a block may ask for
  std::int64_t total_bytes = 0;
  bool emulated = false;
  std::string library;  ///< the libcuda that was loaded
};

/// How segments were run so far.
struct CudaCounts {
  std::int64_t graphs_captured = 0, graphs_launched = 0;
};

/// Throws DeviceError: not found, stub, too old, no device, disabled, or what the driver says.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options,
                                         const CudaOptions& cuda = {});

// Of a device made by make_cuda_device, and its streams and modules.
const CudaFacts& cuda_facts(const Device& device) noexcept;
CudaCounts cuda_counts(const Device& device) noexcept;
/// The CUcontext. A stream's CUstream is Stream::native().
void* cuda_context(const Device& device) noexcept;
/// Calls `call` with the device's context current on this thread: for libraries that take the
/// device from it. Throws DeviceError if the device is closed, and what `call` throws.
void cuda_with_context(const Device& device, const std::function<void()>& call);
/// Thread-instructions a second that an emulated device runs; 0 for a real one, and for devices
/// that are not CUDA's.
double cuda_emulated_speed(const Device& device) noexcept;

}  // namespace riffle::runtime
