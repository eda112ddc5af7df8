// The emulator's declarations of the driver's interface against NVIDIA's, where those are
// installed.
#include "emulator/driver/abi.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#endif

#ifdef CUDA_VERSION

namespace {

namespace ours = emulator::abi;

#define EMULATOR_ROW(name, number, text) \
  static_assert(static_cast<int>(ours::name) == static_cast<int>(::name));
EMULATOR_RESULTS(EMULATOR_ROW)
#undef EMULATOR_ROW

#define SAME_VALUE(name) static_assert(static_cast<int>(ours::name) == static_cast<int>(::name))
#define SAME_SIZE(type) \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type))
#define SAME_PLACE(type, member)                                            \
  static_assert(offsetof(ours::type, member) == offsetof(::type, member) && \
                sizeof(ours::type::member) == sizeof(::type::member))

SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(CU_EVENT_DISABLE_TIMING);
SAME_VALUE(CU_EVENT_INTERPROCESS);
SAME_VALUE(CU_EVENT_RECORD_EXTERNAL);
SAME_VALUE(CU_EVENT_WAIT_EXTERNAL);
SAME_VALUE(CU_MEMORYTYPE_HOST);
SAME_VALUE(CU_MEMORYTYPE_DEVICE);
SAME_VALUE(CU_MODULE_EAGER_LOADING);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(CU_GRAPH_NODE_TYPE_MEMSET);
SAME_VALUE(CU_GRAPH_NODE_TYPE_HOST);
SAME_VALUE(CU_GRAPH_NODE_TYPE_EMPTY);
SAME_VALUE(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SAME_VALUE(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME_VALUE(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
SAME_VALUE(CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
SAME_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(CU_JIT_INFO_LOG_BUFFER);
SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_VALUE(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_VALUE(CU_LIMIT_MALLOC_HEAP_SIZE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);

SAME_SIZE(CUdeviceptr);
SAME_SIZE(CUuuid);
SAME_SIZE(CUlaunchAttribute);
SAME_PLACE(CUlaunchAttribute, value);
SAME_SIZE(CUlaunchConfig);
SAME_PLACE(CUlaunchConfig, hStream);
SAME_PLACE(CUlaunchConfig, numAttrs);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS, ctx);
SAME_SIZE(CUDA_HOST_NODE_PARAMS);
SAME_SIZE(CUDA_MEMSET_NODE_PARAMS);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS, width);
SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);
SAME_SIZE(CUgraphExecUpdateResultInfo);
SAME_SIZE(CUgraphEdgeData);
SAME_SIZE(CUmemPoolProps);
SAME_PLACE(CUmemPoolProps, location);
SAME_PLACE(CUmemPoolProps, maxSize);
SAME_SIZE(CUctxCreateParams);

}  // namespace

TEST(Abi, AgreesWithCudaH) { SUCCEED() << "compared while compiling, CUDA " << CUDA_VERSION; }

#else

TEST(Abi, AgreesWithCudaH) { GTEST_SKIP() << "no cuda.h to compare with"; }

#endif
