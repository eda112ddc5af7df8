#include "runtime/timeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace riffle::runtime {

bool is_compute(const Command& command) noexcept {
  return std::holds_alternative<Launch>(command.what) ||
         std::holds_alternative<Copy>(command.what) || std::holds_alternative<Fill>(command.what);
}

bool is_hook(const Command& command) noexcept {
  return std::holds_alternative<Hook>(command.what) ||
         std::holds_alternative<Collective>(command.what);
}

std::vector<PartitionBlock> partition_blocks(const std::vector<Span>& spans) {
  std::vector<PartitionBlock> blocks;
  std::map<StreamId, std::size_t> last;  // the stream's latest block
  for (const Span& span : spans) {
    const Command& command = *span.command;
    if (!is_compute(command)) continue;
    const auto found = last.find(span.stream);
    if (found != last.end()) {
      PartitionBlock& block = blocks[found->second];
      if (block.step == span.step && block.phase == command.phase &&
          block.partition == command.partition) {
        block.end_ns = std::max(block.end_ns, span.end_ns);
        continue;
      }
    }
    last[span.stream] = blocks.size();
    blocks.push_back(
        {span.stream, span.step, command.phase, command.partition, span.begin_ns, span.end_ns});
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return blocks;
}

std::string label_of(const PartitionBlock& block) {
  if (block.partition < 0) return std::string(name_of(block.phase));
  return fmt::format("{} partition_{}", name_of(block.phase), block.partition);
}

}  // namespace riffle::runtime
