#include "runtime/ordering.h"

#include <algorithm>

namespace riffle::runtime {

Ordering::Ordering(const Schedule& schedule, const std::vector<bool>& ignored)
    : streams_(schedule.streams.size()) {
  const std::size_t count = schedule.commands.size();
  stream_.resize(count);
  position_.resize(count);
  clocks_.resize(count * streams_);
  recorded_by_.assign(count, -1);
  collective_.assign(count, -1);
  std::vector<std::int32_t> last_on_stream(streams_, -1), on_stream(streams_, 0);
  std::vector<std::int32_t> last_record(static_cast<std::size_t>(schedule.events), -1);

  for (std::size_t i = 0; i < count; ++i) {
    const Command& command = schedule.commands[i];
    const auto index = static_cast<std::int32_t>(i);
    const auto stream = static_cast<std::size_t>(command.stream);
    stream_[i] = command.stream;
    position_[i] = on_stream[stream]++;
    std::int32_t* clock = &clocks_[i * streams_];
    const auto join = [&](std::int32_t other) {
      const std::int32_t* others = &clocks_[static_cast<std::size_t>(other) * streams_];
      for (std::size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], others[s]);
    };
    if (last_on_stream[stream] >= 0) join(last_on_stream[stream]);
    last_on_stream[stream] = index;
    if (const auto* wait = std::get_if<Wait>(&command.what)) {
      const std::int32_t record = last_record[static_cast<std::size_t>(wait->event)];
      if (record >= 0 && (ignored.empty() || !ignored[i])) {
        recorded_by_[i] = record;
        join(record);
        if (collective_[record] >= 0) waits_[collective_[record]].push_back(index);
      }
    } else if (const auto* record = std::get_if<Record>(&command.what)) {
      last_record[static_cast<std::size_t>(record->event)] = index;
    } else if (const auto* collective = std::get_if<Collective>(&command.what)) {
      last_record[static_cast<std::size_t>(collective->done)] = index;
      collective_[i] = static_cast<std::int32_t>(waits_.size());
      waits_.emplace_back();
    }
    clock[stream] = std::max(clock[stream], position_[i] + 1);
  }
}

bool Ordering::before(std::int32_t first, std::int32_t second) const {
  if (first == second) return false;
  if (collective_[first] < 0) return begun_before(first, second);
  const auto waits = waits_for(first);
  return std::any_of(waits.begin(), waits.end(), [&](std::int32_t wait) {
    return wait == second || begun_before(wait, second);
  });
}

std::span<const std::int32_t> Ordering::waits_for(std::int32_t collective) const {
  if (collective_[collective] < 0) return {};
  return waits_[collective_[collective]];
}

}  // namespace riffle::runtime
