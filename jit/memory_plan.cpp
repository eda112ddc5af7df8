#include "jit/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace riffle::jit {
namespace {

bool lives_overlap(const PlanItem& a, const PlanItem& b) noexcept {
  return a.first <= b.last && b.first <= a.last;
}

std::int64_t most_alive(std::span<const PlanItem> items) {
  std::int32_t end = 0;
  for (const PlanItem& item : items) end = std::max(end, item.last + 1);
  std::vector<std::int64_t> change(static_cast<std::size_t>(end) + 1, 0);
  for (const PlanItem& item : items) {
    change[item.first] += align_up(item.bytes);
    change[item.last + 1] -= align_up(item.bytes);
  }
  std::int64_t alive = 0, most = 0;
  for (std::int64_t delta : change) most = std::max(most, alive += delta);
  return most;
}

}  // namespace

MemoryPlan plan_memory(std::span<const PlanItem> items) {
  MemoryPlan plan;
  plan.offsets.assign(items.size(), 0);
  plan.lower_bound_bytes = most_alive(items);

  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].bytes > items[b].bytes; });

  std::vector<std::size_t> placed;  // in order of offset
  for (std::size_t index : order) {
    const std::int64_t bytes = align_up(items[index].bytes);
    std::int64_t offset = 0;
    for (std::size_t other : placed) {
      if (!lives_overlap(items[index], items[other])) continue;
      if (plan.offsets[other] >= offset + bytes) break;  // the gap before it is wide enough
      offset = std::max(offset, plan.offsets[other] + align_up(items[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.peak_bytes = std::max(plan.peak_bytes, offset + bytes);
    auto place = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](std::int64_t value, std::size_t other) { return value < plan.offsets[other]; });
    placed.insert(place, index);
  }
  return plan;
}

}  // namespace riffle::jit
