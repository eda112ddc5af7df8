// split bytes CAP [--first FIRST]: DDP's buckets as partitions. At least CAP bytes of trainable
// parameters each, counted from the output; the first, the last layers', only FIRST, so that
// communication starts early.
#include <fmt/format.h>

#include "ir/split.h"
#include "ir/split_policies/from_output.h"

namespace riffle::ir {
namespace {
class ByBytes final : public SplitPolicy {
 public:
  ByBytes(std::int64_t cap, std::int64_t first) : cap_(cap), first_(first) {}
  std::string describe() const override { return fmt::format("bytes {} --first {}", cap_, first_); }
  std::vector<std::size_t> cuts(const SplitView& view) const override {
    return cuts_by_weight(view, [](const TensorType& type) { return type.bytes(); }, cap_, first_);
  }

 private:
  std::int64_t cap_, first_;
};
}  // namespace

std::unique_ptr<SplitPolicy> split_by_bytes(std::int64_t cap, std::int64_t first) {
  return std::make_unique<ByBytes>(positive(cap, "split bytes", "bytes a partition"),
                                   positive(first, "split bytes", "bytes in the first partition"));
}

}  // namespace riffle::ir
