// CudaStream: a stream of the driver behind riffle's Stream.
//
// What is enqueued is handed to the driver at once, on the enqueuing thread, as long as nothing
// stands in the way. What stands in the way is work of the host: a host call, or a wait for a
// record that is itself still behind one. From there on items wait in a queue in host memory, and
// whoever drives the stream goes on: it waits until the device got to the host call, calls it, and
// hands over what follows. So enqueueing never blocks, what is behind a failing host call can
// still be skipped, and host calls run on a thread that may call the driver (cuLaunchHostFunc's may
// not).
//
// Driven is as in runtime/cpu/stream.h: by the stream's own thread, or, for `driven_by_waiter`
// streams, by whoever drains; such a stream's thread only helps when it was flushed. At most one
// thread drives or hands over at any time. Start reading at push() and drain().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/cuda/submission.h"

namespace riffle::runtime::cuda {

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<Shared> shared, StreamHandle given, const StreamInfo& info,
             StreamId id);
  ~CudaStream() override;

  void launch(Module& module, std::int32_t kernel, std::span<void* const> operands,
              const Command* command) override;
  void copy(void* destination, const void* source, std::int64_t bytes,
            const Command* command) override;
  void fill(void* destination, std::uint8_t byte, std::int64_t bytes,
            const Command* command) override;
  void record(Event& event, const Command* command) override;
  void wait(Event& event, const Command* command) override;
  void host_call(std::function<void()> function, const Command* command) override;
  void begin_segment(std::int64_t key) override;
  void end_segment() override;
  void flush() override;
  void fail(const Failure& failure) noexcept override;
  Failure drain(const std::function<bool()>* cancelled) override;

  /// Calls `call` with the driver's stream when everything enqueued so far has been handed to it.
  void enqueue_native(NativeCall call, const Command* command) override;
  void* native() const noexcept override { return submission_.handle(); }

 private:
  enum class Way : std::uint8_t { direct, queued };
  /// `add(batch)` appends one item.
  template <typename Add>
  void push(Way way, Add add);
  void close_segment();
  void stop_driving();  // under the lock
  void start_thread();
  void wake_thread();
  void thread_main();
  /// Hands over all that is queued. Called by the thread that holds `driving_`, without the lock.
  void drive(const std::function<bool()>* cancelled);
  void run_batch(const std::function<bool()>* cancelled) noexcept;
  void execute(const Item& item, std::span<const Item> segment,
               const std::function<bool()>* cancelled);
  void submit(const Item& item, std::span<const Item> segment,
              const std::function<bool()>* cancelled);
  void call_host(const Item& item, const std::function<bool()>* cancelled);
  void let_go(const Item& item) noexcept;
  /// Blocks until the device has done all that was handed over; failures fail the stream.
  void settle(const std::function<bool()>* cancelled) noexcept;
  void wait_for_device(const std::function<bool()>* cancelled);
  void fail_with_current() noexcept;
  bool idle() const { return !driving_ && pending_.empty(); }
  bool thread_should_run() const {
    return !driving_ && !pending_.empty() && (!info_.driven_by_waiter || flushed_);
  }

  const std::shared_ptr<Shared> shared_;
  const StreamInfo info_;

  std::mutex mutex_;
  std::condition_variable work_, changed_;  // the own thread waits for work_, drain for changed_
  Batch pending_;                           // under mutex_
  bool driving_ = false;
  bool flushed_ = false;
  bool stop_ = false;
  bool thread_sleeps_ = false;
  int drainers_ = 0;
  Failure failure_;
  std::thread thread_;
  std::atomic<bool> failed_{false};

  bool segment_open_ = false;  // of the thread that enqueues
  Batch segment_;

  Batch running_;          // of the thread that drives
  Submission submission_;  // likewise
};

}  // namespace riffle::runtime::cuda
