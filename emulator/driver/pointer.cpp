// What an address is: device memory, pinned host memory, or neither.
#include <algorithm>

#include "emulator/driver/call.h"

namespace emulator {
namespace {

/// The pinned block that holds a host address: its beginning and itself.
std::pair<std::uint64_t, const PinnedMemory*> pinned_at(const Driver& d, std::uint64_t address) {
  auto after = d.pinned.upper_bound(address);
  if (after == d.pinned.begin()) return {0, nullptr};
  const auto& [begin, memory] = *std::prev(after);
  if (address - begin >= memory.bytes) return {0, nullptr};
  return {begin, &memory};
}

bool is_device_address(const Driver& d, std::uint64_t address) {
  for (const auto& device : d.devices) {
    if (device->memory->in_reserved_range(address)) return true;
  }
  return d.host_memory->in_reserved_range(address);
}

}  // namespace

std::shared_ptr<Allocation> find_allocation(const Driver& d, std::uint64_t address) {
  for (const auto& device : d.devices) {
    if (auto found = device->memory->find(address)) return found;
  }
  return d.host_memory->find(address);
}

End classify(const Call& c, std::uint64_t address, std::uint64_t bytes, Expect expect,
             const char* argument) {
  const auto wrong = [&](const std::string& why) {
    c.misuse(abi::CUDA_ERROR_INVALID_VALUE, std::string(argument) + ": " + why);
  };
  if (address == 0) wrong("null");
  if (is_device_address(c.d, address)) {
    if (expect == Expect::host) wrong("an address of device memory where the host's is wanted");
    const auto allocation = find_allocation(c.d, address);
    if (allocation && !allocation->freed && bytes <= allocation->end() - address) {
      return {allocation->host ? Place::pinned : Place::device, address};
    }
    for (const auto& device : c.d.devices) {
      if (device->memory->in_reserved_range(address)) {
        wrong(device->memory->explain(address, bytes, "access").what());
      }
    }
    wrong("an address of no registered host memory");
  }
  const auto [begin, memory] = pinned_at(c.d, address);
  if (memory) {
    if (bytes > memory->bytes - (address - begin)) {
      wrong("ends " + std::to_string(bytes + (address - begin) - memory->bytes) +
            " bytes past the end of " + std::to_string(memory->bytes) + " bytes of pinned memory");
    }
    return {Place::pinned, memory->device_address + (address - begin)};
  }
  if (expect == Expect::device) wrong("not an address of device memory");
  return {Place::pageable, address};
}

namespace abi {
namespace {

/// False: the attribute does not apply to the pointer, or is not emulated.
bool attribute_of(const Driver& d, CUpointer_attribute attribute, std::uint64_t address,
                  void* data) {
  const auto [host_begin, memory] = pinned_at(d, address);
  const auto allocation =
      find_allocation(d, memory ? memory->device_address + (address - host_begin) : address);
  if (!allocation || allocation->freed) return false;
  const auto owner = d.owners.find(allocation->begin);
  std::uint64_t context_id = 0;
  int ordinal = 0;
  if (owner != d.owners.end()) {
    context_id = owner->second.context;
    ordinal = owner->second.device;
  } else if (memory) {
    context_id = memory->context;
  }
  const std::uint64_t offset = memory ? address - host_begin : address - allocation->begin;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      CUcontext handle = nullptr;
      for (const auto& [key, context] : d.contexts.all()) {
        if (context->id == context_id) handle = key;
      }
      *static_cast<CUcontext*>(data) = handle;
      return true;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = allocation->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = allocation->begin + offset;
      return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!allocation->host) return false;
      *static_cast<void**>(data) = allocation->data + offset;
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = allocation->serial;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(data) = false;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = ordinal;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = allocation->begin;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = allocation->bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(data) = true;
      return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) =
          owner != d.owners.end() && owner->second.pool ? owner->second.pool->handle : nullptr;
      return true;
  }
  return false;
}

/// The bytes of an attribute's value, to clear where it does not apply.
std::size_t bytes_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return 4;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return 1;
    default:
      return 8;
  }
}

}  // namespace

EMULATOR_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                               CUdeviceptr address) {
  return call("cuPointerGetAttribute", Needs::context, [&](Call& c) {
    c.require(data, "the result's place");
    // Asking is how one tells pageable memory: no misuse.
    if (!attribute_of(c.d, attribute, address, data)) throw ApiError{CUDA_ERROR_INVALID_VALUE};
  });
}

EMULATOR_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                                void** data, CUdeviceptr address) {
  return call("cuPointerGetAttributes", Needs::context, [&](Call& c) {
    c.require(attributes, "the attributes");
    c.require(data, "the results' places");
    for (unsigned i = 0; i < count; ++i) {
      if (attribute_of(c.d, attributes[i], address, data[i])) continue;
      auto* const bytes = static_cast<char*>(data[i]);
      std::fill(bytes, bytes + bytes_of(attributes[i]), '\0');
    }
  });
}

EMULATOR_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* begin, std::size_t* bytes,
                                                 CUdeviceptr address) {
  return call("cuMemGetAddressRange", Needs::context, [&](Call& c) {
    const auto allocation = find_allocation(c.d, address);
    if (!allocation || allocation->freed) {
      c.misuse(CUDA_ERROR_NOT_FOUND, "the address is of no allocation");
    }
    if (begin) *begin = allocation->begin;
    if (bytes) *bytes = allocation->bytes;
  });
}

}  // namespace abi
}  // namespace emulator
