// When a group takes on a value: which groups are asked, at which point of their space the value
// would be, and whether they may. Start reading at FusionPlan::join.
#include <algorithm>
#include <functional>

#include "codegen/fusion_walk.h"

namespace riffle::codegen {

using ir::Op;
using ir::ValueId;

namespace {
// A kernel with reductions runs in parallel over its rows: below so many rows, large elementwise
// work is better off in a kernel of its own.
constexpr std::int64_t kEnoughRows = 16, kSmallElements = 1 << 15;
// Up to so many elements a kernel costs about as much as its launch: values of one shape share one,
// related or not.
constexpr std::int64_t kTinyElements = 1 << 12;

bool wide_enough(std::int64_t elements, std::int64_t outer) {
  return outer >= kEnoughRows || elements <= kSmallElements;
}

bool sharable(FusionGroup::Kind kind) {
  return kind != FusionGroup::Kind::scatter && kind != FusionGroup::Kind::cat;
}

/// The latest first, because it can depend on the others; each once.
void keep_latest(std::vector<int>& groups) {
  std::sort(groups.begin(), groups.end(), std::greater<>());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  if (groups.size() > FusionLimits::kCandidates) groups.resize(FusionLimits::kCandidates);
}
}  // namespace

std::vector<int> FusionPlan::touched_groups(const Cone& cone, std::vector<int> groups) const {
  std::erase_if(groups, [&](int g) {
    return group(g).full() || group(g).weight + cone.weight > FusionLimits::kWeight;
  });
  keep_latest(groups);
  return groups;
}

std::vector<int> FusionPlan::sharing_groups(ValueId v) {
  const Shape& space = graph_[v].type.shape;
  const std::int64_t elements = element_count(space);
  ExprWalker walker(*this, -1, space, false);
  try {
    walker.value(v, identity_index(space.size()));
  } catch (const NeedsRefine&) {
    return {};
  } catch (const NeedsSlot&) {
    return {};
  } catch (const Unfusable&) {
    return {};
  }
  work_.walked += walker.exprs.size();
  std::vector<int> groups;
  const auto consider = [&](std::vector<int>& listed) {
    while (!listed.empty() && group(listed.back()).full()) listed.pop_back();
    const std::size_t end =
        listed.size() > FusionLimits::kReaders ? listed.size() - FusionLimits::kReaders : 0;
    for (std::size_t i = listed.size(); i-- > end;) {
      ++work_.visits;
      const FusionGroup& g = group(listed[i]);
      const bool as_many = element_count(g.space) == elements ||
                           (g.kind == FusionGroup::Kind::row && g.outer_elements() == elements);
      if (as_many && !g.full() && worth_sharing(g, walker.leaves)) groups.push_back(listed[i]);
    }
  };
  for (ValueId leaf : walker.leaves)
    if (graph_[leaf].type.elements() >= elements)
      if (const auto found = readers_.find(leaf); found != readers_.end()) consider(found->second);
  if (const auto found = tiny_.find(elements); found != tiny_.end()) consider(found->second);
  keep_latest(groups);
  return groups;
}

bool FusionPlan::worth_sharing(const FusionGroup& group, const std::set<ValueId>& leaves) const {
  const std::int64_t elements = element_count(group.space);
  if (elements <= kTinyElements) return true;
  return std::any_of(leaves.begin(), leaves.end(), [&](ValueId leaf) {
    return graph_[leaf].type.elements() >= elements && group.leaves.contains(leaf);
  });
}

void FusionPlan::offer_tiny(int group, std::int64_t elements) {
  const FusionGroup& g = this->group(group);
  if (!sharable(g.kind) || element_count(g.space) > kTinyElements) return;
  std::vector<int>& groups = tiny_[elements];
  if (groups.empty() || groups.back() != group) groups.push_back(group);
}

void FusionPlan::add_leaf(int group, ValueId leaf) {
  FusionGroup& g = groups_[static_cast<std::size_t>(group)];
  if (g.leaves.insert(leaf).second && sharable(g.kind)) readers_[leaf].push_back(group);
  const Placement& place = this->place(leaf);
  if (place.kind == Placement::Kind::member) group_graph_.depend(group, place.group);
}

bool FusionPlan::fits(const FusionGroup& group, const ExprWalker& walker) {
  work_.walked += walker.exprs.size();
  return !group.full() && walker.leaves.size() <= FusionLimits::kOperands &&
         group.weight + walker.weight <= FusionLimits::kWeight;
}

bool FusionPlan::accept(int group, const ExprWalker& walker) {
  for (ValueId leaf : walker.leaves) {
    const Placement& place = this->place(leaf);
    if (place.kind == Placement::Kind::source) continue;
    if (!group_graph_.may_depend(group, place.group)) return false;
  }
  for (ValueId value : walker.exports) store(value);
  for (ValueId leaf : walker.leaves) add_leaf(group, leaf);
  groups_[static_cast<std::size_t>(group)].weight += walker.weight;
  return true;
}

bool FusionPlan::refine(int group, const Refine& refine) {
  FusionGroup& g = groups_[static_cast<std::size_t>(group)];
  const bool allowed =
      g.kind == FusionGroup::Kind::loop || g.kind == FusionGroup::Kind::row ||
      (g.kind == FusionGroup::Kind::matmul && refine.dimension + 1 < g.space.size());
  if (!allowed) return false;
  refine_extents(g.space, refine);
  if (!g.reduced.empty())
    g.reduced.insert(g.reduced.begin() + static_cast<std::ptrdiff_t>(refine.dimension),
                     g.reduced[refine.dimension]);
  for (ValueId v : g.members) {
    Affine& home = places_[static_cast<std::size_t>(v)].home;
    refine_affine(home, refine);
    normalise(home, g.space);
  }
  return true;
}

std::vector<FusionPlan::Home> FusionPlan::home_candidates(ValueId v, int group) const {
  const FusionGroup& g = this->group(group);
  const ir::Node& node = graph_[v];
  std::vector<Home> homes;
  const auto add_home = [&](const Affine& element, bool outer) {
    const bool known = std::any_of(homes.begin(), homes.end(), [&](const Home& home) {
      return home.element == element && home.outer == outer;
    });
    if (!known) homes.push_back({element, outer});
  };
  for (ValueId operand : node.operands) {
    const Placement& place = this->place(root(operand));
    if (place.kind != Placement::Kind::member || place.group != group) continue;
    if (node.op == Op::permute) {
      TensorIndex from, to(node.type.shape.size());
      std::optional<Refine> refine;
      if (!unflatten({place.home, {}}, graph_[operand].type.shape, g.space, from, refine)) continue;
      for (std::size_t d = 0; d < to.size(); ++d)
        to[d] = from[static_cast<std::size_t>(node.attrs.ints("dims")[d])];
      Affine element = linear(to, node.type.shape, g.space.size()).affine;
      normalise(element, g.space);
      add_home(element, place.outer);
    } else if (graph_[operand].type.shape == node.type.shape) {
      add_home(place.home, place.outer);
    }
  }
  const std::int64_t elements = node.type.elements();
  if (elements == element_count(g.space) && g.kind != FusionGroup::Kind::scatter)
    add_home(dense_affine(g.space), false);
  if (g.kind == FusionGroup::Kind::row && elements == g.outer_elements()) {
    std::vector<bool> kept = g.reduced;
    kept.flip();
    add_home(dense_affine(g.space, kept), true);
  }
  return homes;
}

bool FusionPlan::try_home(ValueId v, int group, Home home, bool needs_unstored) {
  for (int tries = 0; tries < 6; ++tries) {
    ++work_.joins;
    const FusionGroup& g = this->group(group);
    ExprWalker walker(*this, group, g.space, false);
    try {
      walker.define(v, walker.index_of(v, home.element));
    } catch (const NeedsRefine& needed) {
      if (!refine(group, needed.refine)) return false;
      refine_affine(home.element, needed.refine);
      normalise(home.element, this->group(group).space);
      continue;
    } catch (const NeedsSlot&) {
      return false;
    } catch (const Unfusable&) {
      return false;
    }
    if (!fits(g, walker)) return false;
    if (needs_unstored && !walker.touched_unstored) return false;
    if (!walker.touched && !worth_sharing(g, walker.leaves)) return false;
    if (!accept(group, walker)) return false;
    Placement& place = add_member(v, group);
    place.outer = home.outer;
    place.home = home.element;
    return true;
  }
  return false;
}

bool FusionPlan::join(ValueId v, int group, bool needs_unstored) {
  const FusionGroup& g = this->group(group);
  if (!sharable(g.kind)) return false;
  for (const Home& home : home_candidates(v, group)) {
    if (g.kind == FusionGroup::Kind::row && !home.outer &&
        !wide_enough(element_count(g.space), g.outer_elements()))
      continue;
    if (try_home(v, group, home, needs_unstored)) return true;
  }
  return false;
}

std::vector<bool> FusionPlan::reduced_mask(ValueId v, const TensorIndex& index,
                                           std::size_t rank) const {
  std::vector<bool> mask(rank, false);
  for (std::int64_t dim : reduced_dimensions(graph_, v))
    for (std::size_t d = 0; d < rank; ++d)
      if (index[static_cast<std::size_t>(dim)].affine.strides[d] != 0) mask[d] = true;
  return mask;
}

bool FusionPlan::join_reduce(ValueId v, int group) {
  const ValueId operand = graph_[v].operands[0];
  const TensorType& type = graph_[operand].type;
  const std::vector<std::int64_t> dims = reduced_dimensions(graph_, v);
  const bool lanes = !dims.empty() && dims.back() == type.rank() - 1;
  for (int tries = 0; tries < 6; ++tries) {
    ++work_.joins;
    const FusionGroup& g = this->group(group);
    const bool row = g.kind == FusionGroup::Kind::row;
    if ((!row && g.kind != FusionGroup::Kind::loop) || element_count(g.space) != type.elements() ||
        (row && g.lanes != lanes))
      return false;
    ExprWalker walker(*this, group, g.space, false);
    TensorIndex index;
    try {
      index = walker.index_of(operand, dense_affine(g.space));
      walker.value(operand, index);
    } catch (const NeedsRefine& needed) {
      if (!refine(group, needed.refine)) return false;
      continue;
    } catch (const NeedsSlot&) {
      return false;
    } catch (const Unfusable&) {
      return false;
    }
    std::vector<bool> mask = reduced_mask(v, index, g.space.size());
    std::vector<bool> compared = row ? g.reduced : mask;
    for (std::size_t d = 0; d < compared.size(); ++d)
      if (g.space[d] == 1) compared[d] = mask[d];
    if (compared != mask) return false;
    if (!fits(g, walker)) return false;
    if (!walker.touched && !worth_sharing(g, walker.leaves)) return false;
    if (!row && !wide_enough(type.elements(), element_count(graph_[v].type.shape))) return false;
    if (!accept(group, walker)) return false;
    FusionGroup& joined = groups_[static_cast<std::size_t>(group)];
    joined.kind = FusionGroup::Kind::row;
    joined.reduced = mask;
    joined.lanes = lanes;
    joined.reductions.push_back(v);
    if (!row) offer_tiny(group, joined.outer_elements());
    std::vector<bool> kept = mask;
    kept.flip();
    Placement& place = add_member(v, group);
    place.anchor = place.outer = true;
    place.home = dense_affine(joined.space, kept);
    return true;
  }
  return false;
}

}  // namespace riffle::codegen
