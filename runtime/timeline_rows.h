// What trace.json and the terminal's picture have in common: blocks of one phase of one partition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace.h"

namespace riffle::runtime {

/// Neighbouring spans of one stream, step, phase and partition.
struct PartitionBlock {
  StreamId stream = 0;
  std::int32_t step = 0;
  Phase phase = Phase::forward;
  std::int32_t partition = -1;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// Launches, copies and fills.
bool is_compute(const Command& command) noexcept;
/// Hooks and collectives.
bool is_hook(const Command& command) noexcept;
/// Of compute commands (on any stream), sorted by begin.
std::vector<PartitionBlock> partition_blocks(const std::vector<Span>& spans);
/// A gradient-ready event's record and a hook that waited for it.
struct ReadyArrow {
  const Span* record = nullptr;
  const Span* hook = nullptr;
};
/// Of hooks whose commands are `schedule`'s; spans must have their command_index.
std::vector<ReadyArrow> ready_arrows(const std::vector<Span>& spans, const Schedule& schedule);

/// "backward partition_2", "optimizer"
std::string label_of(const PartitionBlock& block);

}  // namespace riffle::runtime
