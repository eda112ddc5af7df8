// The static memory plan of one Schedule: where each temporary lies in the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace riffle::jit {

/// A temporary: alive from command `first` to command `last`, both included.
struct PlanItem {
  std::int64_t bytes = 0;
  std::int32_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  ///< per item; 64-byte aligned
  std::int64_t peak_bytes = 0;        ///< size of the arena
  std::int64_t lower_bound_bytes =
      0;  ///< most (aligned) bytes alive at one command: no plan does better
};

/// Largest first, each at the lowest offset that is free over its life: within a few percent of
/// the bound on training graphs. O(items²).
MemoryPlan plan_memory(std::span<const PlanItem> items);

constexpr std::int64_t align_up(std::int64_t bytes, std::int64_t alignment = 64) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace riffle::jit
