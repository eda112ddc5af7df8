// Runs compiled kernels in tests: slots in aligned memory, tasks in any division.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"
#include "jit/compile_partition.h"

namespace riffle::codegen::testing {

/// 64-byte aligned, with guard bytes around that `intact` looks at.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(
            ::operator new(padded(bytes) + 2 * kGuard, std::align_val_t{64}))) {
    std::memset(data_.get(), 0x5a, padded(bytes) + 2 * kGuard);
  }
  std::byte* data() const { return data_.get() + kGuard; }
  std::span<std::byte> bytes() const { return {data(), bytes_}; }
  bool intact() const {
    for (std::size_t k = 0; k < kGuard; ++k)
      if (data_.get()[k] != std::byte{0x5a} || data()[bytes_ + k] != std::byte{0x5a}) return false;
    return true;
  }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), bytes_ / sizeof(T)};
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

inline std::vector<Memory> slots_of(const KernelProgram& program) {
  std::vector<Memory> memory;
  for (const Slot& slot : program.slots)
    memory.emplace_back(static_cast<std::size_t>(slot.type.bytes()));
  return memory;
}

/// Compiled and linked.
class Compiled {
 public:
  Compiled(const KernelProgram& program, const HostTarget& target)
      : program_(program),
        object_(compile_host(program, target, "t_")),
        linked_(linker_.link(object_, "test")) {}

  std::size_t kernels() const { return object_.entries.size(); }
  const runtime::KernelGeometry& geometry(std::size_t kernel) const {
    return object_.entries[kernel].geometry;
  }
  std::size_t object_bytes() const { return object_.object.size(); }

  /// Tasks [begin, end) of one kernel.
  void run(std::size_t kernel, std::int64_t begin, std::int64_t end,
           const std::vector<Memory>& slots, runtime::KernelStatus& status) const {
    std::vector<void*> operands;
    for (const KernelOperand& operand : program_.kernels[kernel].operands)
      operands.push_back(slots[static_cast<std::size_t>(operand.slot)].data());
    Memory scratch(static_cast<std::size_t>(geometry(kernel).scratch_bytes));
    linked_.functions[kernel](operands.data(), begin, end, scratch.data(), &status);
  }
  /// The whole program, each kernel in one call.
  runtime::KernelStatus run(const std::vector<Memory>& slots) const {
    runtime::KernelStatus status;
    for (std::size_t k = 0; k < kernels(); ++k) run(k, 0, geometry(k).tasks, slots, status);
    return status;
  }

 private:
  KernelProgram program_;
  jit::Linker linker_;
  HostObject object_;
  jit::Linker::Linked linked_;
};

}  // namespace riffle::codegen::testing
