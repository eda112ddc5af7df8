// Driver: one loaded libcuda and its table of functions (driver_api.def). Any number may be loaded
// in one process, the real one and the emulator's among them; each device holds its own.
//
// Loading ends in a table or in one of five DeviceErrors that differ in what the reader must do:
// not found (every path tried), a toolkit's stub, too old (found and needed), no device, disabled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/abi.h"

namespace riffle::runtime::cuda {

/// Members are null where the driver lacks an optional function.
struct DriverApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator
#define CUDA_FUNCTION(kind, version, Name, parameters) Result(*Name) parameters = nullptr;
#include "runtime/cuda/driver_api.def"
};

/// CUDA 12.0: the first with cuGetProcAddress_v2.
inline constexpr int kOldestDriver = 12000;
/// 12040 → "12.4".
std::string version_text(int version);

/// Notices that the process was forked: CUDA does not work in the child.
class ForkGuard {
 public:
  ForkGuard() noexcept;
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  bool forked() const noexcept;

 private:
  int pid_;
  volatile int* page_ = nullptr;  // zero in a child; null where the kernel cannot do that
};

class Driver {
 public:
  /// Loads and initialises. `library`: a path, or empty for RIFFLE_CUDA_DRIVER, then
  /// "libcuda.so.1". Throws DeviceError.
  static std::shared_ptr<const Driver> load(const std::string& library);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const DriverApi& api() const noexcept { return api_; }
  int version() const noexcept { return version_; }
  int device_count() const noexcept { return devices_; }
  /// As it was given to dlopen.
  const std::string& path() const noexcept { return path_; }
  bool forked() const noexcept { return fork_.forked(); }
  /// Of the emulator: thread-instructions a second that it runs, or may be expected to; 0: this is
  /// a real driver.
  double emulated_speed() const noexcept;

 private:
  Driver() = default;
  void open(const std::string& path);
  void resolve();
  void initialise();

  DriverApi api_;
  void* library_ = nullptr;
  std::string path_;
  int version_ = 0, devices_ = 0;
  ForkGuard fork_;
};

/// Where the emulator's libcuda.so.1 lies: $RIFFLE_EMULATOR (a file or a folder), else beside the
/// library or program that this code is in. Throws DeviceError with the paths tried.
std::string find_emulator();

}  // namespace riffle::runtime::cuda
