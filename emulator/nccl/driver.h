// What the emulated NCCL needs of the emulated CUDA driver: the libcuda.so.1 beside it, found by
// its own entry points, as the real library finds the real driver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator::nccl {

using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using HostFunction = void (*)(void*);

struct DriverCalls {
  int (*CtxGetCurrent)(Context* context) = nullptr;
  int (*CtxGetDevice)(int* device) = nullptr;
  int (*CtxPushCurrent)(Context context) = nullptr;
  int (*CtxPopCurrent)(Context* context) = nullptr;
  int (*MemHostAlloc)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*MemFreeHost)(void* memory) = nullptr;
  int (*MemcpyDtoHAsync)(void* to, std::uint64_t from, std::size_t bytes, Stream stream) = nullptr;
  int (*MemcpyHtoDAsync)(std::uint64_t to, const void* from, std::size_t bytes,
                         Stream stream) = nullptr;
  int (*EventCreate)(Event* event, unsigned flags) = nullptr;
  int (*EventDestroy)(Event event) = nullptr;
  int (*EventRecord)(Event event, Stream stream) = nullptr;
  int (*EventSynchronize)(Event event) = nullptr;
  int (*StreamWaitEvent)(Stream stream, Event event, unsigned flags) = nullptr;
  int (*LaunchHostFunc)(Stream stream, HostFunction function, void* argument) = nullptr;
};

/// Throws Problem where there is none.
const DriverCalls& driver_calls();

/// Makes a context current for a scope.
class Push {
 public:
  explicit Push(Context context);  ///< throws Problem
  ~Push();
  Push(const Push&) = delete;
  Push& operator=(const Push&) = delete;
};

}  // namespace emulator::nccl
