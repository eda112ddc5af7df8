// GroupGraph: which group of a fusion plan reads what another one stores. Never cyclic.
//
// Groups are kept in an order in which each follows those it depends on. Most dependencies point
// to an earlier group already and cost nothing; one that does not moves what its target depends on
// before the reader. A question is answered by looking only at the groups between the two.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace riffle::codegen {

class GroupGraph {
 public:
  /// A group on which nothing depends: the last in the order.
  int add();
  /// Whether `group` may be made to depend on `on`, and on what that depends on, without a cycle.
  /// Says no rather than look at more than kMaximumVisits groups.
  bool may_depend(int group, int on);
  /// Only what may_depend allows.
  void depend(int group, int on);
  const std::set<int>& depends(int group) const {
    return depends_[static_cast<std::size_t>(group)];
  }
  /// Group ids such that each comes after those it depends on; `first` and what they need precede
  /// the others.
  std::vector<int> sorted(const std::vector<int>& first) const;
  /// How many groups may_depend has looked at.
  std::size_t visits() const noexcept { return visits_; }

  static constexpr std::size_t kMaximumVisits = 256;

 private:
  std::size_t position(int group) const { return position_[static_cast<std::size_t>(group)]; }
  /// What `from` depends on, itself included, that does not precede `group`. False: it depends on
  /// `group`, or there are too many to look at.
  bool between(int group, int from, std::vector<int>& found);

  std::vector<std::set<int>> depends_;
  std::vector<int> order_;
  std::vector<std::size_t> position_;  ///< in order_
  std::vector<std::size_t> seen_;      ///< number of the last search that met the group
  std::size_t search_ = 0, visits_ = 0;
};

}  // namespace riffle::codegen
