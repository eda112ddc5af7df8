// Completion: the state of one record of an event. Event: names the latest.
//
// A wait that was enqueued before the event was recorded again must still mean the older record, so
// queue items hold the Completion, not the Event. Completions are counted references and reused
// once nobody else holds them: a step that runs again allocates nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "runtime/device.h"

namespace riffle::runtime::cpu {

class QueueStream;

class Completion {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  void complete(const Failure& failure) noexcept;

  struct WaitOptions {
    int spin_us = 0;                                   ///< polls so long before it blocks
    bool kick_at_once = false;                         ///< flush the recording stream first
    const std::function<bool()>* cancelled = nullptr;  ///< polled while blocked
  };
  /// Blocks until complete; false if `cancelled` said so first.
  bool wait(const WaitOptions& options);
  /// Valid once done.
  const Failure& failure() const noexcept { return failure_; }

  void acquire() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool unshared() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  /// Of an unshared completion.
  void restart(QueueStream* producer) noexcept;

 private:
  std::atomic<int> references_{1};
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiters_ = 0;
  Failure failure_;
  QueueStream* producer_ = nullptr;  // alive while not done: a stream's destructor drains it
};

class QueueEvent final : public Event {
 public:
  ~QueueEvent() override;
  bool query() const noexcept override;
  void synchronize() override;

  /// A new record; the caller gets a reference, to complete and release.
  Completion* record(QueueStream& producer);
  /// The latest record with a reference for the caller, or nullptr.
  Completion* latest() const noexcept;

 private:
  mutable std::mutex mutex_;
  Completion* latest_ = nullptr;
};

std::int64_t now_ns() noexcept;

}  // namespace riffle::runtime::cpu
