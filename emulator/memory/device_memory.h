// Device memory of one emulated GPU.
//
// Addresses are numbers in a reserved PROT_NONE range, so that a host that dereferences one faults;
// the bytes lie elsewhere. Addresses are never reused, an allocation begins in a 64 KiB page of its
// own and a page of gap follows it, and each byte has a shadow (initialised or not). Bytes that
// nobody wrote stop a kernel that reads them, and reach the host as 0xff, a NaN in every format.
// Kernels reach memory only through a LaunchMemory (launch_memory.h), which checks every access and
// remembers what the launch touched; the driver then orders those ranges by happens-before
// (driver/races.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/fault.h"

namespace emulator {

inline constexpr int kPageBits = 16;
inline constexpr std::uint64_t kPageBytes = std::uint64_t{1} << kPageBits;
inline constexpr std::uint8_t kPoison = 0xff;

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// What one launch read and wrote, as merged, sorted ranges (4-byte granules). `constants` is what
/// it read by ld.global.nc; those ranges are in `reads` too.
struct Footprint {
  std::vector<ByteRange> reads, writes, constants;
};

/// Adds `from`, which another worker of the same launch touched, to `into`.
void merge(Footprint& into, const Footprint& from);
/// Sorts, and joins what touches or overlaps.
std::vector<ByteRange> merge_ranges(std::vector<ByteRange> ranges);
/// What both hold; each argument merged.
std::vector<ByteRange> intersect(const std::vector<ByteRange>& a, const std::vector<ByteRange>& b);

struct Allocation {
  std::uint64_t begin = 0, bytes = 0;
  std::uint64_t serial = 0;  ///< counts from 1 in the process, for messages
  std::string origin;        ///< "cuMemAlloc", "variable weights", …
  std::byte* data = nullptr;
  std::uint8_t* shadow = nullptr;  ///< 1: initialised; `bytes` long
  bool host = false;               ///< the bytes are the host's: neither owned nor poisoned
  std::atomic<bool> freed{false};
  std::string freed_by;  ///< written before `freed`

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();
  std::uint64_t end() const { return begin + bytes; }
  /// "allocation #3 (cuMemAlloc, 4096 bytes)".
  std::string describe() const;
};

/// Thread-safe: allocation, release and look-up may go on while launches run.
class DeviceMemory {
 public:
  /// `name` ("device 0") is for messages; `capacity` bounds the bytes of live allocations.
  DeviceMemory(std::string name, std::uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Aligned to 256 bytes and, to catch who asks for more, to no more. Null: no room.
  std::shared_ptr<Allocation> allocate(std::uint64_t bytes, std::string origin);
  /// Makes host bytes reachable from kernels: at their own address (`pages` whole pages of the
  /// host's, which nothing else lies in), or at one of the reserved range. Always initialised.
  std::shared_ptr<Allocation> map_host(void* host, std::uint64_t bytes, bool own_address,
                                       std::string origin);
  /// False: `address` is not the beginning of a live allocation.
  bool release(std::uint64_t address, std::string freed_by);
  /// The allocation, live or freed, whose bytes hold `address`; null if none does.
  std::shared_ptr<Allocation> find(std::uint64_t address) const;
  /// The same among this memory and what it reaches: peers and pinned host memory.
  std::shared_ptr<Allocation> find_reachable(std::uint64_t address) const;

  /// The live allocation that holds all of the range, own or reachable. Throws Fault.
  std::shared_ptr<Allocation> resolve(std::uint64_t address, std::uint64_t bytes,
                                      std::string_view access) const;
  /// Why no access of `bytes` at `address` is allowed, with the nearest allocation.
  Fault explain(std::uint64_t address, std::uint64_t bytes, std::string_view access) const;

  /// Kernels on this device may, or may no longer, reach the other's allocations.
  void set_reachable(const DeviceMemory* other, bool reachable);
  /// Messages then say "memory of device 1, without peer access".
  void set_known(const DeviceMemory* other);

  bool in_reserved_range(std::uint64_t address) const;
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  std::vector<std::shared_ptr<Allocation>> live() const;
  const std::string& name() const { return name_; }

 private:
  std::uint64_t take_addresses(std::uint64_t bytes);
  std::string place_of(std::uint64_t address, std::uint64_t bytes) const;
  void forget_old_frees();

  std::string name_;
  std::atomic<std::uint64_t> capacity_, used_{0};
  std::uint64_t base_ = 0, reserved_ = 0, next_ = 0;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Allocation>> by_begin_;  ///< freed ones too
  std::vector<std::uint64_t> freed_;                               ///< oldest first
  std::vector<const DeviceMemory*> reachable_, known_;
};

/// Copies initialised bytes and their shadow; bytes that are not arrive as poison (and as not
/// initialised where the destination has a shadow). Returns how many were not.
std::uint64_t copy_bytes(std::byte* to, std::uint8_t* to_shadow, const std::byte* from,
                         const std::uint8_t* from_shadow, std::uint64_t bytes);

}  // namespace emulator

#include "emulator/memory/launch_memory.h"
