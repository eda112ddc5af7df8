// The null device: fake addresses; launches, copies and fills are counted and complete at once.
// Streams, events and host calls are real, so schedules keep their order and hooks run. For plans
// that are too big for this machine, and for tests and benchmarks of everything around kernels.
#include "runtime/null/device.h"

#include <fmt/format.h>

#include <atomic>

#include "runtime/cpu/buffer.h"
#include "runtime/cpu/stream.h"

namespace riffle::runtime {
namespace {

class NullBuffer final : public Buffer {
 public:
  NullBuffer(std::uintptr_t address, std::int64_t bytes, cpu::MemoryAccount& account)
      : address_(address), bytes_(bytes), account_(account) {}
  ~NullBuffer() override { account_.give(bytes_); }
  std::int64_t bytes() const noexcept override { return bytes_; }
  std::byte* host() noexcept override { return nullptr; }
  bool keeps_bytes() const noexcept override { return false; }
  std::byte* address() noexcept override {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): recorded, never dereferenced
    return reinterpret_cast<std::byte*>(address_);
  }

 private:
  std::uintptr_t address_;
  std::int64_t bytes_;
  cpu::MemoryAccount& account_;
};

class NullModule final : public Module {
 public:
  explicit NullModule(ModuleImage image) : image_(std::move(image)) {}
  const std::string& name() const noexcept override { return image_.name; }
  std::size_t kernel_count() const noexcept override { return image_.kernels.size(); }

 private:
  ModuleImage image_;
};

class NullRunner final : public cpu::Runner {
 public:
  void launch(Module&, std::int32_t, void* const*, cpu::Scratch&) override { ++launches; }
  void copy(void*, const void*, std::int64_t size) override {
    ++copies;
    bytes += size;
  }
  void fill(void*, std::uint8_t, std::int64_t size) override {
    ++fills;
    bytes += size;
  }
  std::atomic<std::int64_t> launches{0}, copies{0}, fills{0}, bytes{0};
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(const DeviceOptions& options) : account_(options.memory_limit) {}

  std::string_view name() const noexcept override { return "null"; }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes, std::string_view purpose) override {
    account_.take(bytes, purpose);
    const auto size = static_cast<std::uintptr_t>((bytes + 4095) / 4096 + 1) * 4096;
    return std::make_unique<NullBuffer>(next_address_.fetch_add(size), bytes, account_);
  }
  std::unique_ptr<Stream> create_stream(const StreamInfo& info, StreamId id) override {
    return std::make_unique<cpu::QueueStream>(runner_, info, id);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<cpu::QueueEvent>(); }
  std::unique_ptr<Module> load(ModuleImage image) override {
    return std::make_unique<NullModule>(std::move(image));
  }
  std::int64_t allocated_bytes() const noexcept override { return account_.allocated(); }
  std::int64_t peak_bytes() const noexcept override { return account_.peak(); }
  void set_trace(Trace* trace) noexcept override { runner_.trace = trace; }
  Trace* trace() const noexcept override { return runner_.trace; }
  NullCounts counts() const noexcept {
    return {runner_.launches, runner_.copies, runner_.fills, runner_.bytes};
  }

 private:
  cpu::MemoryAccount account_;
  NullRunner runner_;
  std::atomic<std::uintptr_t> next_address_{std::uintptr_t{1} << 44};  // nothing is mapped there
};

}  // namespace

std::unique_ptr<Device> make_null_device(const DeviceOptions& options) {
  return std::make_unique<NullDevice>(options);
}

NullCounts null_counts(const Device& device) noexcept {
  return static_cast<const NullDevice&>(device).counts();
}

}  // namespace riffle::runtime
