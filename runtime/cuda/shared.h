// What a CUDA device's objects share. Each of them keeps it alive, so they may be destroyed in any
// order.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/nvtx.h"

namespace riffle::runtime::cuda {

struct Shared {
  std::shared_ptr<const Context> context;
  std::shared_ptr<Memory> memory;
  std::shared_ptr<cpu::MemoryAccount> account;
  std::shared_ptr<const Nvtx> nvtx;
  bool graphs = true;

  /// Set only while every stream is idle. Spans are placed on the steady clock by the time that
  /// passed since `base`, an event that completed at `base_ns` or little later: a span is never
  /// placed after its end.
  Trace* trace = nullptr;
  std::unique_ptr<DriverEvent> base;
  std::int64_t base_ns = 0;
  std::exception_ptr trace_failure;  ///< why there is no base: fails the first traced stream
  /// Records `base` until its time is known to some microseconds, or often enough. With the
  /// context bound; throws DeviceError.
  void place_base();

  std::atomic<std::int64_t> graphs_captured{0}, graphs_launched{0};
};

std::int64_t now_ns() noexcept;

}  // namespace riffle::runtime::cuda
