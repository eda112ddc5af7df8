// cuGetProcAddress, and the names of errors.
#include <cstring>

#include "emulator/driver/call.h"
#include "emulator/driver/entry_points.h"

namespace emulator {
namespace {

constexpr unsigned kPerThreadDefaultStream = 2;

abi::CUresult look_up(const char* caller, const char* name, void** result, int version,
                      std::uint64_t flags, abi::CUdriverProcAddressQueryResult* status) {
  return call(caller, Needs::nothing, [&](Call& c) {
    c.require(name, "the name");
    c.require(result, "the result's place");
    *result = nullptr;
    if ((flags & kPerThreadDefaultStream) != 0) {
      c.misuse(abi::CUDA_ERROR_NOT_SUPPORTED,
               "forms that use the thread's default stream are not emulated");
    }
    const EntryPoint* best = nullptr;
    bool too_old = false;
    for (const EntryPoint& entry : entry_points()) {
      if (std::strcmp(entry.name, name) != 0) continue;
      if (entry.since > c.d.settings.driver_version) continue;  // this driver does not have it
      if (entry.since > version) {
        too_old = true;
      } else if (!best || entry.since > best->since) {
        best = &entry;
      }
    }
    if (best) *result = reinterpret_cast<void*>(best->address);
    const auto found = best      ? abi::CU_GET_PROC_ADDRESS_SUCCESS
                       : too_old ? abi::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                 : abi::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (status) {
      *status = found;
    } else if (!best) {
      throw ApiError{abi::CUDA_ERROR_NOT_FOUND};
    }
  });
}

}  // namespace

namespace abi {

EMULATOR_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** address, int version,
                                             std::uint64_t flags,
                                             CUdriverProcAddressQueryResult* status) {
  return look_up("cuGetProcAddress", name, address, version, flags, status);
}

EMULATOR_EXPORT CUresult cuGetProcAddress(const char* name, void** address, int version,
                                          std::uint64_t flags) {
  return look_up("cuGetProcAddress", name, address, version, flags, nullptr);
}

EMULATOR_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(error)) {
#define EMULATOR_ROW(name, number, meaning) \
  case number:                              \
    *text = #name;                          \
    return CUDA_SUCCESS;
    EMULATOR_RESULTS(EMULATOR_ROW)
#undef EMULATOR_ROW
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

EMULATOR_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(error)) {
#define EMULATOR_ROW(name, number, meaning) \
  case number:                              \
    *text = meaning;                        \
    return CUDA_SUCCESS;
    EMULATOR_RESULTS(EMULATOR_ROW)
#undef EMULATOR_ROW
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace abi
}  // namespace emulator
