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

/// What a hook is given. Valid during the call.
struct HookCall {
  const Command* command = nullptr;
  /// Operand 0's bytes on the host: for host hooks, a copy where the host cannot address the
  /// device's memory, which goes back if the hook declares to write. Empty for hooks without a
  /// gradient, on the null device, and for stream hooks where the host cannot address them.
  std::span<std::byte> gradient;
  void* address = nullptr;  ///< stream hooks: operand 0 on the device
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
/// schedule says. Buffers and modules must outlive the run; functions are copied.
struct Bindings {
  std::vector<Buffer*> buffers;
  std::vector<Module*> modules;
  /// By slot, for Hook and Collective commands; an empty function does nothing.
  std::vector<HookFunction> hooks;
  /// Polled between commands by the waiting thread, up to the first command of the optimizer phase
  /// that touches memory; may be empty.
  std::function<bool()> cancelled;
};

/// Checks for tests and for hunting bugs; each costs passes over memory.
struct ExecutorOptions {
  /// Freed bytes, and buffers that a schedule must write first, are filled with 0xff: a NaN in
  /// every floating dtype, −1 in every integer one.
  bool poison_freed = false;
  /// Around every host hook the bytes of its buffers that it may not write, and that no concurrent
  /// command writes, are checksummed: an undeclared write fails the step by the hook's name.
  bool check_hook_writes = false;
};

/// Owns the streams and events for schedules of one shape. One run at a time; sequential runs may
/// come from different threads.
class Executor {
 public:
  explicit Executor(Device& device, ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Verifies the schedule (once per schedule object and content; DeviceError otherwise) and
  /// readies streams and events for it.
  void prepare(std::shared_ptr<const Schedule> schedule);
  /// Enqueues everything and lets it begin on the streams' own threads; returns without waiting
  /// for compute. Throws for bindings that do not fit the schedule (nothing is enqueued then).
  void enqueue(const Bindings& bindings);
  /// Waits for all streams, running the compute stream's commands on this thread if no other
  /// thread has begun them; throws the first error after every stream has drained. The executor
  /// is usable afterwards.
  void wait();
  /// enqueue and wait, with the compute stream left to this thread: no thread is woken for it.
  void run(const Bindings& bindings);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace riffle::runtime
