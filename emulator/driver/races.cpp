#include "emulator/driver/races.h"

#include <algorithm>

namespace emulator {
namespace {

constexpr std::size_t kMostReaders = 32;

bool ordered(const Actor& before, const Actor& after) {
  return after.clock.covers(before.component, before.tick);
}

}  // namespace

/// Makes a segment begin at `at` where one straddles it. The first segment that begins there or
/// later.
AccessHistory::Segments::iterator AccessHistory::split(std::uint64_t at) {
  auto after = segments_.lower_bound(at);
  if (after == segments_.begin()) return after;
  auto before = std::prev(after);
  if (before->second.end <= at) return after;
  Segment rest = before->second;
  before->second.end = at;
  return segments_.emplace_hint(after, at, std::move(rest));
}

void AccessHistory::compare(const std::shared_ptr<const Actor>& actor, const Segment& segment,
                            ByteRange range, bool writes, std::vector<Race>& races) const {
  const auto add = [&](const std::shared_ptr<const Actor>& before, bool before_writes) {
    if (before == actor || ordered(*before, *actor)) return;
    for (Race& race : races) {
      if (race.before == before && race.before_writes == before_writes &&
          race.after_writes == writes) {
        race.range.begin = std::min(race.range.begin, range.begin);
        race.range.end = std::max(race.range.end, range.end);
        return;
      }
    }
    races.push_back({range, before, actor, before_writes, writes});
  };
  if (segment.writer) add(segment.writer, true);
  if (!writes) return;
  for (const auto& reader : segment.readers) add(reader, false);
}

void AccessHistory::access(const std::shared_ptr<const Actor>& actor, ByteRange range, bool writes,
                           std::vector<Race>& races) {
  auto at = split(range.begin);
  split(range.end);
  at = segments_.lower_bound(range.begin);
  std::uint64_t position = range.begin;
  while (position < range.end) {
    if (at == segments_.end() || at->first > position) {
      const std::uint64_t end = at == segments_.end() ? range.end : std::min(at->first, range.end);
      at = segments_.emplace_hint(at, position, Segment{end, nullptr, {}});
    }
    Segment& segment = at->second;
    compare(actor, segment, {position, segment.end}, writes, races);
    if (writes) {
      segment.writer = actor;
      segment.readers.clear();
    } else {
      std::erase_if(segment.readers, [&](const auto& reader) { return ordered(*reader, *actor); });
      if (segment.readers.size() == kMostReaders) segment.readers.erase(segment.readers.begin());
      segment.readers.push_back(actor);
    }
    position = segment.end;
    ++at;
  }
  join_neighbours(range);
}

void AccessHistory::join_neighbours(ByteRange range) {
  auto at = segments_.lower_bound(range.begin);
  if (at != segments_.begin()) --at;
  while (at != segments_.end() && at->first <= range.end) {
    auto next = std::next(at);
    if (next == segments_.end()) return;
    if (at->second.end == next->first && at->second.same(next->second)) {
      at->second.end = next->second.end;
      segments_.erase(next);
    } else {
      at = next;
    }
  }
}

void AccessHistory::record(const std::shared_ptr<const Actor>& actor,
                           const std::vector<ByteRange>& reads,
                           const std::vector<ByteRange>& writes, const Found& found) {
  std::vector<Race> races;
  for (const ByteRange& range : reads) access(actor, range, false, races);
  for (const ByteRange& range : writes) access(actor, range, true, races);
  for (const Race& race : races) found(race);
}

void AccessHistory::check(const std::shared_ptr<const Actor>& actor, ByteRange range,
                          const Found& found) const {
  std::vector<Race> races;
  auto at = segments_.upper_bound(range.begin);
  if (at != segments_.begin()) --at;
  for (; at != segments_.end() && at->first < range.end; ++at) {
    if (at->second.end <= range.begin) continue;
    const ByteRange both{std::max(range.begin, at->first), std::min(range.end, at->second.end)};
    compare(actor, at->second, both, true, races);
  }
  for (const Race& race : races) found(race);
}

void AccessHistory::forget(ByteRange range) {
  split(range.begin);
  split(range.end);
  segments_.erase(segments_.lower_bound(range.begin), segments_.lower_bound(range.end));
}

}  // namespace emulator
