// Memory pools: what they hold, when they let it go, which one a device uses.
#include <algorithm>

#include "emulator/driver/call.h"

namespace emulator::abi {

EMULATOR_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  return call("cuMemPoolCreate", Needs::initialised, [&](Call& c) {
    c.require(handle, "the result's place");
    c.require(properties, "the properties");
    if (properties->allocType != 1 || properties->location.type != 1) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "only pinned memory of a device is emulated");
    }
    if (properties->handleTypes != 0) {
      c.misuse(CUDA_ERROR_NOT_SUPPORTED, "pools shared between processes are not emulated");
    }
    const auto pool = std::make_shared<Pool>();
    pool->device = c.device(properties->location.id).ordinal;
    *handle = pool->handle = c.d.pools.add(pool);
  });
}

EMULATOR_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return call("cuMemPoolDestroy", Needs::initialised, [&](Call& c) {
    const auto pool = c.find(c.d.pools, handle);
    if (pool->is_default) c.misuse(CUDA_ERROR_INVALID_VALUE, "a default pool");
    Device& device = *c.d.devices[static_cast<std::size_t>(pool->device)];
    if (device.pool == pool) device.pool = device.default_pool;
    pool->destroyed = true;
    c.d.pools.erase(handle);
  });
}

EMULATOR_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                               void* value) {
  return call("cuMemPoolSetAttribute", Needs::initialised, [&](Call& c) {
    c.require(value, "the value");
    const auto pool = c.find(c.d.pools, handle);
    switch (attribute) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute] = *static_cast<const int*>(value);
        return;
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *static_cast<const std::uint64_t*>(value);
        return;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*static_cast<const std::uint64_t*>(value) != 0) {
          c.misuse(CUDA_ERROR_INVALID_VALUE, "a high mark can only be set to zero");
        }
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
          pool->used_high = pool->used;
        } else {
          pool->reserved_high = pool->reserved;
        }
        return;
      default:
        c.misuse(CUDA_ERROR_INVALID_VALUE, "this attribute cannot be set");
    }
  });
}

EMULATOR_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                               void* value) {
  return call("cuMemPoolGetAttribute", Needs::initialised, [&](Call& c) {
    c.require(value, "the value's place");
    const auto pool = c.find(c.d.pools, handle);
    auto* const wide = static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *static_cast<int*>(value) = pool->reuse[attribute];
        return;
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *wide = pool->threshold;
        return;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *wide = pool->reserved;
        return;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *wide = pool->reserved_high;
        return;
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *wide = pool->used;
        return;
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *wide = pool->used_high;
        return;
    }
    c.misuse(CUDA_ERROR_INVALID_VALUE, "no such attribute");
  });
}

EMULATOR_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t bytes) {
  return call("cuMemPoolTrimTo", Needs::initialised, [&](Call& c) {
    const auto pool = c.find(c.d.pools, handle);
    pool->reserved = std::min(pool->reserved, std::max<std::uint64_t>(pool->used, bytes));
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return call("cuDeviceGetDefaultMemPool", Needs::initialised, [&](Call& c) {
    c.require(pool, "the result's place");
    *pool = c.device(ordinal).default_pool->handle;
  });
}

EMULATOR_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return call("cuDeviceGetMemPool", Needs::initialised, [&](Call& c) {
    c.require(pool, "the result's place");
    *pool = c.device(ordinal).pool->handle;
  });
}

EMULATOR_EXPORT CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  return call("cuDeviceSetMemPool", Needs::initialised, [&](Call& c) {
    const auto pool = c.find(c.d.pools, handle);
    if (pool->device != ordinal) c.misuse(CUDA_ERROR_INVALID_VALUE, "another device's pool");
    c.device(ordinal).pool = pool;
  });
}

}  // namespace emulator::abi
