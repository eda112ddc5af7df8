// QueueStream: a stream as a queue in host memory, for devices whose work is done by host threads
// (cpu, null). What a launch, a copy or a fill does is the device's business (Runner).
//
// Items are collected in a batch; whoever drives the stream swaps the batch for its own empty one
// and runs it with no lock held. Two batches per stream are reused for ever, so enqueueing
// allocates nothing once they have grown.
//
// At any time at most one thread drives: the stream's own thread (started when first needed), or,
// for `driven_by_waiter` streams, whoever drains. Such a stream's own thread only helps when it was
// flushed. Start reading at drain().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/cpu/event.h"
#include "runtime/device.h"

namespace riffle::runtime::cpu {

/// Scratch memory of one thread at a time, 64-byte aligned, kept at its largest size.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// nullptr if memory is short (or bytes is 0).
  void* ensure(std::int64_t bytes) noexcept;

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Does the work of a device; called by one thread at a time per stream, concurrently by streams.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void launch(Module& module, std::int32_t kernel, void* const* operands,
                      Scratch& scratch) = 0;
  virtual void copy(void* destination, const void* source, std::int64_t bytes) = 0;
  virtual void fill(void* destination, std::uint8_t byte, std::int64_t bytes) = 0;
  /// Set only while streams are idle.
  Trace* trace = nullptr;
};

class QueueStream final : public Stream {
 public:
  QueueStream(Runner& runner, StreamInfo info, StreamId id);
  ~QueueStream() override;

  void launch(Module& module, std::int32_t kernel, std::span<void* const> operands,
              const Command* command) override;
  void copy(void* destination, const void* source, std::int64_t bytes,
            const Command* command) override;
  void fill(void* destination, std::uint8_t byte, std::int64_t bytes,
            const Command* command) override;
  void record(Event& event, const Command* command) override;
  void wait(Event& event, const Command* command) override;
  void host_call(std::function<void()> function, const Command* command) override;
  void flush() override;
  void fail(const Failure& failure) noexcept override;
  Failure drain(const std::function<bool()>* cancelled) override;

 private:
  struct Item {
    enum class Kind : std::uint8_t { launch, copy, fill, record, wait, host_call };
    Item(Kind kind, const Command* command) : kind(kind), command(command) {}
    Kind kind;
    std::uint8_t byte = 0;
    std::int32_t kernel = 0;
    const Command* command;
    union {
      Module* module = nullptr;
      Completion* completion;
      void* destination;
      std::size_t function;
    };
    union {
      std::size_t operands = 0;
      const void* source;
    };
    std::int64_t bytes = 0;
  };
  struct Batch {
    std::vector<Item> items;
    std::vector<void*> operands;
    std::vector<std::function<void()>> functions;
    void clear();
  };

  /// `add(batch)` appends one item under the lock.
  template <typename Add>
  void push(Add add);
  void start_thread();
  void wake_thread();
  void thread_main();
  /// Runs all that is queued. Called by the thread that holds `driving_`, without the lock.
  void drive(const std::function<bool()>* cancelled);
  void run_batch(const std::function<bool()>* cancelled);
  void execute(const Item& item, const std::function<bool()>* cancelled);
  void trace(const Item& item, std::int64_t begin_ns) const noexcept;
  bool idle() const { return !driving_ && pending_.items.empty(); }
  bool thread_should_run() const {
    return !driving_ && !pending_.items.empty() && (!info_.driven_by_waiter || flushed_);
  }

  Runner& runner_;
  const StreamInfo info_;
  const StreamId id_;

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

  Batch running_;    // of the thread that drives
  Scratch scratch_;  // likewise
  std::atomic<bool> failed_{false};
};

}  // namespace riffle::runtime::cpu
