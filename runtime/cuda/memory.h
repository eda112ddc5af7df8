// Memory of a CUDA device: a stream-ordered pool, and pinned staging for what comes from and goes
// to the host. Both work on the device's copy stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/cpu/buffer.h"
#include "runtime/cuda/context.h"

namespace riffle::runtime::cuda {

/// Freed memory that the pool keeps for the next allocation instead of giving it back.
inline constexpr std::int64_t kDefaultReleaseThreshold = std::int64_t{256} << 20;

/// Host memory that copies may use while the program runs on. Freed by the destructor.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<const Context> context, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  const std::shared_ptr<const Context> context_;
  void* data_ = nullptr;
};

/// An event of the driver's. Destroyed by the destructor; a record in flight completes first.
class DriverEvent {
 public:
  DriverEvent(std::shared_ptr<const Context> context, unsigned flags);
  ~DriverEvent();
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;
  EventHandle handle() const noexcept { return event_; }

 private:
  const std::shared_ptr<const Context> context_;
  EventHandle event_ = nullptr;
};

/// Thread-safe; no lock is held while the driver works.
class Memory {
 public:
  Memory(std::shared_ptr<const Context> context, std::int64_t release_threshold);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// At least 256-byte aligned, uninitialised, ready for any stream. When the device is full the
  /// pool is flushed and the allocation tried once more, then a DeviceError says what was asked.
  DevicePointer allocate(std::int64_t bytes, std::string_view purpose);
  /// What used the memory must have been waited for.
  void free(DevicePointer pointer) noexcept;
  /// Blocks until the bytes have arrived. Throws DeviceError.
  void write(DevicePointer to, std::span<const std::byte> from);
  void read(DevicePointer from, std::span<std::byte> to);

  const std::shared_ptr<const Context>& context() const noexcept { return context_; }
  StreamHandle copy_stream() const noexcept { return copies_; }

 private:
  struct Staging;
  class Lease;
  Result try_allocate(DevicePointer& pointer, std::size_t bytes, const char*& call);

  const std::shared_ptr<const Context> context_;
  PoolHandle pool_ = nullptr;
  StreamHandle copies_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> staging_;  // those that nobody uses
};

/// Accounted device memory as a Buffer.
class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<Memory> memory, std::shared_ptr<cpu::MemoryAccount> account,
             DevicePointer pointer, std::int64_t bytes)
      : memory_(std::move(memory)),
        account_(std::move(account)),
        pointer_(pointer),
        bytes_(bytes) {}
  ~CudaBuffer() override;
  std::int64_t bytes() const noexcept override { return bytes_; }
  std::byte* host() noexcept override { return nullptr; }
  std::byte* address() noexcept override { return static_cast<std::byte*>(address_of(pointer_)); }
  void write(std::int64_t offset, std::span<const std::byte> from) override;
  void read(std::int64_t offset, std::span<std::byte> to) override;

 private:
  void require_inside(std::int64_t offset, std::size_t size) const;

  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<cpu::MemoryAccount> account_;
  const DevicePointer pointer_;
  const std::int64_t bytes_;
};

}  // namespace riffle::runtime::cuda
