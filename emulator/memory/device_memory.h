// Device memory of one emulated GPU.
//
// Addresses are numbers in a reserved PROT_NONE range, so that a host that dereferences one faults;
// the bytes lie elsewhere. Addresses are never reused, allocations have gaps between them, fresh
// and freed bytes are poisoned, and each byte has a shadow (initialised or not). Kernels reach
// memory only through a LaunchMemory, which checks every access and remembers what the launch
// touched; the driver then orders those ranges by happens-before (driver/races.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/fault.h"

namespace emulator {

class DeviceMemory;

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

/// What one launch read and wrote, as merged, sorted ranges (4-byte granules).
struct Footprint {
  std::vector<ByteRange> reads, writes;
};

/// One worker thread's view of memory during one launch. Not thread-safe; several views of one
/// launch may be used at once and their footprints merged (`merge`).
class LaunchMemory {
 public:
  explicit LaunchMemory(DeviceMemory& memory);
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  /// Backing of [address, address + bytes) after the checks: inside one live allocation, `address`
  /// a multiple of `alignment`, every byte initialised. Marks the bytes as read. Throws Fault.
  const std::byte* read(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment);
  /// The same for ld.global.nc: the launch must not write these bytes, before or after.
  const std::byte* read_constant(std::uint64_t address, std::uint32_t bytes,
                                 std::uint32_t alignment);
  /// As read without the initialised check; marks the bytes as written and initialised. The caller
  /// writes all of them at once.
  std::byte* write(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment);
  /// Read and write in one (atom, red). The caller serialises atomics among its workers.
  std::byte* update(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment);

  Footprint footprint() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace emulator
