// NCCL's C interface as far as the emulated library has it, under NCCL's own names, declared by
// ourselves: nccl.h is not needed. tests/runtime/nccl_library_test.cpp loads both libraries through
// one table, so a difference shows.
#pragma once

#include <climits>
#include <cstddef>

namespace emulator::nccl {

using ncclResult_t = int;
enum : ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
using ncclComm_t = struct ncclComm*;
using cudaStream_t = struct CUstream_st*;

struct ncclUniqueId {
  char internal[128];
};

/// The fields of 2.14; later ones are not looked at.
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
constexpr unsigned kConfigMagic = 0xcafebeef;

using ncclRedOp_t = int;
enum : ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

using ncclDataType_t = int;
enum : ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

}  // namespace emulator::nccl
