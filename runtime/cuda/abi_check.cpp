// Compares our declarations of the Driver API with the toolkit's, where one is installed. Nothing
// here is compiled otherwise: riffle builds without a toolkit.
#if __has_include(<cuda.h>)

#include <cuda.h>

#include <type_traits>

#include "runtime/cuda/abi.h"

namespace riffle::runtime::cuda {
namespace {

// Equal in how a call passes it: size, pointer or not.
template <typename Ours, typename Theirs>
constexpr bool passes_alike() {
  return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
         std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
}
template <typename Ours, typename Theirs>
struct Same : std::false_type {};
template <typename... Ours, typename Result, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Same<int(Ours...), Result(Theirs...)>
    : std::bool_constant<sizeof(Result) == sizeof(int) && (passes_alike<Ours, Theirs>() && ...)> {};

// cuda.h maps a name to the version of its header by a macro; the token is pasted first, so that
// the row is compared with that version. Rows whose signature ever changed name the version that
// cuda.h has had since CUDA 12.
#define CUDA_FUNCTION(kind, version, Name, parameters)             \
  static_assert(Same<int parameters, decltype(::cu##Name)>::value, \
                "cu" #Name " is declared otherwise in the installed cuda.h");
#include "runtime/cuda/driver_api.def"

static_assert(sizeof(Result) == sizeof(CUresult) && sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(std::is_same_v<DeviceHandle, CUdevice>);

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == theirs)
SAME(kSuccess, CUDA_SUCCESS);
SAME(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SAME(kRequiresNewerDriver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
SAME(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
SAME(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(kJitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
SAME(kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
SAME(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME(kNotFound, CUDA_ERROR_NOT_FOUND);
SAME(kNotReady, CUDA_ERROR_NOT_READY);
SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(kAssert, CUDA_ERROR_ASSERT);
SAME(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(kInvalidPc, CUDA_ERROR_INVALID_PC);
SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
SAME(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME(kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(kCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(kExternalDevice, CUDA_ERROR_EXTERNAL_DEVICE);
SAME(kUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 12080
SAME(kContained, CUDA_ERROR_CONTAINED);
#endif

SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME(kProcAddressLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(kSymbolFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(kSymbolNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(kSymbolVersionNotSufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME(kJitInfoLogBuffer, CU_JIT_INFO_LOG_BUFFER);
SAME(kJitInfoLogBufferBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME(kJitErrorLogBufferBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(kFunctionMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(kMaxSharedBytesPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(kPoolReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
#undef SAME

static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps) &&
              offsetof(PoolProperties, location) == offsetof(CUmemPoolProps, location) &&
              offsetof(PoolProperties, usage) == offsetof(CUmemPoolProps, usage));

}  // namespace
}  // namespace riffle::runtime::cuda

#endif
