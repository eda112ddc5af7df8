// Sorted lists of byte ranges.
#include <algorithm>

#include "emulator/memory/device_memory.h"

namespace emulator {

std::vector<ByteRange> merge_ranges(std::vector<ByteRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (range.begin == range.end) continue;
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<ByteRange> intersect(const std::vector<ByteRange>& a, const std::vector<ByteRange>& b) {
  std::vector<ByteRange> both;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint64_t begin = std::max(a[i].begin, b[j].begin);
    const std::uint64_t end = std::min(a[i].end, b[j].end);
    if (begin < end) both.push_back({begin, end});
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

namespace {

void append(std::vector<ByteRange>& into, const std::vector<ByteRange>& from) {
  if (from.empty()) return;
  into.insert(into.end(), from.begin(), from.end());
  into = merge_ranges(std::move(into));
}

}  // namespace

void merge(Footprint& into, const Footprint& from) {
  append(into.reads, from.reads);
  append(into.writes, from.writes);
  append(into.constants, from.constants);
}

}  // namespace emulator
