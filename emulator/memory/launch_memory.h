// One worker thread's view of memory during one launch: every emulated load and store goes through
// it, so its fast path is inline. A direct-mapped cache of 64 KiB pages (a page belongs to at most
// one allocation) finds the bytes, their shadow and the bitmaps of what was touched.
// Start at LaunchMemory::read; what does not fit the fast path ends in LaunchMemory::slow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "emulator/memory/device_memory.h"

namespace emulator {

/// Whether 1, 2, 4, 8 or 16 shadow bytes all say initialised. Relaxed atomics: another worker of
/// the launch may be setting neighbours, never clearing.
inline bool all_initialised(const std::uint8_t* shadow, std::uint32_t bytes) {
  switch (bytes) {
    case 1:
      return __atomic_load_n(shadow, __ATOMIC_RELAXED) == 1;
    case 2:
      return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(shadow), __ATOMIC_RELAXED) ==
             0x0101;
    case 4:
      return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(shadow), __ATOMIC_RELAXED) ==
             0x01010101;
    case 8:
      return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(shadow), __ATOMIC_RELAXED) ==
             0x0101010101010101;
    default:
      for (std::uint32_t i = 0; i < bytes; ++i) {
        if (__atomic_load_n(shadow + i, __ATOMIC_RELAXED) != 1) return false;
      }
      return true;
  }
}

inline void set_initialised(std::uint8_t* shadow, std::uint32_t bytes) {
  switch (bytes) {
    case 2:
      __atomic_store_n(reinterpret_cast<std::uint16_t*>(shadow), 0x0101, __ATOMIC_RELAXED);
      return;
    case 4:
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(shadow), 0x01010101, __ATOMIC_RELAXED);
      return;
    case 8:
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(shadow), 0x0101010101010101,
                       __ATOMIC_RELAXED);
      return;
    default:
      for (std::uint32_t i = 0; i < bytes; ++i) {
        __atomic_store_n(shadow + i, std::uint8_t{1}, __ATOMIC_RELAXED);
      }
  }
}

/// Not thread-safe; several views of one launch may be used at once and their footprints merged
/// (`merge`). Bytes that one worker reads as constants and another writes show in the merged
/// footprint: constants and writes intersect.
class LaunchMemory {
 public:
  explicit LaunchMemory(DeviceMemory& memory);
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  /// Backing of [address, address + bytes) after the checks: inside one live allocation, `address`
  /// a multiple of `alignment` (a power of two), every byte initialised. Marks the bytes as read.
  /// Throws Fault.
  const std::byte* read(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment) {
    const std::uint32_t offset = address & (kPageBytes - 1);
    const Page& page = *cache_[(address >> kPageBits) % kSlots];
    if (fits(page, address, offset, bytes, alignment) &&
        all_initialised(page.shadow + offset, bytes)) [[likely]] {
      mark(page.reads, offset, bytes);
      return page.data + offset;
    }
    return slow(address, bytes, alignment, Access::read);
  }
  /// The same for ld.global.nc: the launch must not write these bytes, before or after.
  const std::byte* read_constant(std::uint64_t address, std::uint32_t bytes,
                                 std::uint32_t alignment) {
    const std::uint32_t offset = address & (kPageBytes - 1);
    const Page& page = *cache_[(address >> kPageBits) % kSlots];
    if (fits(page, address, offset, bytes, alignment) && page.constants &&
        all_initialised(page.shadow + offset, bytes) && !marked(page.writes, offset, bytes))
        [[likely]] {
      mark(page.constants, offset, bytes);
      return page.data + offset;
    }
    return slow(address, bytes, alignment, Access::read_constant);
  }
  /// As read without the initialised check; marks the bytes as written and initialised. The caller
  /// writes all of them at once.
  std::byte* write(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment) {
    const std::uint32_t offset = address & (kPageBytes - 1);
    const Page& page = *cache_[(address >> kPageBits) % kSlots];
    if (fits(page, address, offset, bytes, alignment) &&
        (!page.constants || !marked(page.constants, offset, bytes))) [[likely]] {
      mark(page.writes, offset, bytes);
      set_initialised(page.shadow + offset, bytes);
      return page.data + offset;
    }
    return slow(address, bytes, alignment, Access::write);
  }
  /// Read and write in one (atom, red). The caller serialises atomics among its workers.
  std::byte* update(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment) {
    read(address, bytes, alignment);
    return write(address, bytes, alignment);
  }

  Footprint footprint() const;

 private:
  enum class Access : std::uint8_t { read, read_constant, write };
  static constexpr std::size_t kSlots = 512;  ///< 32 MiB before two pages share a slot

  struct Page {
    std::uint64_t number = ~std::uint64_t{0};  ///< address >> kPageBits; no page has all ones
    std::uint32_t begin = 1, end = 0;          ///< the allocation's part, as offsets in the page
    std::byte* data = nullptr;                 ///< where offset 0 would be
    std::uint8_t* shadow = nullptr;
    std::uint64_t* reads = nullptr;  ///< one bit a 4-byte granule
    std::uint64_t* writes = nullptr;
    std::uint64_t* constants = nullptr;  ///< null until the launch reads one by ld.global.nc
    std::shared_ptr<Allocation> allocation;
    std::unique_ptr<std::uint64_t[]> bits, constant_bits;
  };

  /// An aligned access of up to 16 bytes lies in one 16-byte line: in one page, in one bitmap word.
  static bool fits(const Page& page, std::uint64_t address, std::uint32_t offset,
                   std::uint32_t bytes, std::uint32_t alignment) {
    return page.number == address >> kPageBits && offset >= page.begin &&
           offset + bytes <= page.end && (address & (alignment - 1)) == 0 &&
           (offset & 15) + bytes <= 16 && alignment >= bytes;
  }
  static std::uint64_t mask(std::uint32_t offset, std::uint32_t bytes) {
    const std::uint32_t first = offset >> 2, last = (offset + bytes - 1) >> 2;
    return ((std::uint64_t{2} << (last - first)) - 1) << (first & 63);
  }
  static void mark(std::uint64_t* bits, std::uint32_t offset, std::uint32_t bytes) {
    bits[offset >> 8] |= mask(offset, bytes);
  }
  static bool marked(const std::uint64_t* bits, std::uint32_t offset, std::uint32_t bytes) {
    return (bits[offset >> 8] & mask(offset, bytes)) != 0;
  }
  std::byte* slow(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment,
                  Access access);
  Page& page_of(std::uint64_t number, const std::shared_ptr<Allocation>& allocation);

  DeviceMemory& memory_;
  Page none_;
  std::array<Page*, kSlots> cache_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace emulator
