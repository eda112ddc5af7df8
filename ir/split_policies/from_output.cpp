#include "ir/split_policies/from_output.h"

#include <fmt/format.h>

#include <algorithm>

namespace riffle::ir {

std::vector<std::size_t> cuts_by_weight(const SplitView& view,
                                        std::int64_t (*weight)(const TensorType&), std::int64_t cap,
                                        std::int64_t first) {
  const Graph& graph = view.graph;
  const auto users = users_of(graph);
  std::vector<std::int64_t> weight_at(graph.nodes.size(), 0);  // of the parameters first used there
  for (ValueId v = 0; v < graph.size(); ++v) {
    if (!is_trainable(graph[v])) continue;
    const auto& readers = users[static_cast<std::size_t>(v)];
    if (!readers.empty()) {
      weight_at[static_cast<std::size_t>(readers.front())] += weight(graph[v].type);
    }
  }
  std::vector<ValueId> last_reader(graph.nodes.size(), kNoValue);
  for (ValueId v = 0; v < graph.size(); ++v) {
    const auto& readers = users[static_cast<std::size_t>(v)];
    if (!readers.empty()) last_reader[static_cast<std::size_t>(v)] = readers.back();
  }
  for (ValueId v : graph.outputs) last_reader[static_cast<std::size_t>(v)] = graph.size();

  std::int64_t bucket = 0;
  std::vector<bool> counted(graph.nodes.size(), false);
  for (ValueId v : view.counted) counted[static_cast<std::size_t>(v)] = true;
  for (ValueId v = 0; v < graph.size(); ++v) {
    if (!counted[static_cast<std::size_t>(v)]) bucket += weight_at[static_cast<std::size_t>(v)];
  }

  std::vector<std::size_t> cuts;
  std::size_t end = view.counted.size();  // of the partition under construction
  for (std::size_t i = view.counted.size(); i-- > 0;) {
    if (i + 1 < view.counted.size() && bucket >= (cuts.empty() ? first : cap)) {
      const ValueId limit = end < view.counted.size() ? view.counted[end] : kNoValue;
      bool read_outside = limit == kNoValue;  // the one at the output
      for (std::size_t j = i + 1; j < end && !read_outside; ++j) {
        read_outside = last_reader[static_cast<std::size_t>(view.counted[j])] >= limit;
      }
      if (read_outside) {
        cuts.push_back(i + 1);
        end = i + 1;
        bucket = 0;
      }
    }
    bucket += weight_at[static_cast<std::size_t>(view.counted[i])];
  }
  if (!cuts.empty() && bucket == 0) cuts.pop_back();
  return cuts;
}

std::int64_t positive(std::int64_t value, std::string_view policy, std::string_view what) {
  if (value >= 1) return value;
  throw UsageError({.what = fmt::format("{}: {} must be at least 1, not {}", policy, what, value),
                    .hint = "a positive number"});
}

}  // namespace riffle::ir
