#include "runtime/trace.h"

#include <algorithm>
#include <functional>

namespace riffle::runtime {

void Trace::append(const Span& span) {
  std::lock_guard lock(mutex_);
  spans_.push_back(span);
}

void Trace::know(const Schedule& schedule) {
  std::lock_guard lock(mutex_);
  const std::pair entry{schedule.commands.data(), schedule.commands.size()};
  if (std::find(known_.begin(), known_.end(), entry) == known_.end()) known_.push_back(entry);
}

std::vector<Span> Trace::take() {
  std::lock_guard lock(mutex_);
  for (Span& span : spans_)
    for (const auto& [first, count] : known_)
      if (std::less_equal<>()(first, span.command) && std::less<>()(span.command, first + count))
        span.command_index = static_cast<std::int32_t>(span.command - first);
  std::stable_sort(spans_.begin(), spans_.end(),
                   [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Span> spans;
  spans.swap(spans_);
  known_.clear();
  return spans;
}

}  // namespace riffle::runtime
