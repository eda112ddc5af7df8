#include "runtime/cuda/event.h"

#include <chrono>

namespace riffle::runtime::cuda {
namespace {
// As in runtime/cpu/event.cpp: after so long blocked, a waiter makes sure that somebody runs the
// stream it waits for; not at once, since its enqueuer usually comes to drain it.
constexpr std::chrono::milliseconds kGrace{1};
constexpr std::chrono::milliseconds kCancelPoll{5};
}  // namespace

void Completion::settle(const Failure& failure) noexcept {
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  state_.store(State::issued, std::memory_order_release);
  // Notified under the lock: the waiter may drop the last reference as soon as it gets it.
  if (waiters_ > 0) changed_.notify_all();
}

bool Completion::wait_issued(const WaitOptions& options) {
  if (issued()) return true;
  std::unique_lock lock(mutex_);
  const auto is_issued = [this] {
    return state_.load(std::memory_order_relaxed) != State::enqueued;
  };
  ++waiters_;
  bool finished = options.kick_at_once ? is_issued() : changed_.wait_for(lock, kGrace, is_issued);
  // Holding mutex_ keeps the producer alive: it cannot issue this, hence cannot be destroyed.
  if (!finished && producer_) producer_->flush();
  while (!finished && options.cancelled) {
    lock.unlock();
    const bool cancelled = (*options.cancelled)();
    lock.lock();
    if (cancelled && !is_issued()) break;
    finished = changed_.wait_for(lock, kCancelPoll, is_issued);
  }
  if (!finished && !options.cancelled) {
    changed_.wait(lock, is_issued);
    finished = true;
  }
  --waiters_;
  return finished;
}

void Completion::restart(Stream* producer) noexcept {
  const std::lock_guard lock(mutex_);
  failure_ = {};
  producer_ = producer;
  state_.store(State::enqueued, std::memory_order_relaxed);
}

CudaEvent::~CudaEvent() {
  if (latest_) latest_->release();
}

bool CudaEvent::query() const noexcept {
  Completion* completion = latest();
  if (!completion) return true;
  bool done = completion->issued();
  if (done && !completion->failure()) {
    const Bind bind(*context_, std::nothrow);
    // Any other error is an end too, if not a good one.
    done = !bind || context_->api().EventQuery(completion->event()) != kNotReady;
  }
  completion->release();
  return done;
}

void CudaEvent::synchronize() {
  Completion* completion = latest();
  if (!completion) return;
  completion->wait_issued({.kick_at_once = true});
  std::exception_ptr error = completion->failure().error;
  if (!error) try {
      const Bind bind(*context_);
      CUDA_CALL(*context_, EventSynchronize, completion->event());
    } catch (...) {
      error = std::current_exception();
    }
  completion->release();
  if (error) std::rethrow_exception(error);
}

Completion* CudaEvent::record(Stream& producer) {
  const std::lock_guard lock(mutex_);
  if (latest_ && !latest_->unshared()) {
    latest_->release();
    latest_ = nullptr;
  }
  if (!latest_) latest_ = new Completion(context_);
  latest_->restart(&producer);
  latest_->acquire();
  return latest_;
}

Completion* CudaEvent::latest() const noexcept {
  const std::lock_guard lock(mutex_);
  if (latest_) latest_->acquire();
  return latest_;
}

}  // namespace riffle::runtime::cuda
