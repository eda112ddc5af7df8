#include "runtime/cuda/timing.h"

#include <cmath>
#include <limits>

namespace riffle::runtime::cuda {

void Shared::place_base() {
  // Whoever takes this thread's core away between the looks at the clock widens the window, so the
  // narrowest of several counts.
  constexpr int kTries = 8;
  constexpr std::int64_t kNarrowNs = 2'000;
  std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTries && narrowest > kNarrowNs; ++i) {
    auto event = std::make_unique<DriverEvent>(context, 0U);
    const std::int64_t before = now_ns();
    CUDA_CALL(*context, EventRecord, event->handle(), memory->copy_stream());
    // Polled: the end of a blocking wait is tens of microseconds late.
    Result code = kNotReady;
    while ((code = context->api().EventQuery(event->handle())) == kNotReady) {
    }
    context->check(code, "cuEventQuery");
    const std::int64_t window = now_ns() - before;
    if (window >= narrowest) continue;
    narrowest = window;
    base_ns = before;
    base = std::move(event);
  }
}

std::size_t StreamTiming::record() {
  const Context& context = *shared_.context;
  if (shared_.trace_failure) std::rethrow_exception(std::exchange(shared_.trace_failure, nullptr));
  if (used_ == events_.size()) events_.push_back(std::make_unique<DriverEvent>(shared_.context, 0));
  CUDA_CALL(context, EventRecord, events_[used_]->handle(), stream_);
  return used_++;
}

void StreamTiming::end(const Command* command, std::size_t begin) {
  const std::size_t end = record();
  spans_.push_back({.command = command, .begin = begin, .end = end});
}

void StreamTiming::mark(const Command* command) {
  const std::size_t at = record();
  spans_.push_back({.command = command, .begin = at, .end = at});
}

void StreamTiming::host_span(const Command* command, std::int64_t begin_ns,
                             std::int64_t end_ns) noexcept {
  try {
    shared_.trace->append({.command = command,
                           .stream = id_,
                           .step = shared_.trace->step,
                           .begin_ns = begin_ns,
                           .end_ns = end_ns});
  } catch (...) {  // no memory for a span: the step matters more
  }
}

std::int64_t StreamTiming::time_of(std::size_t event) const {
  float milliseconds = 0;
  CUDA_CALL(*shared_.context, EventElapsedTime, &milliseconds, shared_.base->handle(),
            events_[event]->handle());
  return shared_.base_ns + std::llround(static_cast<double>(milliseconds) * 1e6);
}

void StreamTiming::collect() {
  if (spans_.empty()) return;
  if (shared_.trace && shared_.base)
    for (const Timed& span : spans_) {
      const std::int64_t begin = time_of(span.begin);
      host_span(span.command, begin, span.end == span.begin ? begin : time_of(span.end));
    }
  forget();
}

void StreamTiming::forget() noexcept {
  spans_.clear();
  used_ = 0;
}

}  // namespace riffle::runtime::cuda
