#include "runtime/cpu/stream.h"

#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/cpu/pause.h"
#include "runtime/trace.h"

namespace riffle::runtime::cpu {
namespace {
// The driving thread may poll briefly for an event: a futex wake takes 60 µs on the reference
// machine. Other threads block at once.
constexpr int kDriverSpinUs = 20;
constexpr std::chrono::milliseconds kCancelPoll{5};

void throw_if(const std::function<bool()>* cancelled) {
  if (cancelled && (*cancelled)()) throw Cancelled({.what = "the step was cancelled"});
}
}  // namespace

Scratch::~Scratch() { std::free(memory_); }

void* Scratch::ensure(std::int64_t bytes) noexcept {
  if (bytes <= bytes_) return bytes > 0 ? memory_ : nullptr;
  std::free(memory_);
  bytes_ = 0;
  const auto rounded = (static_cast<std::size_t>(bytes) + 4095) & ~std::size_t{4095};
  memory_ = std::aligned_alloc(4096, rounded);
  if (memory_) bytes_ = static_cast<std::int64_t>(rounded);
  return memory_;
}

void QueueStream::Batch::clear() {
  items.clear();
  operands.clear();
  functions.clear();
}

QueueStream::QueueStream(Runner& runner, StreamInfo info, StreamId id)
    : runner_(runner), info_(std::move(info)), id_(id) {}

QueueStream::~QueueStream() {
  drain(nullptr);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

template <typename Add>
void QueueStream::push(Add add) {
  std::lock_guard lock(mutex_);
  if (!info_.driven_by_waiter) start_thread();  // first, so that nothing is queued if it fails
  add(pending_);
  if (drainers_ > 0) changed_.notify_all();
  if (thread_should_run()) wake_thread();
}

void QueueStream::start_thread() {
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { thread_main(); });
  } catch (const std::system_error& error) {
    throw DeviceError({.what = "no thread could be started for stream " + info_.name,
                       .hint = "raise the limit of processes (ulimit -u)",
                       .foreign = error.code().message()});
  }
}

void QueueStream::wake_thread() {
  if (!thread_sleeps_) return;
  thread_sleeps_ = false;
  work_.notify_one();
}

void QueueStream::launch(Module& module, std::int32_t kernel, std::span<void* const> operands,
                         const Command* command) {
  push([&](Batch& batch) {
    Item item(Item::Kind::launch, command);
    item.kernel = kernel;
    item.module = &module;
    item.operands = batch.operands.size();
    batch.operands.insert(batch.operands.end(), operands.begin(), operands.end());
    batch.items.push_back(item);
  });
}

void QueueStream::copy(void* destination, const void* source, std::int64_t bytes,
                       const Command* command) {
  push([&](Batch& batch) {
    Item item(Item::Kind::copy, command);
    item.destination = destination;
    item.source = source;
    item.bytes = bytes;
    batch.items.push_back(item);
  });
}

void QueueStream::fill(void* destination, std::uint8_t byte, std::int64_t bytes,
                       const Command* command) {
  push([&](Batch& batch) {
    Item item(Item::Kind::fill, command);
    item.byte = byte;
    item.destination = destination;
    item.bytes = bytes;
    batch.items.push_back(item);
  });
}

void QueueStream::record(Event& event, const Command* command) {
  Completion* completion = static_cast<QueueEvent&>(event).record(*this);
  try {
    push([&](Batch& batch) {
      Item item(Item::Kind::record, command);
      item.completion = completion;
      batch.items.push_back(item);
    });
  } catch (...) {  // no memory: nobody may wait for what was never queued
    completion->complete({std::current_exception(), now_ns()});
    completion->release();
    throw;
  }
}

void QueueStream::wait(Event& event, const Command* command) {
  Completion* completion = static_cast<QueueEvent&>(event).latest();
  if (!completion) return;
  try {
    push([&](Batch& batch) {
      Item item(Item::Kind::wait, command);
      item.completion = completion;
      batch.items.push_back(item);
    });
  } catch (...) {
    completion->release();
    throw;
  }
}

void QueueStream::host_call(std::function<void()> function, const Command* command) {
  push([&](Batch& batch) {
    Item item(Item::Kind::host_call, command);
    item.function = batch.functions.size();
    batch.functions.push_back(std::move(function));
    batch.items.push_back(item);
  });
}

void QueueStream::flush() {
  std::lock_guard lock(mutex_);
  if (pending_.items.empty() || driving_ || flushed_ || !info_.driven_by_waiter) return;
  start_thread();
  flushed_ = true;
  wake_thread();
}

void QueueStream::fail(const Failure& failure) noexcept {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  failed_.store(true, std::memory_order_release);
}

Failure QueueStream::drain(const std::function<bool()>* cancelled) {
  std::unique_lock lock(mutex_);
  ++drainers_;
  while (!idle()) {
    if (info_.driven_by_waiter && !driving_) {
      driving_ = true;
      lock.unlock();
      drive(cancelled);
      lock.lock();
      driving_ = false;
      flushed_ = false;
      if (drainers_ > 1) changed_.notify_all();
      continue;
    }
    if (!cancelled) {
      changed_.wait(lock);
      continue;
    }
    changed_.wait_for(lock, kCancelPoll);
    if (idle() || failure_) continue;
    lock.unlock();
    try {
      throw_if(cancelled);
    } catch (...) {
      fail({std::current_exception(), now_ns()});
    }
    lock.lock();
  }
  --drainers_;
  failed_.store(false, std::memory_order_release);
  return std::exchange(failure_, {});
}

void QueueStream::thread_main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!thread_should_run() && !stop_) {
      thread_sleeps_ = true;
      work_.wait(lock);
    }
    thread_sleeps_ = false;
    if (!thread_should_run()) return;  // stop, and drained before
    driving_ = true;
    lock.unlock();
    drive(nullptr);
    lock.lock();
    driving_ = false;
    flushed_ = false;
    if (drainers_ > 0) changed_.notify_all();
  }
}

void QueueStream::drive(const std::function<bool()>* cancelled) {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (pending_.items.empty()) return;
      std::swap(pending_, running_);
    }
    run_batch(cancelled);
    running_.clear();
  }
}

void QueueStream::run_batch(const std::function<bool()>* cancelled) {
  for (const Item& item : running_.items) {
    try {
      if (!failed_.load(std::memory_order_acquire)) throw_if(cancelled);
      execute(item, cancelled);
    } catch (...) {
      fail({std::current_exception(), now_ns()});
      if (item.kind == Item::Kind::record || item.kind == Item::Kind::wait)
        execute(item, nullptr);  // cancelled just before it: it still has a completion to settle
    }
  }
}

void QueueStream::execute(const Item& item, const std::function<bool()>* cancelled) {
  const bool failed = failed_.load(std::memory_order_acquire);
  const std::int64_t begin = runner_.trace && item.command ? now_ns() : 0;
  switch (item.kind) {
    case Item::Kind::launch:
      if (failed) return;
      runner_.launch(*item.module, item.kernel, running_.operands.data() + item.operands, scratch_);
      break;
    case Item::Kind::copy:
      if (failed) return;
      runner_.copy(item.destination, item.source, item.bytes);
      break;
    case Item::Kind::fill:
      if (failed) return;
      runner_.fill(item.destination, item.byte, item.bytes);
      break;
    case Item::Kind::host_call: {
      // Moved out: what the function holds is let go here, not when the batch is.
      const std::function<void()> function = std::move(running_.functions[item.function]);
      if (failed) return;
      function();
      break;
    }
    case Item::Kind::record: {
      if (begin) trace(item, begin);  // before others go on: they may draw from it at once
      Failure failure;
      if (failed) {
        std::lock_guard lock(mutex_);
        failure = failure_;
      }
      item.completion->complete(failure);
      item.completion->release();
      return;
    }
    case Item::Kind::wait: {
      if (!failed) {
        const bool done = item.completion->wait(
            {.spin_us = info_.driven_by_waiter ? kDriverSpinUs : 0, .cancelled = cancelled});
        if (!done) throw Cancelled({.what = "the step was cancelled"});
        if (item.completion->failure()) fail(item.completion->failure());
      }
      item.completion->release();
      break;
    }
  }
  if (begin) trace(item, begin);
}

void QueueStream::trace(const Item& item, std::int64_t begin_ns) const noexcept {
  try {
    runner_.trace->append({.command = item.command,
                           .stream = id_,
                           .step = runner_.trace->step,
                           .begin_ns = begin_ns,
                           .end_ns = item.kind == Item::Kind::record ? begin_ns : now_ns()});
  } catch (...) {  // no memory for a span: the step matters more
  }
}

}  // namespace riffle::runtime::cpu
