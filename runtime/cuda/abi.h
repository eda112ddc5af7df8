// The CUDA Driver API as riffle uses it: handles, codes and structs, declared by ourselves so that
// no toolkit is needed to build. abi_check.cpp compares all of it with <cuda.h> where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace riffle::runtime::cuda {

/// CUresult. Any value may come back from a newer driver; those that we act on are named.
using Result = int;
enum ResultCode : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kRequiresNewerDriver = 36,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kJitCompilationDisabled = 223,
  kContained = 226,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kCompatNotSupportedOnDevice = 804,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kExternalDevice = 911,
  kUnknown = 999,
};

using DeviceHandle = int;              // CUdevice
using DevicePointer = std::uintptr_t;  // CUdeviceptr: an integer of a pointer's size
/// As an argument that travels as a host pointer (launch parameters, Buffer::address).
inline void* address_of(DevicePointer pointer) noexcept {
  return reinterpret_cast<void*>(pointer);  // NOLINT(performance-no-int-to-ptr): never dereferenced
}
using ContextHandle = struct ContextHandle_*;
using ModuleHandle = struct ModuleHandle_*;
using FunctionHandle = struct FunctionHandle_*;
using StreamHandle = struct StreamHandle_*;
using EventHandle = struct EventHandle_*;
using PoolHandle = struct PoolHandle_*;
using GraphHandle = struct GraphHandle_*;
using GraphExecHandle = struct GraphExecHandle_*;

// CUstream_flags, CUevent_flags, CUevent_record_flags
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;
// CUstreamCaptureMode
inline constexpr int kCaptureThreadLocal = 1;
// cuMemHostAlloc
inline constexpr unsigned kHostAllocPortable = 1;
// CUdriverProcAddress_flags, CUdriverProcAddressQueryResult
inline constexpr std::uint64_t kProcAddressLegacyStream = 1;
enum ProcAddressStatus : int {
  kSymbolFound = 0,
  kSymbolNotFound = 1,
  kSymbolVersionNotSufficient = 2,
};
// CUjit_option
enum JitOption : int {
  kJitInfoLogBuffer = 3,
  kJitInfoLogBufferBytes = 4,
  kJitErrorLogBuffer = 5,
  kJitErrorLogBufferBytes = 6,
};
// CUfunction_attribute
enum FunctionAttribute : int {
  kFunctionMaxDynamicSharedBytes = 8,
};
// CUdevice_attribute
enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedBytesPerBlockOptin = 97,
  kMemoryPoolsSupported = 115,
};
// CUmemPool_attribute
enum PoolAttribute : int {
  kPoolReleaseThreshold = 4,
};
// CUmemAllocationType, CUmemLocationType
inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;

/// CUmemPoolProps.
struct PoolProperties {
  int allocation_type = kAllocationPinned;
  int handle_types = 0;
  struct {
    int type = kLocationDevice;
    int id = 0;
  } location;
  void* security_attributes = nullptr;
  std::size_t max_bytes = 0;  // reserved before CUDA 12.2
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

}  // namespace riffle::runtime::cuda
