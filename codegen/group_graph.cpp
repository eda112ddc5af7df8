#include "codegen/group_graph.h"

#include <algorithm>
#include <utility>

namespace riffle::codegen {

int GroupGraph::add() {
  const int id = static_cast<int>(order_.size());
  depends_.emplace_back();
  position_.push_back(order_.size());
  order_.push_back(id);
  seen_.push_back(0);
  return id;
}

bool GroupGraph::between(int group, int from, std::vector<int>& found) {
  ++search_;
  const auto meet = [&](int g) {
    std::size_t& seen = seen_[static_cast<std::size_t>(g)];
    if (position(g) < position(group) || seen == search_) return;
    seen = search_;
    found.push_back(g);
  };
  meet(from);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ++visits_;
    if (found[i] == group || found.size() > kMaximumVisits) return false;
    for (int d : depends(found[i])) meet(d);
  }
  return true;
}

bool GroupGraph::may_depend(int group, int on) {
  if (depends(group).contains(on)) return true;
  std::vector<int> found;
  return between(group, on, found);
}

void GroupGraph::depend(int group, int on) {
  if (!depends_[static_cast<std::size_t>(group)].insert(on).second) return;
  if (position(on) < position(group)) return;
  std::vector<int> moved;
  between(group, on, moved);
  // In their old order before `group`; the rest of the stretch follows in its old order.
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(position(group));
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(position(on)) + 1;
  std::stable_partition(begin, end,
                        [&](int g) { return seen_[static_cast<std::size_t>(g)] == search_; });
  for (auto at = begin; at != end; ++at)
    position_[static_cast<std::size_t>(*at)] = static_cast<std::size_t>(at - order_.begin());
}

std::vector<int> GroupGraph::sorted(const std::vector<int>& first) const {
  std::vector<int> sorted;
  std::vector<bool> met(order_.size(), false);
  // Depth-first with a stack of its own: a long chain of groups must not exhaust the thread's.
  using Next = std::set<int>::const_iterator;
  std::vector<std::pair<int, Next>> stack;
  const auto enter = [&](int g) {
    if (met[static_cast<std::size_t>(g)]) return;
    met[static_cast<std::size_t>(g)] = true;
    stack.emplace_back(g, depends(g).begin());
  };
  const auto visit = [&](int g) {
    enter(g);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next != depends(at).end()) {
        enter(*next++);
        continue;
      }
      sorted.push_back(at);
      stack.pop_back();
    }
  };
  for (int g : first) visit(g);
  for (int g = 0; g < static_cast<int>(order_.size()); ++g) visit(g);
  return sorted;
}

}  // namespace riffle::codegen
