// Pinned host memory: the driver's own, and the caller's registered.
//
// The host reads and writes it directly, which the emulator cannot see: only what copies and
// kernels do to it is checked and ordered.
#include <cstdlib>

#include "emulator/driver/call.h"

namespace emulator::abi {
namespace {

CUresult allocate(const char* name, void** place, std::size_t bytes, unsigned flags) {
  return call(name, Needs::context, [&](Call& c) {
    c.require(place, "the result's place");
    if (bytes == 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
    if (flags > 7) c.misuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    c.forbid_in_capture();
    const auto context = c.context();
    // Whole pages of LaunchMemory's: no other pinned block may lie in them.
    const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* memory = pages < bytes ? nullptr : std::aligned_alloc(kPageBytes, pages);
    if (!memory) throw ApiError{CUDA_ERROR_OUT_OF_MEMORY};
    const auto allocation = c.d.host_memory->map_host(memory, bytes, true, name);
    if (!allocation) {
      std::free(memory);
      throw ApiError{CUDA_ERROR_OUT_OF_MEMORY};
    }
    c.d.pinned[allocation->begin] = {bytes, allocation->begin, flags, false, context->id};
    *place = memory;
  });
}

/// Ends a pinned block's life on the devices' side.
void forget(Call& c, std::uint64_t host, const PinnedMemory& memory) {
  const auto actor = host_actor(c.d, c.name);
  Operations unfinished;  // all at once: while waiting, contexts may come and go
  for (const auto& [handle, context] : c.d.contexts.all()) {
    const Operations last = tails(c.d, *context);
    unfinished.insert(unfinished.end(), last.begin(), last.end());
  }
  wait_for(c.d, c.lock, unfinished);
  const ByteRange range{memory.device_address, memory.device_address + memory.bytes};
  c.d.history.check(actor, range, [&](const AccessHistory::Race& race) { report_race(c.d, race); });
  c.d.history.forget(range);
  c.d.host_memory->release(memory.device_address, c.name);
  c.d.pinned.erase(host);
}

}  // namespace

EMULATOR_EXPORT CUresult cuMemHostAlloc(void** place, std::size_t bytes, unsigned flags) {
  return allocate("cuMemHostAlloc", place, bytes, flags);
}

EMULATOR_EXPORT CUresult cuMemAllocHost_v2(void** place, std::size_t bytes) {
  return allocate("cuMemAllocHost", place, bytes, 0);
}

EMULATOR_EXPORT CUresult cuMemFreeHost(void* pointer) {
  return call("cuMemFreeHost", Needs::context, [&](Call& c) {
    if (!pointer) return;
    c.forbid_in_capture();
    const auto host = reinterpret_cast<std::uint64_t>(pointer);
    const auto found = c.d.pinned.find(host);
    if (found == c.d.pinned.end() || found->second.registered) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory is not of cuMemHostAlloc, or was freed");
    }
    forget(c, host, PinnedMemory(found->second));
    std::free(pointer);
  });
}

EMULATOR_EXPORT CUresult cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags) {
  return call("cuMemHostRegister", Needs::context, [&](Call& c) {
    c.require(pointer, "the memory");
    if (bytes == 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "no bytes");
    c.forbid_in_capture();
    const auto host = reinterpret_cast<std::uint64_t>(pointer);
    auto after = c.d.pinned.lower_bound(host + bytes);
    if (after != c.d.pinned.begin() &&
        std::prev(after)->first + std::prev(after)->second.bytes > host) {
      c.misuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the memory is pinned already");
    }
    const auto allocation = c.d.host_memory->map_host(pointer, bytes, false, "cuMemHostRegister");
    if (!allocation) throw ApiError{CUDA_ERROR_OUT_OF_MEMORY};
    c.d.pinned[host] = {bytes, allocation->begin, flags, true, c.context()->id};
  });
}

EMULATOR_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  return call("cuMemHostUnregister", Needs::context, [&](Call& c) {
    c.forbid_in_capture();
    const auto host = reinterpret_cast<std::uint64_t>(pointer);
    const auto found = c.d.pinned.find(host);
    if (found == c.d.pinned.end() || !found->second.registered) {
      c.misuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered");
    }
    forget(c, host, PinnedMemory(found->second));
  });
}

EMULATOR_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer,
                                                      unsigned flags) {
  return call("cuMemHostGetDevicePointer", Needs::context, [&](Call& c) {
    c.require(address, "the result's place");
    const auto host = reinterpret_cast<std::uint64_t>(pointer);
    const End end = classify(c, host, 1, Expect::host, "the pointer");
    if (end.place != Place::pinned) c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory is not pinned");
    *address = end.address;
  });
}

EMULATOR_EXPORT CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return call("cuMemHostGetFlags", Needs::context, [&](Call& c) {
    c.require(flags, "the result's place");
    const auto found = c.d.pinned.find(reinterpret_cast<std::uint64_t>(pointer));
    if (found == c.d.pinned.end()) c.misuse(CUDA_ERROR_INVALID_VALUE, "the memory is not pinned");
    *flags = found->second.flags;
  });
}

}  // namespace emulator::abi
