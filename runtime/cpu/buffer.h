// Memory of the cpu device, and the account that all of a device's buffers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/device.h"

namespace riffle::runtime::cpu {

/// How much a device has handed out. Thread-safe.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::int64_t limit) : limit_(limit) {}
  /// Throws DeviceError when the sum would pass the limit.
  void take(std::int64_t bytes, std::string_view purpose);
  void give(std::int64_t bytes) noexcept { allocated_.fetch_sub(bytes); }
  std::int64_t allocated() const noexcept { return allocated_.load(); }
  std::int64_t peak() const noexcept { return peak_.load(); }

 private:
  const std::int64_t limit_;  // 0: none
  std::atomic<std::int64_t> allocated_{0}, peak_{0};
};

/// Uninitialised host memory, 64-byte aligned; from 2 MiB up aligned to huge pages, which the
/// kernel is asked for. Throws DeviceError.
std::unique_ptr<Buffer> allocate_host_buffer(std::int64_t bytes, std::string_view purpose,
                                             MemoryAccount& account);

}  // namespace riffle::runtime::cpu
