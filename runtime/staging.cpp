#include "runtime/staging.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "runtime/cpu/pause.h"
#include "runtime/kernel_status.h"

namespace riffle::runtime {
namespace {

struct Freed {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Aligned = std::unique_ptr<std::byte, Freed>;

Aligned allocate(std::int64_t bytes) {
  const auto alignment = static_cast<std::size_t>(kOperandAlignment);
  const std::size_t size = (static_cast<std::size_t>(bytes) + alignment) / alignment * alignment;
  Aligned memory(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
  if (!memory)
    throw DeviceError({.what = fmt::format("out of memory: the host has no {} bytes for a copy of "
                                           "what its code works on",
                                           bytes),
                       .hint = "a smaller batch, or the partition on the device (backend K cuda)"});
  return memory;
}

/// One thread runs all tasks: a fallback, counted by whoever chose it, need not be fast.
void run_compiled(const KernelEntry& entry, const std::string& module, void* const* operands) {
  const Aligned scratch = allocate(entry.geometry.scratch_bytes);
  KernelStatus status;
  entry.function(operands, 0, entry.geometry.tasks, scratch.get(), &status);
  check_status(status, entry.name, module);
}

class StagedModule final : public Module {
 public:
  explicit StagedModule(ModuleImage image) : image_(std::move(image)) {
    for (const KernelEntry& entry : image_.kernels)
      calls_.emplace_back([&entry, this](void* const* operands) {
        const cpu::DefaultFloatState float_state;  // the thread may be the embedder's
        if (entry.host_function)
          entry.host_function(operands);
        else
          run_compiled(entry, image_.name, operands);
      });
  }
  const std::string& name() const noexcept override { return image_.name; }
  std::size_t kernel_count() const noexcept override { return image_.kernels.size(); }
  const HostCall* host_kernel(std::int32_t kernel) const noexcept override {
    return &calls_[static_cast<std::size_t>(kernel)];
  }

 private:
  ModuleImage image_;
  std::vector<HostCall> calls_;
};

}  // namespace

void with_operands_on_host(std::span<const Operand> operands, std::span<Buffer* const> buffers,
                           const std::function<void(std::span<void* const>)>& work) {
  const auto size = [](const Operand& operand) {
    return static_cast<std::size_t>(operand.range.end - operand.range.begin);
  };
  std::vector<Aligned> copies;
  std::vector<void*> addresses;
  for (const Operand& operand : operands) {
    copies.push_back(allocate(operand.range.end - operand.range.begin));
    // What is only written is read too: code need not write every byte.
    buffers[operand.range.buffer]->read(operand.range.begin, {copies.back().get(), size(operand)});
    addresses.push_back(copies.back().get());
  }
  work(addresses);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].access != Access::read)
      buffers[operands[i].range.buffer]->write(operands[i].range.begin,
                                               {copies[i].get(), size(operands[i])});
}

std::unique_ptr<Module> make_staged_module(ModuleImage image) {
  return std::make_unique<StagedModule>(std::move(image));
}

}  // namespace riffle::runtime
