// The cpu device: memory of the host, kernels on a thread pool, streams as queues.
// Start reading at CpuRunner::launch.
#include "runtime/device.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/cpu/buffer.h"
#include "runtime/cpu/pause.h"
#include "runtime/cpu/pool.h"
#include "runtime/cpu/stream.h"
#include "runtime/kernel_status.h"

namespace riffle::runtime {
namespace cpu {
namespace {

class HostModule final : public Module {
 public:
  explicit HostModule(ModuleImage image) : image_(std::move(image)) {}
  const std::string& name() const noexcept override { return image_.name; }
  std::size_t kernel_count() const noexcept override { return image_.kernels.size(); }
  const KernelEntry& kernel(std::int32_t index) const { return image_.kernels[index]; }

 private:
  ModuleImage image_;
};

class CpuRunner final : public Runner {
 public:
  explicit CpuRunner(int threads) : pool_(threads) {}

  void launch(Module& module, std::int32_t kernel, void* const* operands,
              Scratch& scratch) override {
    const auto& host_module = static_cast<const HostModule&>(module);
    const KernelEntry& entry = host_module.kernel(kernel);
    if (!entry.function) {
      const DefaultFloatState float_state;
      entry.host_function(operands);
      return;
    }
    KernelStatus status;
    if (!pool_.run(entry.function, entry.geometry, operands, scratch, status))
      throw DeviceError({.what = fmt::format("out of memory: kernel {} needs {} bytes of scratch",
                                             entry.name, entry.geometry.scratch_bytes),
                         .where = host_module.name()});
    check_status(status, entry.name, host_module.name());
  }
  void copy(void* destination, const void* source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  void fill(void* destination, std::uint8_t byte, std::int64_t bytes) override {
    if (bytes > 0) std::memset(destination, byte, static_cast<std::size_t>(bytes));
  }

 private:
  Pool pool_;
};

int resolve_threads(int threads) {
  if (threads < 0)
    throw UsageError({.what = fmt::format("a device cannot have {} threads", threads),
                      .hint = "1 or more; 0 for as many as there are cores"});
  if (threads > 0) return threads;
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : account_(options.memory_limit), runner_(resolve_threads(options.threads)) {}

  std::string_view name() const noexcept override { return "cpu"; }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes, std::string_view purpose) override {
    return allocate_host_buffer(bytes, purpose, account_);
  }
  std::unique_ptr<Stream> create_stream(const StreamInfo& info, StreamId id) override {
    return std::make_unique<QueueStream>(runner_, info, id);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<QueueEvent>(); }
  std::unique_ptr<Module> load(ModuleImage image) override {
    for (const KernelEntry& kernel : image.kernels)
      if (!kernel.function && !kernel.host_function)
        throw DeviceError({.what = fmt::format("kernel {} has no code for the cpu", kernel.name),
                           .where = image.name});
    return std::make_unique<HostModule>(std::move(image));
  }
  std::int64_t allocated_bytes() const noexcept override { return account_.allocated(); }
  std::int64_t peak_bytes() const noexcept override { return account_.peak(); }
  void set_trace(Trace* trace) noexcept override { runner_.trace = trace; }
  Trace* trace() const noexcept override { return runner_.trace; }

 private:
  MemoryAccount account_;
  CpuRunner runner_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) {
  return std::make_unique<cpu::CpuDevice>(options);
}

}  // namespace riffle::runtime
