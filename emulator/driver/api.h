// The driver's functions, as declarations: what each definition is checked against, and what tests
// call. Their order is that of the files that define them.
#pragma once

#include "emulator/driver/abi.h"

extern "C" {
namespace emulator::abi {

// capture.cpp
CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph);
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status);
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, std::size_t* count);
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                   std::size_t* count);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);

// context.cpp
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal);
CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext* context, void* parameters, int count, unsigned flags,
                        CUdevice device);
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags,
                        CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext handle);
CUresult cuCtxPushCurrent_v2(CUcontext handle);
CUresult cuCtxPopCurrent_v2(CUcontext* handle);
CUresult cuCtxSetCurrent(CUcontext handle);
CUresult cuCtxGetCurrent(CUcontext* handle);
CUresult cuCtxGetDevice(CUdevice* ordinal);
CUresult cuCtxGetFlags(unsigned* flags);
CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version);
CUresult cuCtxSynchronize();
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
CUresult cuCtxSetLimit(CUlimit limit, std::size_t value);
CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit);
CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext handle);

// copy.cpp
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes);
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, std::size_t bytes, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream);

// device.cpp
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int bytes, CUdevice ordinal);
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice ordinal);
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice ordinal);
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal);
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal);
CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice ordinal);
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id);
CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice ordinal, CUdevice peer);
CUresult cuProfilerStart();
CUresult cuProfilerStop();

// entry_points.cpp
CUresult cuGetProcAddress_v2(const char* name, void** address, int version, std::uint64_t flags,
                             CUdriverProcAddressQueryResult* status);
CUresult cuGetProcAddress(const char* name, void** address, int version, std::uint64_t flags);
CUresult cuGetErrorName(CUresult error, const char** text);
CUresult cuGetErrorString(CUresult error, const char** text);

// event.cpp
CUresult cuEventCreate(CUevent* handle, unsigned flags);
CUresult cuEventDestroy_v2(CUevent handle);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
CUresult cuEventQuery(CUevent handle);
CUresult cuEventSynchronize(CUevent handle);
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end);
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags);

// graph.cpp
CUresult cuGraphInstantiateWithFlags(CUgraphExec* handle, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiate_v2(CUgraphExec* handle, CUgraph graph, CUgraphNode* error_node,
                               char* log, std::size_t bytes);
CUresult cuGraphInstantiateWithParams(CUgraphExec* handle, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters);
CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle);
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec handle);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* p);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* p);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec handle, CUgraphNode node, CUevent event);
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec handle, CUgraphNode node, CUevent event);

// graph_nodes.cpp
CUresult cuGraphCreate(CUgraph* handle, unsigned flags);
CUresult cuGraphDestroy(CUgraph handle);
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                 std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              std::size_t count, const CUDA_MEMSET_NODE_PARAMS* p,
                              CUcontext context);
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                            std::size_t count, const CUDA_HOST_NODE_PARAMS* parameters);
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                             std::size_t count);
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                   std::size_t count, CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                 std::size_t count, CUevent event);
CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                std::size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, std::size_t count);
CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count);
CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count);
CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, std::size_t* count);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edges, std::size_t* count);
CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes, std::size_t* count);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                       std::size_t* count);
CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters);

// host_memory.cpp
CUresult cuMemHostAlloc(void** place, std::size_t bytes, unsigned flags);
CUresult cuMemAllocHost_v2(void** place, std::size_t bytes);
CUresult cuMemFreeHost(void* pointer);
CUresult cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void* pointer);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned flags);
CUresult cuMemHostGetFlags(unsigned* flags, void* pointer);

// launch.cpp
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra);
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle);
CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value);
CUresult cuFuncLoad(CUfunction handle);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int block_size,
                                                     std::size_t dynamic_shared);

// memory.cpp
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool,
                                 CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle);
CUresult cuMemGetInfo_v2(std::size_t* available, std::size_t* total);

// module.cpp
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                            CUjit_option* options, void** values);
CUresult cuModuleLoadData(CUmodule* module, const void* image);
CUresult cuModuleUnload(CUmodule handle);
CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module_handle, const char* name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                              const char* name);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode);
CUresult cuFuncGetModule(CUmodule* module, CUfunction handle);

// pointer.cpp
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr address);

// pool.cpp
CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties);
CUresult cuMemPoolDestroy(CUmemoryPool handle);
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value);
CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value);
CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t bytes);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal);
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal);
CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle);

// stream.cpp
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority);
CUresult cuStreamDestroy_v2(CUstream handle);
CUresult cuStreamSynchronize(CUstream handle);
CUresult cuStreamQuery(CUstream handle);
CUresult cuStreamGetFlags(CUstream handle, unsigned* flags);
CUresult cuStreamGetPriority(CUstream handle, int* priority);
CUresult cuStreamGetCtx(CUstream handle, CUcontext* context);
CUresult cuStreamGetId(CUstream handle, unsigned long long* id);
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data);

}  // namespace emulator::abi
}
