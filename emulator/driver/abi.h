// The CUDA driver's binary interface as far as the emulator speaks it: types, numbers and layouts,
// declared here so that nothing of CUDA is needed to build. tests/emulator/abi_test.cpp compares
// them with NVIDIA's cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator::abi {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUhostFn = void (*)(void* user_data);
using CUoccupancyB2DSize = std::size_t (*)(int block_size);

/// EMULATOR_RESULTS(ROW): ROW(name, number, text) for every error that the emulator returns or is
/// asked to inject.
#define EMULATOR_RESULTS(ROW)                                                                      \
  ROW(CUDA_SUCCESS, 0, "no error")                                                                 \
  ROW(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                             \
  ROW(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                \
  ROW(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                       \
  ROW(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                         \
  ROW(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                                \
  ROW(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable")      \
  ROW(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                             \
  ROW(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                    \
  ROW(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                             \
  ROW(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                   \
  ROW(CUDA_ERROR_NO_BINARY_FOR_GPU, 209,                                                           \
      "no kernel image is available for execution on the device")                                  \
  ROW(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                    \
  ROW(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")            \
  ROW(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217,                                                     \
      "peer access is not supported between these two devices")                                    \
  ROW(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                 \
  ROW(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")                \
  ROW(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222,                                                     \
      "the provided PTX was compiled with an unsupported toolchain.")                              \
  ROW(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")    \
  ROW(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                   \
  ROW(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")     \
  ROW(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                         \
  ROW(CUDA_ERROR_NOT_READY, 600, "device not ready")                                               \
  ROW(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                 \
  ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")          \
  ROW(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                   \
  ROW(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")               \
  ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")                 \
  ROW(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process") \
  ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                \
  ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                                              \
      "part or all of the requested memory range is already mapped")                               \
  ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                                                  \
      "pointer does not correspond to a registered memory region")                                 \
  ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")               \
  ROW(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                    \
  ROW(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                 \
  ROW(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                    \
  ROW(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                    \
  ROW(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                              \
  ROW(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803,                                                      \
      "system has unsupported display driver / cuda driver combination")                           \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                                                  \
      "operation not permitted when stream is capturing")                                          \
  ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                                  \
      "operation failed due to a previous error during capture")                                   \
  ROW(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                                        \
      "operation would result in a merge of separate capture sequences")                           \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                                                    \
      "capture was not ended in the same stream as it began")                                      \
  ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")               \
  ROW(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                                                    \
      "dependency created on uncaptured work in another stream")                                   \
  ROW(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                     \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
  ROW(CUDA_ERROR_CAPTURED_EVENT, 907,                                                              \
      "operation not permitted on an event last recorded in a capturing stream")                   \
  ROW(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                 \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
  ROW(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                   \
      "the graph update was not performed because it included changes which violated constraints " \
      "specific to instantiated graph update")                                                     \
  ROW(CUDA_ERROR_UNKNOWN, 999, "unknown error")

enum CUresult : int {
#define EMULATOR_ROW(name, number, text) name = (number),
  EMULATOR_RESULTS(EMULATOR_ROW)
#undef EMULATOR_ROW
};

inline const CUstream kLegacyStream = reinterpret_cast<CUstream>(0x1);
inline const CUstream kPerThreadStream = reinterpret_cast<CUstream>(0x2);

enum : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned {
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4
};
enum : unsigned { CU_EVENT_RECORD_EXTERNAL = 1, CU_EVENT_WAIT_EXTERNAL = 1 };
enum : unsigned {
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2,
  CU_MEMHOSTALLOC_WRITECOMBINED = 4
};
enum CUmemorytype : unsigned { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };
enum CUmoduleLoadingMode : int { CU_MODULE_EAGER_LOADING = 1, CU_MODULE_LAZY_LOADING = 2 };
enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};
enum CUgraphNodeType : int {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_HOST = 3,
  CU_GRAPH_NODE_TYPE_EMPTY = 5,
  CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7
};
enum CUgraphExecUpdateResult : int {
  CU_GRAPH_EXEC_UPDATE_SUCCESS = 0,
  CU_GRAPH_EXEC_UPDATE_ERROR = 1,
  CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2,
  CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 3,
  CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 4,
  CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 5
};
enum CUgraphInstantiateResult : int {
  CUDA_GRAPH_INSTANTIATE_SUCCESS = 0,
  CUDA_GRAPH_INSTANTIATE_ERROR = 1,
  CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2
};
enum CUdriverProcAddressQueryResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};
enum CUjit_option : int {
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_NUM_OPTIONS = 35
};
enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9
};
enum CUmemPool_attribute : int {
  CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
  CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
  CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
  CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8
};
enum CUlimit : int {
  CU_LIMIT_STACK_SIZE = 0,
  CU_LIMIT_PRINTF_FIFO_SIZE = 1,
  CU_LIMIT_MALLOC_HEAP_SIZE = 2
};
enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17
};
enum CUlaunchAttributeID : int {
  CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
  CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14
};
/// How kernel parameters are given in one buffer (cuLaunchKernel's `extra`).
inline void* const kLaunchParamEnd = nullptr;
inline void* const kLaunchParamBufferPointer = reinterpret_cast<void*>(0x1);
inline void* const kLaunchParamBufferSize = reinterpret_cast<void*>(0x2);

struct CUuuid {
  char bytes[16];
};

struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  union {
    char pad[64];
    void* pointer;  // what the real union is aligned to
    int cooperative, priority, programmaticStreamSerializationAllowed;
    unsigned sharedMemCarveout;
    struct {
      unsigned x, y, z;
    } clusterDim;
  } value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
  // What follows is not in the interface before CUDA 12.0 (the functions without _v2).
  struct CUkern_st* kern;
  CUcontext ctx;
};

struct CUDA_HOST_NODE_PARAMS {
  CUhostFn fn;
  void* userData;
};

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned value, elementSize;
  std::size_t width, height;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  std::uint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  CUgraphInstantiateResult result_out;
};

struct CUgraphExecUpdateResultInfo {
  CUgraphExecUpdateResult result;
  CUgraphNode errorNode, errorFromNode;
};

struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

struct CUmemLocation {
  int type;  ///< 1: device
  int id;
};

struct CUmemPoolProps {
  int allocType;  ///< 1: pinned
  int handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUctxCreateParams {
  void* execAffinityParams;
  int numExecAffinityParams;
  void* cigParams;
};

}  // namespace emulator::abi
