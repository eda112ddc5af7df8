#include "runtime/timeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/ordering.h"

namespace riffle::runtime {
namespace {

/// For each hook of the schedule, the Record that its last Wait before it, on its stream, waits
/// for.
std::map<std::int32_t, std::int32_t> records_before_hooks(const Schedule& schedule) {
  std::map<std::int32_t, std::int32_t> result;
  if (!find_faults(schedule).empty()) return result;
  const Ordering ordering(schedule);
  std::vector<std::int32_t> last_wait(schedule.streams.size(), -1);
  for (std::size_t i = 0; i < schedule.commands.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const Command& command = schedule.commands[i];
    if (std::holds_alternative<Wait>(command.what)) last_wait[command.stream] = index;
    if (is_hook(command) && last_wait[command.stream] >= 0)
      result[index] = ordering.recorded_by(last_wait[command.stream]);
  }
  return result;
}

}  // namespace

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

std::vector<ReadyArrow> ready_arrows(const std::vector<Span>& spans, const Schedule& schedule) {
  std::map<std::pair<std::int32_t, std::int32_t>, const Span*> records;  // (step, command)
  const Command* first = schedule.commands.data();
  // A trace may hold other schedules' spans too (another shape): their indices mean nothing here.
  auto is_ours = [&](const Span& span) {
    return span.command_index >= 0 &&
           static_cast<std::size_t>(span.command_index) < schedule.commands.size() &&
           span.command == first + span.command_index;
  };
  for (const Span& span : spans)
    if (is_ours(span) && std::holds_alternative<Record>(span.command->what))
      records[{span.step, span.command_index}] = &span;
  const auto before = records_before_hooks(schedule);
  std::vector<ReadyArrow> arrows;
  for (const Span& span : spans) {
    if (!is_hook(*span.command) || !is_ours(span)) continue;
    const auto found = before.find(span.command_index);
    if (found == before.end()) continue;
    const auto record = records.find({span.step, found->second});
    if (record != records.end()) arrows.push_back({record->second, &span});
  }
  return arrows;
}

std::string label_of(const PartitionBlock& block) {
  if (block.partition < 0) return std::string(name_of(block.phase));
  return fmt::format("{} partition_{}", name_of(block.phase), block.partition);
}

}  // namespace riffle::runtime
