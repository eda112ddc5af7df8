// Device memory: allocation at once, and in the order of a stream.
#include <algorithm>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator {
namespace {

/// Room in the device's memory, or OUT_OF_MEMORY. Injected failures count here.
std::shared_ptr<Allocation> allocate(const Call& c, Device& device, std::uint64_t bytes) {
  if (bytes == 0) c.misuse(abi::CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
  ++c.d.allocations_seen;
  if (c.d.settings.fail_allocation != 0 && c.d.allocations_seen == c.d.settings.fail_allocation) {
    c.d.report.add("note", std::string(c.name) + ": allocation failure injected");
    throw ApiError{abi::CUDA_ERROR_OUT_OF_MEMORY};
  }
  auto allocation = device.memory->allocate(bytes, c.name);
  if (!allocation) throw ApiError{abi::CUDA_ERROR_OUT_OF_MEMORY};
  return allocation;
}

Ownership& owner_of(const Call& c, std::uint64_t address) {
  const auto found = c.d.owners.find(address);
  if (found != c.d.owners.end() && !found->second.module) return found->second;
  const auto inside = find_allocation(c.d, address);
  std::string why = "the address is of no allocation";
  if (inside && inside->freed) {
    why = inside->describe() + " was freed by " + inside->freed_by + " before";
  } else if (inside && inside->begin != address) {
    why = "the address is byte " + std::to_string(address - inside->begin) + " of " +
          inside->describe();
  } else if (inside) {
    why = "the address is of " + inside->describe();
  }
  c.misuse(abi::CUDA_ERROR_INVALID_VALUE, why);
}

void allocate_in_stream(Call& c, abi::CUdeviceptr* address, std::uint64_t bytes,
                        std::shared_ptr<Pool> pool, abi::CUstream handle) {
  c.require(address, "the result's place");
  const auto stream = c.stream(handle);
  const auto context = stream->context.lock();
  if (!pool) pool = context->device->pool;
  Device& device = *c.d.devices[static_cast<std::size_t>(pool->device)];
  if (stream->capture) {  // said before memory is taken
    stream->capture->invalidated = c.name;
    c.misuse(abi::CUDA_ERROR_NOT_SUPPORTED, "allocation nodes of graphs are not emulated");
  }
  const auto allocation = allocate(c, device, bytes);
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved = std::max(pool->reserved, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  c.d.owners[allocation->begin] = {context->id, device.ordinal, pool};
  enqueue(c, *stream, AllocateWork{allocation->begin, bytes}, c.name);
  *address = allocation->begin;
}

}  // namespace

void trim_pools(Driver& d, int device) {
  for (const auto& [handle, pool] : d.pools.all()) {
    if (pool->device == device && pool->reserved > pool->threshold) {
      pool->reserved = std::max(pool->used, pool->threshold);
    }
  }
}

namespace abi {

EMULATOR_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return call("cuMemAlloc", Needs::context, [&](Call& c) {
    c.require(address, "the result's place");
    c.forbid_in_capture();
    const auto context = c.context();
    const auto allocation = allocate(c, *context->device, bytes);
    c.d.owners[allocation->begin] = {context->id, context->device->ordinal};
    *address = allocation->begin;
  });
}

EMULATOR_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  return call("cuMemFree", Needs::context, [&](Call& c) {
    if (address == 0) return;
    c.forbid_in_capture();
    Device& device = *c.d.devices[static_cast<std::size_t>(owner_of(c, address).device)];
    if (owner_of(c, address).freeing) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory was freed by cuMemFreeAsync before");
    }
    const auto actor = host_actor(c.d, "cuMemFree");
    // As drivers do, though none promises it: nothing runs any more when the memory goes. What
    // relied on that is a race all the same.
    Operations pending;
    for (const auto& [handle, other] : c.d.contexts.all()) {
      const Operations theirs = tails(c.d, *other);
      pending.insert(pending.end(), theirs.begin(), theirs.end());
    }
    wait_for(c.d, c.lock, pending);
    owner_of(c, address);  // another thread's call may have freed it meanwhile
    const auto allocation = device.memory->find(address);
    const ByteRange range{allocation->begin, allocation->end()};
    c.d.history.check(actor, range,
                      [&](const AccessHistory::Race& race) { report_race(c.d, race); });
    c.d.history.forget(range);
    if (const auto& pool = owner_of(c, address).pool) pool->used -= allocation->bytes;
    c.d.owners.erase(address);
    device.memory->release(address, "cuMemFree");
  });
}

EMULATOR_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  return call("cuMemAllocAsync", Needs::context,
              [&](Call& c) { allocate_in_stream(c, address, bytes, nullptr, stream); });
}

EMULATOR_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes,
                                                 CUmemoryPool pool, CUstream stream) {
  return call("cuMemAllocFromPoolAsync", Needs::context, [&](Call& c) {
    allocate_in_stream(c, address, bytes, c.find(c.d.pools, pool), stream);
  });
}

EMULATOR_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return call("cuMemFreeAsync", Needs::context, [&](Call& c) {
    if (address == 0) return;
    const auto stream = c.stream(handle);
    Ownership& owner = owner_of(c, address);
    if (!owner.pool) c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory is cuMemAlloc's");
    if (owner.freeing) c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory was freed before");
    enqueue(c, *stream, FreeWork{address}, "cuMemFreeAsync");
    owner.freeing = true;
  });
}

EMULATOR_EXPORT CUresult cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  return call("cuMemGetInfo", Needs::context, [&](Call& c) {
    const Device& device = *c.context()->device;
    std::uint64_t held = device.memory->used();
    for (const auto& [handle, pool] : c.d.pools.all()) {
      if (pool->device == device.ordinal)
        held += pool->reserved - std::min(pool->used, pool->reserved);
    }
    if (available)
      *available = device.memory->capacity() - std::min(held, device.memory->capacity());
    if (total) *total = device.memory->capacity();
  });
}

}  // namespace abi
}  // namespace emulator
