// Executor: walks a verified Schedule on a Device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace riffle::runtime {

/// What a hook is given. Valid during the call (stream hooks: until the event they return).
struct HookCall {
  const Command* command = nullptr;
  std::span<std::byte> gradient;  ///< operand 0's bytes; empty for hooks without a gradient
  /// Stream hooks only: where to enqueue; the gradient is ready there. Null for host hooks.
  Stream* stream = nullptr;
};
/// Runs on the hook stream's thread (host hooks) or on the scheduling thread (stream hooks, which
/// enqueue on call.stream). Throwing fails the step with that exception, after the streams drained.
struct HookFunction {
  bool is_stream_hook = false;
  std::function<void(const HookCall&)> function;
};

/// What the names of a Schedule stand for in one run. Buffers must have at least the sizes the
/// schedule says. All must outlive the run.
struct Bindings {
  std::vector<Buffer*> buffers;
  std::vector<Module*> modules;
  std::vector<HookFunction> hooks;
  std::function<bool()> cancelled;  ///< polled between commands by the waiting thread; may be empty
};

/// Owns the streams and events for schedules of one shape. One run at a time; sequential runs may
/// come from different threads.
class Executor {
 public:
  explicit Executor(Device& device);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Verifies the schedule (once per schedule object and content; DeviceError otherwise) and
  /// readies streams and events for it.
  void prepare(std::shared_ptr<const Schedule> schedule);
  /// Enqueues everything; returns without waiting for compute.
  void enqueue(const Bindings& bindings);
  /// Waits for all streams, running the compute stream's commands on this thread; throws the first
  /// error after every stream has drained. The executor is usable afterwards.
  void wait();
  void run(const Bindings& bindings) {
    enqueue(bindings);
    wait();
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace riffle::runtime
