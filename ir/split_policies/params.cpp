// split params N: at least N trainable parameters a partition, counted from the output.
#include <fmt/format.h>

#include "ir/split.h"
#include "ir/split_policies/from_output.h"

namespace riffle::ir {
namespace {
class ByParams final : public SplitPolicy {
 public:
  explicit ByParams(std::int64_t params) : params_(params) {}
  std::string describe() const override { return fmt::format("params {}", params_); }
  std::vector<std::size_t> cuts(const SplitView& view) const override {
    return cuts_by_weight(
        view, [](const TensorType&) { return std::int64_t{1}; }, params_, params_);
  }

 private:
  std::int64_t params_;
};
}  // namespace

std::unique_ptr<SplitPolicy> split_by_params(std::int64_t params) {
  return std::make_unique<ByParams>(positive(params, "split params", "parameters a partition"));
}

}  // namespace riffle::ir
