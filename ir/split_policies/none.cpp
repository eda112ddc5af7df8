// split none: one partition.
#include "ir/split.h"

namespace riffle::ir {
namespace {
class None final : public SplitPolicy {
 public:
  std::string describe() const override { return "none"; }
  std::vector<std::size_t> cuts(const SplitView&) const override { return {}; }
};
}  // namespace

std::unique_ptr<SplitPolicy> split_none() { return std::make_unique<None>(); }

}  // namespace riffle::ir
