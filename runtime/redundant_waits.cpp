// Which waits of a schedule could be left out: what the constraints need is ordered without them.
#include <algorithm>

#include "runtime/constraints.h"
#include "runtime/ordering.h"
#include "runtime/schedule.h"

namespace riffle::runtime {

std::vector<std::int32_t> redundant_waits(const Schedule& schedule) {
  const std::vector<BufferUses> buffers = uses_by_buffer(schedule);
  const std::vector<Constraint> needed = constraints(schedule, buffers);
  std::vector<std::int32_t> collectives;
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (std::holds_alternative<Collective>(schedule.commands[i].what))
      collectives.push_back(static_cast<std::int32_t>(i));

  const auto suffices = [&](const std::vector<bool>& ignored) {
    const Ordering ordering(schedule, ignored);
    return std::all_of(collectives.begin(), collectives.end(),
                       [&](std::int32_t c) { return !ordering.waits_for(c).empty(); }) &&
           std::all_of(needed.begin(), needed.end(), [&](const Constraint& constraint) {
             return ordering.before(constraint.first, constraint.second);
           });
  };
  // Fewer waits never order more, so a wait that was needed once stays needed: one pass suffices.
  std::vector<bool> ignored(schedule.commands.size(), false);
  std::vector<std::int32_t> redundant;
  for (std::size_t i = 0; i < schedule.commands.size(); ++i) {
    if (!std::holds_alternative<Wait>(schedule.commands[i].what)) continue;
    ignored[i] = true;
    if (suffices(ignored))
      redundant.push_back(static_cast<std::int32_t>(i));
    else
      ignored[i] = false;
  }
  return redundant;
}

}  // namespace riffle::runtime
