// split nodes N: N compute nodes a partition, counted from the output, so that the first partition
// takes what is left over.
#include <fmt/format.h>

#include "ir/split.h"
#include "ir/split_policies/from_output.h"

namespace riffle::ir {
namespace {
class ByNodes final : public SplitPolicy {
 public:
  explicit ByNodes(std::size_t nodes) : nodes_(nodes) {}
  std::string describe() const override { return fmt::format("nodes {}", nodes_); }
  std::vector<std::size_t> cuts(const SplitView& view) const override {
    std::vector<std::size_t> result;
    for (std::size_t k = view.counted.size(); k > nodes_;) result.push_back(k -= nodes_);
    return result;
  }

 private:
  std::size_t nodes_;
};
}  // namespace

std::unique_ptr<SplitPolicy> split_by_nodes(std::int64_t nodes) {
  return std::make_unique<ByNodes>(
      static_cast<std::size_t>(positive(nodes, "split nodes", "nodes a partition")));
}

}  // namespace riffle::ir
