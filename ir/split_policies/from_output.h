// What the policies that count from the output share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/split.h"

namespace riffle::ir {

/// Walks the counted nodes backwards and cuts before a node when the partition under construction
/// weighs at least `first` (the one at the output) or `cap` (the others). As PyTorch's
/// DDPOptimizer: a partition that nothing outside reads keeps growing, and a leading one without
/// weight joins its successor. Trainable parameters weigh `weight(type)`, once, where they are
/// first used in program order; those of the loss nodes are part of the last partition.
std::vector<std::size_t> cuts_by_weight(const SplitView& view,
                                        std::int64_t (*weight)(const TensorType&), std::int64_t cap,
                                        std::int64_t first);

/// `value`, or UsageError: "split nodes: nodes a partition must be at least 1, not 0".
std::int64_t positive(std::int64_t value, std::string_view policy, std::string_view what);

}  // namespace riffle::ir
