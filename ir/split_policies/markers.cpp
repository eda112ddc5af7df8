// split markers: at the graph's explicit `break`s.
#include "ir/split.h"

namespace riffle::ir {
namespace {
class AtMarkers final : public SplitPolicy {
 public:
  std::string describe() const override { return "markers"; }
  std::vector<std::size_t> cuts(const SplitView& view) const override {
    std::vector<std::size_t> result;
    std::size_t before = 0;  // counted nodes before v
    for (ValueId v = 0; v < view.graph.size(); ++v) {
      if (before < view.counted.size() && view.counted[before] == v) ++before;
      if (view.graph[v].op != Op::break_) continue;
      const bool between = before > 0 && before < view.counted.size();
      if (between && (result.empty() || result.back() != before)) result.push_back(before);
    }
    return result;
  }
};
}  // namespace

std::unique_ptr<SplitPolicy> split_at_markers() { return std::make_unique<AtMarkers>(); }

}  // namespace riffle::ir
