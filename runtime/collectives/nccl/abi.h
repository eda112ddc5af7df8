// NCCL's C API as riffle uses it, declared by ourselves so that it is not needed to build.
// abi_check.cpp compares all of it with <nccl.h> where there is one.
#pragma once

#include <climits>
#include <cstddef>

namespace riffle::runtime::nccl {

/// ncclResult_t. Any value may come back from a newer library; those that we act on are named.
using Result = int;
enum ResultCode : Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclDataType_t, ncclRedOp_t
enum DataType : int {
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};
enum RedOp : int { kSum = 0, kMax = 2, kMin = 3, kAvg = 4 };

using CommHandle = struct CommHandle_*;  // ncclComm_t
using StreamHandle = void*;              // cudaStream_t, which is a CUstream

struct UniqueId {
  char internal[128];
};

/// ncclConfig_t of 2.14: later versions append to it, and go by `size` and `version`.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = INT_MIN;  // undefined: the library's default
};

}  // namespace riffle::runtime::nccl
