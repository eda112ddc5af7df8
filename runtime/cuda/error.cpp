#include "runtime/cuda/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace riffle::runtime::cuda {
namespace {

struct Advice {
  Result code;
  bool sticky;
  std::string_view hint;
};
constexpr std::string_view kNewProcess =
    "a new process: this one's context is lost; compute-sanitizer or device cuda-emulated shows "
    "the access";
constexpr std::string_view kHardware = "a new process; nvidia-smi -q and dmesg say what ails it";
constexpr std::string_view kReport = "this is a bug of riffle: please report it with this text";
constexpr std::string_view kCapture = "set cuda.graphs off";

constexpr Advice kAdvice[] = {
    {kInvalidValue, false, kReport},
    {kOutOfMemory, false, "a smaller batch, or closing other programs that use the device"},
    {kNotInitialized, false, kReport},
    {kDeinitialized, true, "end sessions before main returns: the driver has shut down"},
    {kRequiresNewerDriver, false, "a newer NVIDIA driver"},
    {kDeviceUnavailable, false, "end the program that holds the device exclusively (nvidia-smi)"},
    {kInvalidDevice, false, "a device index below the number that nvidia-smi -L lists"},
    {kInvalidContext, false, "the context that was passed in must outlive the session"},
    {kInvalidImage, false, kReport},
    {kNoBinaryForGpu, false, "a target of this device's architecture or older"},
    {kEccUncorrectable, true, kHardware},
    {kInvalidPtx, false, "the driver's log above says why; a newer NVIDIA driver may accept it"},
    {kNvlinkUncorrectable, true, kHardware},
    {kJitCompilerNotFound, false, "reinstall the driver: libnvidia-ptxjitcompiler is missing"},
    {kUnsupportedPtxVersion, false, "a newer NVIDIA driver, or a lower PTX version"},
    {kJitCompilationDisabled, false, "unset CUDA_DISABLE_PTX_JIT"},
    {kContained, true, kHardware},
    {kOperatingSystem, false, "the limits of this process (ulimit -a) and dmesg"},
    {kInvalidHandle, false, kReport},
    {kNotFound, false, kReport},
    {kIllegalAddress, true, kNewProcess},
    {kLaunchOutOfResources, false, kReport},
    {kLaunchTimeout, true, "a device that drives no display, or less work a launch"},
    {kContextIsDestroyed, true, "the context that was passed in must outlive the session"},
    {kAssert, true, kNewProcess},
    {kHardwareStackError, true, kNewProcess},
    {kIllegalInstruction, true, kNewProcess},
    {kMisalignedAddress, true, kNewProcess},
    {kInvalidAddressSpace, true, kNewProcess},
    {kInvalidPc, true, kNewProcess},
    {kLaunchFailed, true, kNewProcess},
    {kNotPermitted, false, "the call is not allowed on a stream that is being captured"},
    {kNotSupported, false, "a newer NVIDIA driver, or another device"},
    {kSystemNotReady, false, "start nvidia-fabricmanager"},
    {kSystemDriverMismatch, false, "reboot, or reinstall the NVIDIA driver"},
    {kCompatNotSupportedOnDevice, false, "a driver instead of the CUDA compatibility package"},
    {kCaptureUnsupported, false, kCapture},
    {kCaptureInvalidated, false, kCapture},
    {kExternalDevice, true, kHardware},
    {kUnknown, true, kHardware},
};

const Advice* advice(Result code) noexcept {
  const auto* row = std::find_if(std::begin(kAdvice), std::end(kAdvice),
                                 [&](const Advice& known) { return known.code == code; });
  return row == std::end(kAdvice) ? nullptr : row;
}

}  // namespace

std::string name_of(const DriverApi& api, Result code) {
  const char* name = nullptr;
  if (api.GetErrorName(code, &name) == kSuccess && name) return name;
  return fmt::format("CUresult {}", code);
}

bool is_sticky(Result code) noexcept {
  const Advice* known = advice(code);
  return known && known->sticky;
}

DeviceError make_error(const DriverApi& api, Result code, std::string_view call,
                       std::string_view where) {
  const char* text = nullptr;
  if (api.GetErrorString(code, &text) != kSuccess || !text) text = "unknown error";
  const Advice* known = advice(code);
  return DeviceError({.what = fmt::format("{} failed: {}", call, text),
                      .where = std::string(where),
                      .hint = std::string(known ? known->hint : "nvidia-smi -q and dmesg"),
                      .foreign = name_of(api, code)});
}

}  // namespace riffle::runtime::cuda
