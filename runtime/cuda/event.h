// Completion: the state of one record of an event, with the driver's event that stands for it.
// CudaEvent: names the latest.
//
// A record has three lives: enqueued by riffle but not yet handed to the driver (it may stand
// behind a host call), issued (from here on the driver's event says when it is done), or failed
// (its stream failed first; it carries the failure). Who waits holds the Completion, not the event,
// since the event may be recorded again before the wait is handed over. Completions, with their
// driver events, are reused once nobody else holds them: a step that runs again allocates nothing,
// and a captured graph finds the same event again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/cuda/memory.h"

namespace riffle::runtime::cuda {

class Completion {
 public:
  explicit Completion(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  /// The driver's event, made when it is first recorded. By the recording stream; throws
  /// DeviceError.
  EventHandle prepare() {
    if (!event_) event_.emplace(context_, kEventDisableTiming | kEventBlockingSync);
    return event_->handle();
  }
  /// Of an issued completion without a failure.
  EventHandle event() const noexcept { return event_->handle(); }

  bool issued() const noexcept { return state_.load(std::memory_order_acquire) != State::enqueued; }
  /// Valid once issued: what the record carries instead of an end, if its stream had failed.
  const Failure& failure() const noexcept { return failure_; }
  void issue() noexcept { settle({}); }
  void fail(const Failure& failure) noexcept { settle(failure); }

  struct WaitOptions {
    bool kick_at_once = false;                         ///< flush the recording stream first
    const std::function<bool()>* cancelled = nullptr;  ///< polled while blocked
  };
  /// Blocks until issued; false if `cancelled` said so first.
  bool wait_issued(const WaitOptions& options);

  void acquire() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool unshared() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  /// Of an unshared completion.
  void restart(Stream* producer) noexcept;

 private:
  enum class State : std::uint8_t { enqueued, issued };
  void settle(const Failure& failure) noexcept;

  const std::shared_ptr<const Context> context_;
  std::optional<DriverEvent> event_;
  std::atomic<int> references_{1};
  std::atomic<State> state_{State::issued};
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiters_ = 0;
  Failure failure_;
  Stream* producer_ = nullptr;  // alive until issued: a stream's destructor drains it
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  ~CudaEvent() override;
  bool query() const noexcept override;
  void synchronize() override;

  /// A new record; the caller gets a reference, to issue and release.
  Completion* record(Stream& producer);
  /// The latest record with a reference for the caller, or nullptr.
  Completion* latest() const noexcept;

 private:
  const std::shared_ptr<const Context> context_;
  mutable std::mutex mutex_;
  Completion* latest_ = nullptr;
};

}  // namespace riffle::runtime::cuda
