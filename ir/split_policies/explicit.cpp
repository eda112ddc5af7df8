// split at CUT…: exactly there. For tests and tools; the only policy that makes empty partitions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/split.h"

namespace riffle::ir {
namespace {
class Explicit final : public SplitPolicy {
 public:
  explicit Explicit(std::vector<std::size_t> cuts) : cuts_(std::move(cuts)) {}
  std::string describe() const override { return fmt::format("at {}", fmt::join(cuts_, " ")); }
  std::vector<std::size_t> cuts(const SplitView&) const override { return cuts_; }

 private:
  std::vector<std::size_t> cuts_;
};
}  // namespace

std::unique_ptr<SplitPolicy> split_at(std::vector<std::size_t> cuts) {
  return std::make_unique<Explicit>(std::move(cuts));
}

}  // namespace riffle::ir
