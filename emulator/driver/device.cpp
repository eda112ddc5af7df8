// Devices: how many, what they are, what they can do.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/driver/call.h"

namespace emulator {

/// The CUDA programming guide's table of features and specifications by compute capability.
Architecture architecture(int sm) {
  constexpr int kKiB = 1024;
  if (sm < 80) return {sm, 1024, 16, 64 * kKiB, 64 * kKiB};
  if (sm == 80) return {sm, 2048, 32, 164 * kKiB, 163 * kKiB};
  if (sm == 87) return {sm, 1536, 16, 164 * kKiB, 163 * kKiB};
  if (sm == 89) return {sm, 1536, 24, 100 * kKiB, 99 * kKiB};
  if (sm < 90) return {sm, 1536, 16, 100 * kKiB, 99 * kKiB};
  if (sm < 120) return {sm, 2048, 32, 228 * kKiB, 227 * kKiB};
  return {sm, 1536, 24, 100 * kKiB, 99 * kKiB};
}

namespace abi {
namespace {

/// CUdevice_attribute's numbers. False: not one that the emulator knows.
bool attribute_of(const Driver& d, const Device& device, int attribute, int& value) {
  const Architecture& machine = device.architecture;
  const auto known = [&](int number) {
    value = number;
    return true;
  };
  switch (attribute) {
    case 1:  // MAX_THREADS_PER_BLOCK
    case 2:  // MAX_BLOCK_DIM_X
    case 3:  // MAX_BLOCK_DIM_Y
      return known(1024);
    case 4:  // MAX_BLOCK_DIM_Z
      return known(64);
    case 5:   // MAX_GRID_DIM_X
    case 11:  // MAX_PITCH
      return known(2147483647);
    case 6:  // MAX_GRID_DIM_Y
    case 7:  // MAX_GRID_DIM_Z
      return known(65535);
    case 8:  // MAX_SHARED_MEMORY_PER_BLOCK
      return known(48 * 1024);
    case 9:  // TOTAL_CONSTANT_MEMORY
      return known(64 * 1024);
    case 10:  // WARP_SIZE
      return known(32);
    case 12:  // MAX_REGISTERS_PER_BLOCK
    case 82:  // MAX_REGISTERS_PER_MULTIPROCESSOR
      return known(65536);
    case 13:  // CLOCK_RATE
    case 36:  // MEMORY_CLOCK_RATE
      return known(1000000);
    case 14:  // TEXTURE_ALIGNMENT
      return known(512);
    case 15:   // GPU_OVERLAP
    case 19:   // CAN_MAP_HOST_MEMORY
    case 31:   // CONCURRENT_KERNELS
    case 41:   // UNIFIED_ADDRESSING
    case 78:   // STREAM_PRIORITIES_SUPPORTED
    case 79:   // GLOBAL_L1_CACHE_SUPPORTED
    case 80:   // LOCAL_L1_CACHE_SUPPORTED
    case 90:   // COMPUTE_PREEMPTION_SUPPORTED
    case 99:   // HOST_REGISTER_SUPPORTED
    case 115:  // MEMORY_POOLS_SUPPORTED
      return known(1);
    case 16:  // MULTIPROCESSOR_COUNT
      return known(d.settings.multiprocessors);
    case 33:  // PCI_BUS_ID
      return known(device.ordinal + 1);
    case 37:  // GLOBAL_MEMORY_BUS_WIDTH
      return known(64);
    case 38:  // L2_CACHE_SIZE
      return known(4 << 20);
    case 39:  // MAX_THREADS_PER_MULTIPROCESSOR
      return known(machine.threads_per_multiprocessor);
    case 40:  // ASYNC_ENGINE_COUNT
      return known(2);
    case 75:  // COMPUTE_CAPABILITY_MAJOR
      return known(machine.sm / 10);
    case 76:  // COMPUTE_CAPABILITY_MINOR
      return known(machine.sm % 10);
    case 81:  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
      return known(machine.shared_per_multiprocessor);
    case 87:  // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
      return known(2);
    case 97:  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
      return known(machine.shared_per_block_optin);
    case 106:  // MAX_BLOCKS_PER_MULTIPROCESSOR
      return known(machine.blocks_per_multiprocessor);
    case 111:  // RESERVED_SHARED_MEMORY_PER_BLOCK
      return known(machine.sm >= 80 ? 1024 : 0);
    case 17:   // KERNEL_EXEC_TIMEOUT
    case 18:   // INTEGRATED
    case 20:   // COMPUTE_MODE
    case 32:   // ECC_ENABLED
    case 34:   // PCI_DEVICE_ID
    case 35:   // TCC_DRIVER
    case 50:   // PCI_DOMAIN_ID
    case 83:   // MANAGED_MEMORY
    case 84:   // MULTI_GPU_BOARD
    case 88:   // PAGEABLE_MEMORY_ACCESS
    case 89:   // CONCURRENT_MANAGED_ACCESS
    case 91:   // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    case 95:   // COOPERATIVE_LAUNCH
    case 102:  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    case 116:  // GPU_DIRECT_RDMA_SUPPORTED
    case 120:  // CLUSTER_LAUNCH
    case 127:  // TENSOR_MAP_ACCESS_SUPPORTED
    case 132:  // MULTICAST_SUPPORTED
      return known(0);
    default:
      return false;
  }
}

}  // namespace

EMULATOR_EXPORT CUresult cuInit(unsigned flags) {
  return call("cuInit", Needs::nothing, [&](Call& c) {
    if (flags != 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "flags other than 0");
    if (!c.d.initialised) initialise(c.d);
    if (c.d.devices.empty()) throw ApiError{CUDA_ERROR_NO_DEVICE};
  });
}

EMULATOR_EXPORT CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Needs::nothing, [&](Call& c) {
    c.require(version, "the result's place");
    *version = c.d.settings.driver_version;
  });
}

EMULATOR_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", Needs::initialised, [&](Call& c) {
    c.require(device, "the result's place");
    *device = c.device(ordinal).ordinal;
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::initialised, [&](Call& c) {
    c.require(count, "the result's place");
    *count = static_cast<int>(c.d.devices.size());
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice ordinal) {
  return call("cuDeviceGetName", Needs::initialised, [&](Call& c) {
    c.require(name, "the result's place");
    if (bytes <= 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "no room for the name");
    std::snprintf(name, static_cast<std::size_t>(bytes), "riffle emulated GPU sm_%d",
                  c.device(ordinal).architecture.sm);
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice ordinal) {
  return call("cuDeviceGetAttribute", Needs::initialised, [&](Call& c) {
    c.require(value, "the result's place");
    if (attribute_of(c.d, c.device(ordinal), attribute, *value)) return;
    c.misuse(CUDA_ERROR_INVALID_VALUE,
             "device attribute " + std::to_string(attribute) + " is not emulated");
  });
}

EMULATOR_EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice ordinal) {
  return call("cuDeviceTotalMem", Needs::initialised, [&](Call& c) {
    c.require(bytes, "the result's place");
    *bytes = c.device(ordinal).memory->capacity();
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  return call("cuDeviceGetUuid", Needs::initialised, [&](Call& c) {
    c.require(uuid, "the result's place");
    std::memcpy(uuid->bytes, "riffle emulated ", 16);
    uuid->bytes[15] = static_cast<char>('0' + c.device(ordinal).ordinal);
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return cuDeviceGetUuid_v2(uuid, ordinal);
}

EMULATOR_EXPORT CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice ordinal) {
  return call("cuDeviceGetPCIBusId", Needs::initialised, [&](Call& c) {
    c.require(id, "the result's place");
    if (bytes < 13) c.misuse(CUDA_ERROR_INVALID_VALUE, "the id takes 13 bytes");
    std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0",
                  c.device(ordinal).ordinal + 1);
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  return call("cuDeviceGetByPCIBusId", Needs::initialised, [&](Call& c) {
    c.require(device, "the result's place");
    c.require(id, "the id");
    unsigned domain = 0, bus = 0;
    if (std::sscanf(id, "%x:%x", &domain, &bus) != 2 || domain != 0 || bus == 0) {
      throw ApiError{CUDA_ERROR_INVALID_DEVICE};
    }
    *device = c.device(static_cast<int>(bus) - 1).ordinal;
  });
}

EMULATOR_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer) {
  return call("cuDeviceCanAccessPeer", Needs::initialised, [&](Call& c) {
    c.require(can, "the result's place");
    c.device(ordinal);
    c.device(peer);
    *can = c.d.settings.peer_access && ordinal != peer ? 1 : 0;
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice ordinal,
                                                 CUdevice peer) {
  return call("cuDeviceGetP2PAttribute", Needs::initialised, [&](Call& c) {
    c.require(value, "the result's place");
    c.device(ordinal);
    c.device(peer);
    constexpr int kAccessSupported = 2;
    *value = attribute == kAccessSupported && c.d.settings.peer_access && ordinal != peer ? 1 : 0;
  });
}

EMULATOR_EXPORT CUresult cuProfilerStart() {
  return call("cuProfilerStart", Needs::context, [](Call&) {});
}

EMULATOR_EXPORT CUresult cuProfilerStop() {
  return call("cuProfilerStop", Needs::context, [](Call&) {});
}

}  // namespace abi
}  // namespace emulator
