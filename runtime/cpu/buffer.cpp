#include "runtime/cpu/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

namespace riffle::runtime::cpu {
namespace {
constexpr std::int64_t kHugePage = 2 << 20;

class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::byte* memory, std::int64_t bytes, MemoryAccount& account)
      : memory_(memory), bytes_(bytes), account_(account) {}
  ~HostBuffer() override {
    std::free(memory_);
    account_.give(bytes_);
  }
  std::int64_t bytes() const noexcept override { return bytes_; }
  std::byte* host() noexcept override { return memory_; }
  std::byte* address() noexcept override { return memory_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_;
  MemoryAccount& account_;
};
}  // namespace

void MemoryAccount::take(std::int64_t bytes, std::string_view purpose) {
  if (bytes < 0)
    throw DeviceError({.what = fmt::format("cannot allocate {} bytes for {}", bytes, purpose)});
  std::int64_t before = allocated_.load();
  do {
    if (limit_ > 0 && bytes > limit_ - before)
      throw DeviceError(
          {.what = fmt::format("out of memory: {} needs {} bytes, {} of the limit of {} are in use",
                               purpose, bytes, before, limit_),
           .hint = "a smaller batch, or a higher memory limit"});
  } while (!allocated_.compare_exchange_weak(before, before + bytes));
  std::int64_t peak = peak_.load();
  while (peak < before + bytes && !peak_.compare_exchange_weak(peak, before + bytes)) {
  }
}

std::unique_ptr<Buffer> allocate_host_buffer(std::int64_t bytes, std::string_view purpose,
                                             MemoryAccount& account) {
  account.take(bytes, purpose);
  void* memory = nullptr;
  try {
    const std::int64_t alignment = bytes >= kHugePage ? kHugePage : kOperandAlignment;
    // Never null, so that an empty tensor has an address too.
    const std::size_t size = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
    if (::posix_memalign(&memory, static_cast<std::size_t>(alignment), size) != 0) {
      memory = nullptr;
      throw DeviceError(
          {.what =
               fmt::format("out of memory: the system has no {} bytes for {} ({} bytes are in use)",
                           bytes, purpose, account.allocated() - bytes),
           .hint = "a smaller batch, or closing other programs",
           .foreign = "ENOMEM"});
    }
#ifdef MADV_HUGEPAGE
    // Advice only: where it is refused small pages serve.
    if (bytes >= kHugePage) ::madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
    return std::make_unique<HostBuffer>(static_cast<std::byte*>(memory), bytes, account);
  } catch (...) {
    std::free(memory);
    account.give(bytes);
    throw;
  }
}

}  // namespace riffle::runtime::cpu
