// Runs a GPU's kernels in tests, on the emulator, through the launch functions of their object.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/nvptx/nvptx_codegen.h"
#include "emulator/execute/run_kernel.h"
#include "emulator/memory/device_memory.h"
#include "emulator/ptx/module.h"
#include "jit/compile_partition.h"

namespace riffle::codegen::testing {

/// A compiled program, its slots in emulated memory, and what happened to them.
class Gpu {
 public:
  Gpu(const KernelProgram& program, const NvptxTarget& target)
      : program_(program),
        object_(compile_nvptx(program, target, detect_host(), "g_")),
        linked_(linker_.link(object_, "test", jit::CodeTarget::device)),
        module_(emulator::ptx::parse(linked_.device->ptx)) {
    for (const emulator::ptx::Variable& v : module_.variables)
      variables_[v.name] = memory_.allocate(v.bytes, v.name)->begin;
    for (const Slot& slot : program.slots) {
      const auto bytes = static_cast<std::uint64_t>(slot.type.bytes());
      slots_.push_back(memory_.allocate(std::max<std::uint64_t>(bytes, 1), slot.name));
    }
    status_ = memory_.allocate(sizeof(runtime::KernelStatus), "status");
    clear_status();
  }

  const runtime::DeviceKernel& kernel(std::size_t index) const {
    return linked_.device->kernels[index];
  }
  const std::vector<std::string>& warnings() const { return module_.warnings; }

  void upload(std::size_t slot, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(slots_[slot]->data, bytes.data(), bytes.size());
    std::memset(slots_[slot]->shadow, 1, bytes.size());
  }
  std::span<const std::byte> bytes(std::size_t slot) const {
    return {slots_[slot]->data, static_cast<std::size_t>(program_.slots[slot].type.bytes())};
  }
  bool initialised(std::size_t slot) const {
    for (std::size_t k = 0; k < bytes(slot).size(); ++k)
      if (slots_[slot]->shadow[k] != 1) return false;
    return true;
  }
  runtime::KernelStatus status() const {
    runtime::KernelStatus status;
    std::memcpy(&status, status_->data, sizeof status);
    return status;
  }
  void clear_status() {
    std::memset(status_->data, 0, sizeof(runtime::KernelStatus));
    std::memset(status_->shadow, 1, sizeof(runtime::KernelStatus));
  }

  /// Throws what the emulator throws.
  void run(std::size_t index, std::uint64_t seed = 1) {
    const runtime::DeviceKernel& k = kernel(index);
    Running running{.gpu = this, .kernel = &k, .seed = seed};
    std::vector<void*> functions, operands;
    for (std::int64_t g = 0; g < k.grid_count; ++g)
      functions.push_back(const_cast<runtime::DeviceGrid*>(&k.grids[g]));
    for (const KernelOperand& operand : program_.kernels[index].operands)
      operands.push_back(address(slots_[static_cast<std::size_t>(operand.slot)]->begin));
    std::shared_ptr<emulator::Allocation> scratch;
    if (k.scratch_bytes > 0)
      scratch = memory_.allocate(static_cast<std::uint64_t>(k.scratch_bytes), "scratch");
    const int result =
        k.launch(&launch_grid, functions.data(), operands.data(),
                 scratch ? address(scratch->begin) : nullptr, address(status_->begin), &running);
    if (scratch) memory_.release(scratch->begin, "test");
    if (running.failure) std::rethrow_exception(running.failure);
    EXPECT_EQ(result, 0);
  }

 private:
  struct Running {
    Gpu* gpu;
    const runtime::DeviceKernel* kernel;
    std::uint64_t seed;
    std::exception_ptr failure;  ///< may not cross the launch function
  };

  static void* address(std::uint64_t value) { return reinterpret_cast<void*>(value); }

  static int launch_grid(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared_bytes, void* stream,
                         void** parameters, void**) {
    auto& running = *static_cast<Running*>(stream);
    try {
      const Gpu& gpu = *running.gpu;
      const char* symbol = static_cast<const runtime::DeviceGrid*>(function)->symbol;
      emulator::Launch launch;
      launch.module = &gpu.module_;
      for (launch.kernel = 0; gpu.module_.kernels.at(launch.kernel).name != symbol;)
        ++launch.kernel;
      launch.grid = {gx, gy, gz};
      launch.block = {bx, by, bz};
      launch.dynamic_shared_bytes = shared_bytes;
      const emulator::ptx::KernelInfo& info = gpu.module_.kernels[launch.kernel];
      std::vector<std::byte> block(info.parameter_bytes);
      for (std::size_t p = 0; p < info.parameters.size(); ++p)
        std::memcpy(&block[info.parameters[p].offset], parameters[p], info.parameters[p].bytes);
      launch.parameters = block;
      launch.variables = &gpu.variables_;
      emulator::Footprint footprint;
      emulator::run_kernel(launch, running.gpu->memory_, {.workers = 1, .seed = running.seed},
                           footprint);
      return 0;
    } catch (...) {
      running.failure = std::current_exception();
      return 719;  // CUDA_ERROR_LAUNCH_FAILED
    }
  }

  KernelProgram program_;
  jit::Linker linker_;
  HostObject object_;
  jit::Linker::Linked linked_;
  emulator::ptx::Module module_;
  std::map<std::string, std::uint64_t> variables_;
  emulator::DeviceMemory memory_{"device 0", std::uint64_t{1} << 30};
  std::vector<std::shared_ptr<emulator::Allocation>> slots_;
  std::shared_ptr<emulator::Allocation> status_;
};

}  // namespace riffle::codegen::testing
