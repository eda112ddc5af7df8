#include "runtime/cpu/event.h"

#include <chrono>
#include <memory>

#include "runtime/cpu/pause.h"
#include "runtime/cpu/stream.h"

namespace riffle::runtime::cpu {
namespace {
// After so long blocked, a waiter makes sure that somebody runs the stream it waits for. Not at
// once: the thread that enqueued usually comes to drain that stream itself, and waking another
// thread for it would cost more than a small step.
constexpr std::chrono::milliseconds kGrace{1};
constexpr std::chrono::milliseconds kCancelPoll{5};
}  // namespace

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Completion::complete(const Failure& failure) noexcept {
  std::lock_guard lock(mutex_);
  failure_ = failure;
  done_.store(true, std::memory_order_release);
  // Notified under the lock: the waiter may drop the last reference as soon as it gets it.
  if (waiters_ > 0) changed_.notify_all();
}

bool Completion::wait(const WaitOptions& options) {
  if (done()) return true;
  if (options.spin_us > 0) {
    const std::int64_t until = now_ns() + options.spin_us * std::int64_t{1000};
    do {
      for (int i = 0; i < 32; ++i) {
        if (done()) return true;
        pause();
      }
    } while (now_ns() < until);
  }
  std::unique_lock lock(mutex_);
  const auto is_done = [this] { return done_.load(std::memory_order_relaxed); };
  ++waiters_;
  bool finished = options.kick_at_once ? is_done() : changed_.wait_for(lock, kGrace, is_done);
  // Holding mutex_ keeps the producer alive: it cannot complete this, hence cannot be destroyed.
  if (!finished && producer_) producer_->flush();
  while (!finished && options.cancelled) {
    lock.unlock();
    const bool cancelled = (*options.cancelled)();
    lock.lock();
    if (cancelled && !is_done()) break;
    finished = changed_.wait_for(lock, kCancelPoll, is_done);
  }
  if (!finished && !options.cancelled) {
    changed_.wait(lock, is_done);
    finished = true;
  }
  --waiters_;
  return finished;
}

void Completion::restart(QueueStream* producer) noexcept {
  std::lock_guard lock(mutex_);
  failure_ = {};
  producer_ = producer;
  done_.store(false, std::memory_order_relaxed);
}

QueueEvent::~QueueEvent() {
  if (latest_) latest_->release();
}

bool QueueEvent::query() const noexcept {
  std::lock_guard lock(mutex_);
  return !latest_ || latest_->done();
}

void QueueEvent::synchronize() {
  struct Release {  // also when waiting throws
    void operator()(Completion* completion) const noexcept { completion->release(); }
  };
  const std::unique_ptr<Completion, Release> completion(latest());
  if (!completion) return;
  completion->wait({.spin_us = 20, .kick_at_once = true});
  if (const std::exception_ptr error = completion->failure().error) std::rethrow_exception(error);
}

Completion* QueueEvent::record(QueueStream& producer) {
  std::lock_guard lock(mutex_);
  if (latest_ && !(latest_->unshared() && latest_->done())) {
    latest_->release();
    latest_ = nullptr;
  }
  if (!latest_) latest_ = new Completion;
  latest_->restart(&producer);
  latest_->acquire();
  return latest_;
}

Completion* QueueEvent::latest() const noexcept {
  std::lock_guard lock(mutex_);
  if (latest_) latest_->acquire();
  return latest_;
}

}  // namespace riffle::runtime::cpu
