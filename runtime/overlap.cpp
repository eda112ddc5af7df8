// Sums up how much of the hooks' and collectives' time lay under compute.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/timeline_rows.h"
#include "runtime/trace.h"

namespace riffle::runtime {
namespace {

using Intervals = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Sorted and disjoint.
Intervals merged(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals result;
  for (const auto& interval : intervals) {
    if (!result.empty() && interval.first <= result.back().second)
      result.back().second = std::max(result.back().second, interval.second);
    else
      result.push_back(interval);
  }
  return result;
}

std::int64_t length(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : intervals) sum += end - begin;
  return sum;
}

std::int64_t common(const Intervals& a, const Intervals& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<std::int64_t>(
        0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    if (a[i].second < b[j].second)
      ++i;
    else
      ++j;
  }
  return sum;
}

}  // namespace

Overlap measure_overlap(const std::vector<Span>& spans) {
  Intervals compute, hooks;
  std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> steps;  // first begin, last end
  for (const Span& span : spans) {
    const Command& command = *span.command;
    if (is_hook(command)) hooks.emplace_back(span.begin_ns, span.end_ns);
    // Kernels of the hooks' phase are part of communication, not what hides it.
    if (is_compute(command) && command.phase != Phase::hooks)
      compute.emplace_back(span.begin_ns, span.end_ns);
    auto& [first, last] = steps.try_emplace(span.step, span.begin_ns, span.end_ns).first->second;
    first = std::min(first, span.begin_ns);
    last = std::max(last, span.end_ns);
  }
  compute = merged(std::move(compute));
  hooks = merged(std::move(hooks));
  Overlap overlap;
  for (const auto& [step, time] : steps) overlap.wall_ns += time.second - time.first;
  overlap.compute_ns = length(compute);
  overlap.hook_ns = length(hooks);
  overlap.hidden_ns = common(compute, hooks);
  overlap.exposed_ns = overlap.hook_ns - overlap.hidden_ns;
  return overlap;
}

}  // namespace riffle::runtime
