#include "runtime/cuda/stream.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/cpu/pause.h"

namespace riffle::runtime::cuda {
namespace {
// The driving thread may poll so long for the device; other threads block at once.
constexpr std::int64_t kDriverSpinNs = 20'000;
constexpr std::int64_t kShortestSleepNs = 20'000, kLongestSleepNs = 1'000'000;
constexpr std::chrono::milliseconds kCancelPoll{5};

void throw_if(const std::function<bool()>* cancelled) {
  if (cancelled && (*cancelled)()) throw Cancelled({.what = "the step was cancelled"});
}

DevicePointer pointer_of(const void* address) { return reinterpret_cast<DevicePointer>(address); }
}  // namespace

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CudaStream::CudaStream(std::shared_ptr<Shared> shared, StreamHandle given, const StreamInfo& info,
                       StreamId id)
    : shared_(std::move(shared)), info_(info), submission_(shared_, given, info.priority, id) {}

CudaStream::~CudaStream() {
  if (shared_->context->driver().forked()) {  // the thread is the parent's
    if (thread_.joinable()) thread_.detach();
    return;
  }
  drain(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

template <typename Add>
void CudaStream::push(Way way, Add add) {
  if (segment_open_) {
    if (way == Way::direct) return add(segment_);
    close_segment();
  }
  std::unique_lock lock(mutex_);
  if (way == Way::queued || !idle()) {
    if (!info_.driven_by_waiter) start_thread();  // first, so that nothing is queued if it fails
    add(pending_);
    if (drainers_ > 0) changed_.notify_all();
    if (thread_should_run()) wake_thread();
    return;
  }
  driving_ = true;
  lock.unlock();
  try {
    add(running_);
    run_batch(nullptr);
  } catch (...) {
    running_.clear();
    lock.lock();
    stop_driving();
    throw;
  }
  running_.clear();
  lock.lock();
  stop_driving();
}

void CudaStream::stop_driving() {
  driving_ = false;
  if (drainers_ > 0) changed_.notify_all();
  if (thread_should_run()) wake_thread();
}

void CudaStream::start_thread() {
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { thread_main(); });
  } catch (const std::system_error& error) {
    throw DeviceError({.what = "no thread could be started for stream " + info_.name,
                       .hint = "raise the limit of processes (ulimit -u)",
                       .foreign = error.code().message()});
  }
}

void CudaStream::wake_thread() {
  if (!thread_sleeps_) return;
  thread_sleeps_ = false;
  work_.notify_one();
}

void CudaStream::launch(Module& module, std::int32_t kernel, std::span<void* const> operands,
                        const Command* command) {
  if (module.host_kernel(kernel))
    throw UsageError({.what = "host code cannot be launched on a CUDA stream",
                      .where = module.name(),
                      .hint = "run it with its operands brought to the host (runtime/staging.h)"});
  push(Way::direct, [&](Batch& batch) {
    Item item{.kind = Item::Kind::launch, .kernel = kernel, .command = command};
    item.module = static_cast<const CudaModule*>(&module);
    item.first = batch.operands.size();
    item.count = operands.size();
    batch.operands.insert(batch.operands.end(), operands.begin(), operands.end());
    batch.items.push_back(item);
  });
}

void CudaStream::copy(void* destination, const void* source, std::int64_t bytes,
                      const Command* command) {
  push(Way::direct, [&](Batch& batch) {
    batch.items.push_back({.kind = Item::Kind::copy,
                           .command = command,
                           .destination = pointer_of(destination),
                           .source = pointer_of(source),
                           .bytes = bytes});
  });
}

void CudaStream::fill(void* destination, std::uint8_t byte, std::int64_t bytes,
                      const Command* command) {
  push(Way::direct, [&](Batch& batch) {
    batch.items.push_back({.kind = Item::Kind::fill,
                           .byte = byte,
                           .command = command,
                           .destination = pointer_of(destination),
                           .bytes = bytes});
  });
}

void CudaStream::record(Event& event, const Command* command) {
  Completion* completion = nullptr;
  try {
    completion = static_cast<CudaEvent&>(event).record(*this);
    push(Way::direct, [&](Batch& batch) {
      batch.items.push_back(
          {.kind = Item::Kind::record, .command = command, .completion = completion});
    });
  } catch (...) {  // nobody may wait for what was never queued
    if (completion) {
      completion->fail({std::current_exception(), now_ns()});
      completion->release();
    }
    throw;
  }
}

void CudaStream::wait(Event& event, const Command* command) {
  Completion* completion = static_cast<CudaEvent&>(event).latest();
  if (!completion) return;
  try {
    if (segment_open_) close_segment();
    push(completion->issued() ? Way::direct : Way::queued, [&](Batch& batch) {
      batch.items.push_back(
          {.kind = Item::Kind::wait, .command = command, .completion = completion});
    });
  } catch (...) {
    completion->release();
    throw;
  }
}

void CudaStream::host_call(std::function<void()> function, const Command* command) {
  push(Way::queued, [&](Batch& batch) {
    Item item{.kind = Item::Kind::host_call, .command = command};
    item.first = batch.functions.size();
    batch.functions.push_back(std::move(function));
    batch.items.push_back(item);
  });
}

void CudaStream::enqueue_native(NativeCall call, const Command* command) {
  if (segment_open_) close_segment();
  push(Way::direct, [&](Batch& batch) {
    Item item{.kind = Item::Kind::native, .command = command};
    item.first = batch.natives.size();
    batch.natives.push_back(std::move(call));
    batch.items.push_back(item);
  });
}

void CudaStream::begin_segment(std::int64_t key) {
  if (segment_open_) close_segment();
  // A graph is timed as a whole; a trace wants every command.
  if (!shared_->graphs || submission_.timing().on()) return;
  segment_.clear();
  segment_.items.push_back({.kind = Item::Kind::segment, .key = key});
  segment_open_ = true;
}

void CudaStream::end_segment() {
  if (segment_open_) close_segment();
}

void CudaStream::close_segment() {
  segment_open_ = false;
  if (segment_.items.size() <= 1) return;
  segment_.items[0].count = segment_.items.size() - 1;
  try {
    push(Way::direct, [&](Batch& batch) {
      if (batch.empty()) {
        batch.operands.clear();
        std::swap(batch, segment_);
        return;
      }
      const std::size_t operands = batch.operands.size();
      batch.items.reserve(batch.items.size() + segment_.items.size());
      batch.operands.insert(batch.operands.end(), segment_.operands.begin(),
                            segment_.operands.end());
      for (Item item : segment_.items) {
        if (item.kind == Item::Kind::launch) item.first += operands;
        batch.items.push_back(item);
      }
    });
    segment_.clear();
  } catch (...) {
    for (const Item& item : segment_.items)
      if (item.completion) {
        item.completion->fail({std::current_exception(), now_ns()});
        item.completion->release();
      }
    segment_.clear();
    throw;
  }
}

void CudaStream::flush() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty() || driving_ || flushed_ || !info_.driven_by_waiter) return;
  start_thread();
  flushed_ = true;
  wake_thread();
}

void CudaStream::fail(const Failure& failure) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  failed_.store(true, std::memory_order_release);
}

void CudaStream::fail_with_current() noexcept { fail({std::current_exception(), now_ns()}); }

Failure CudaStream::drain(const std::function<bool()>* cancelled) {
  try {
    if (shared_->context->driver().forked()) shared_->context->require_usable();
    if (segment_open_) close_segment();
  } catch (...) {
    const Failure failure{std::current_exception(), now_ns()};
    if (shared_->context->driver().forked()) return failure;
    fail(failure);
  }
  std::unique_lock lock(mutex_);
  ++drainers_;
  for (;;) {
    if (idle()) {
      if (submission_.idle()) break;
      driving_ = true;
      lock.unlock();
      settle(cancelled);
      lock.lock();
      stop_driving();
      continue;
    }
    if (info_.driven_by_waiter && !driving_) {
      driving_ = true;
      lock.unlock();
      drive(cancelled);
      lock.lock();
      flushed_ = false;
      stop_driving();
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
      fail_with_current();
    }
    lock.lock();
  }
  --drainers_;
  failed_.store(false, std::memory_order_release);
  return std::exchange(failure_, {});
}

void CudaStream::thread_main() {
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

void CudaStream::drive(const std::function<bool()>* cancelled) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) return;
      std::swap(pending_, running_);
    }
    run_batch(cancelled);
    running_.clear();
  }
}

void CudaStream::run_batch(const std::function<bool()>* cancelled) noexcept {
  std::optional<Bind> bind;
  try {
    bind.emplace(*shared_->context);
  } catch (...) {
    fail_with_current();
  }
  for (std::size_t i = 0; i < running_.items.size();) {
    const Item& item = running_.items[i];
    std::span<const Item> segment;
    if (item.kind == Item::Kind::segment)
      segment = std::span(running_.items).subspan(i + 1, item.count);
    try {
      if (!failed_.load(std::memory_order_acquire)) {
        throw_if(cancelled);
        execute(item, segment, cancelled);
      }
    } catch (...) {
      fail_with_current();
    }
    let_go(item);
    for (const Item& inner : segment) let_go(inner);
    i += 1 + segment.size();
  }
}

/// Of an item that is done, failed or skipped: whoever waits for its record learns of it, and what
/// it holds is released now, not when the batch is.
void CudaStream::let_go(const Item& item) noexcept {
  if (item.kind == Item::Kind::host_call) running_.functions[item.first] = nullptr;
  if (item.kind == Item::Kind::native) running_.natives[item.first] = nullptr;
  if (!item.completion) return;
  if (item.kind == Item::Kind::record && !item.completion->issued()) {
    Failure failure;
    {
      const std::lock_guard lock(mutex_);
      failure = failure_;
    }
    item.completion->fail(failure);
  }
  item.completion->release();
}

void CudaStream::execute(const Item& item, std::span<const Item> segment,
                         const std::function<bool()>* cancelled) {
  const Nvtx::Range range(*shared_->nvtx, item.command ? &item.command->label : nullptr);
  StreamTiming& timing = submission_.timing();
  if (!timing.on() || !item.command) {
    submit(item, segment, cancelled);
  } else if (item.kind == Item::Kind::host_call) {
    settle(cancelled);
    const std::int64_t begin = now_ns();
    submit(item, segment, cancelled);
    timing.host_span(item.command, begin, now_ns());
  } else if (item.kind == Item::Kind::record) {
    timing.mark(item.command);
    submit(item, segment, cancelled);
  } else {
    const std::size_t begin = timing.begin();
    submit(item, segment, cancelled);
    timing.end(item.command, begin);
  }
}

void CudaStream::submit(const Item& item, std::span<const Item> segment,
                        const std::function<bool()>* cancelled) {
  switch (item.kind) {
    case Item::Kind::launch:
      submission_.launch(item, running_.operands_of(item));
      return;
    case Item::Kind::copy:
      submission_.copy(item);
      return;
    case Item::Kind::fill:
      submission_.fill(item);
      return;
    case Item::Kind::record:
      submission_.record(item);
      item.completion->issue();
      return;
    case Item::Kind::wait:
      if (!item.completion->wait_issued({.cancelled = cancelled}))
        throw Cancelled({.what = "the step was cancelled"});
      if (item.completion->failure())
        fail(item.completion->failure());
      else
        submission_.wait(item);
      return;
    case Item::Kind::host_call:
      call_host(item, cancelled);
      return;
    case Item::Kind::native:
      submission_.native(item, running_.natives[item.first]);
      return;
    case Item::Kind::segment:
      submission_.segment(item.key, segment, running_);
      return;
  }
}

void CudaStream::call_host(const Item& item, const std::function<bool()>* cancelled) {
  settle(cancelled);
  if (failed_.load(std::memory_order_acquire)) return;
  const std::function<void()> function = std::move(running_.functions[item.first]);
  function();
}

void CudaStream::wait_for_device(const std::function<bool()>* cancelled) {
  const std::int64_t begin = now_ns();
  while (!submission_.done()) {
    const std::int64_t waited = now_ns() - begin;
    if (info_.driven_by_waiter && waited < kDriverSpinNs) {
      cpu::pause();
      continue;
    }
    if (cancelled && !failed_.load(std::memory_order_acquire) && (*cancelled)())
      fail({std::make_exception_ptr(Cancelled({.what = "the step was cancelled"})), now_ns()});
    // What was handed over cannot be taken back.
    if (!cancelled || failed_.load(std::memory_order_acquire)) return submission_.block();
    // The driver has no wait that ends by itself; a sleep in proportion costs a step 3 % at most.
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::clamp(waited / 32, kShortestSleepNs, kLongestSleepNs)));
  }
}

void CudaStream::settle(const std::function<bool()>* cancelled) noexcept {
  if (submission_.idle()) return;
  try {
    const Bind bind(*shared_->context);
    submission_.begin_wait();
    wait_for_device(cancelled);
    submission_.end_wait();
  } catch (...) {
    fail_with_current();
    submission_.abandon();
  }
}

}  // namespace riffle::runtime::cuda
