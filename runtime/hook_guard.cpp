#include "runtime/hook_guard.h"

#include <xxhash.h>

#include <algorithm>

namespace riffle::runtime {

std::vector<ByteRange> guarded_bytes(const Schedule& schedule, const Ordering& ordering,
                                     std::int32_t hook) {
  std::vector<BufferId> buffers;
  for (const Operand& operand : schedule.commands[hook].operands)
    if (std::find(buffers.begin(), buffers.end(), operand.range.buffer) == buffers.end())
      buffers.push_back(operand.range.buffer);

  std::vector<ByteRange> result;
  for (const BufferId buffer : buffers) {
    std::vector<ByteRange> changing;
    for (std::size_t i = 0; i < schedule.commands.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      const Command& command = schedule.commands[i];
      if (index != hook && ordering.ordered(index, hook)) continue;
      const bool frees = std::holds_alternative<Free>(command.what);  // poisons, in these modes
      for (const Operand& operand : command.operands)
        if (operand.range.buffer == buffer && (frees || operand.access != Access::read))
          changing.push_back(operand.range);
    }
    std::sort(changing.begin(), changing.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    std::int64_t at = 0;
    for (const ByteRange& range : changing) {
      if (range.begin > at) result.push_back({buffer, at, range.begin});
      at = std::max(at, range.end);
    }
    if (const std::int64_t end = schedule.buffers[buffer].bytes; at < end)
      result.push_back({buffer, at, end});
  }
  return result;
}

std::vector<std::uint64_t> checksums(const std::vector<ByteRange>& ranges,
                                     const std::vector<std::byte*>& base) {
  std::vector<std::uint64_t> sums;
  sums.reserve(ranges.size());
  for (const ByteRange& range : ranges)
    sums.push_back(XXH3_64bits(base[range.buffer] + range.begin,
                               static_cast<std::size_t>(range.end - range.begin)));
  return sums;
}

}  // namespace riffle::runtime
