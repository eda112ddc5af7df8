// The items of a CUDA stream that were enqueued, before they are handed to the driver.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/cuda/event.h"
#include "runtime/cuda/module.h"

namespace riffle::runtime::cuda {

using NativeCall = std::function<void(void* stream)>;

struct Item {
  enum class Kind : std::uint8_t {
    launch,
    copy,
    fill,
    record,
    wait,
    host_call,
    native,   ///< a stream hook's own calls into the driver
    segment,  ///< the next `count` items are launched as one graph
  };
  Kind kind{};
  std::uint8_t byte = 0;
  std::int32_t kernel = 0;
  const Command* command = nullptr;
  const CudaModule* module = nullptr;
  Completion* completion = nullptr;  ///< a reference is held
  DevicePointer destination = 0, source = 0;
  std::int64_t bytes = 0;
  std::size_t first = 0, count = 0;  ///< of operands; the function's place; a segment's items
  std::int64_t key = 0;              ///< a segment's
};

struct Batch {
  std::vector<Item> items;
  std::vector<void*> operands;
  std::vector<std::function<void()>> functions;
  std::vector<NativeCall> natives;

  bool empty() const noexcept { return items.empty(); }
  std::span<void* const> operands_of(const Item& item) const {
    return {operands.data() + item.first, item.count};
  }
  void clear() {
    items.clear();
    operands.clear();
    functions.clear();
    natives.clear();
  }
};

}  // namespace riffle::runtime::cuda
