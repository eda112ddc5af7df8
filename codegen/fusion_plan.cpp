#include "codegen/fusion_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/fusion_walk.h"

namespace riffle::codegen {

using ir::Op;
using ir::OpFamily;
using ir::ValueId;

namespace {
// Bounds on what one kernel takes on; past them compile time grows faster than the saving.
constexpr std::size_t kMaximumExprs = 256, kMaximumOperands = 24;
// ExprWalker descends a chain of free values by recursion, which a long one would run out of stack.
constexpr std::size_t kMaximumDepth = kMaximumExprs;
// A kernel with reductions runs in parallel over its rows: below so many rows, large elementwise
// work is better off in a kernel of its own.
constexpr std::int64_t kEnoughRows = 16, kSmallElements = 1 << 15;
// Up to so many elements a kernel costs about as much as its launch: values of one shape share one,
// related or not.
constexpr std::int64_t kTinyElements = 1 << 12;

bool widens_exactly(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::bf16 || from == DType::f16) return to == DType::f32 || to == DType::f64;
  return (from == DType::f32 && to == DType::f64) || (from == DType::i32 && to == DType::i64);
}
}  // namespace

std::vector<std::int64_t> reduced_dimensions(const ir::Graph& graph, ValueId v) {
  const ir::Node& node = graph[v];
  const std::int64_t rank = graph[node.operands[0]].type.rank();
  std::vector<std::int64_t> dims;
  if (node.op == Op::argmax)
    dims = {node.attrs.integer("dim")};
  else
    dims = node.attrs.ints("dim");
  for (std::int64_t& dim : dims)
    if (dim < 0) dim += rank;
  if (dims.empty())
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(d);
  std::sort(dims.begin(), dims.end());
  return dims;
}

std::int64_t FusionGroup::outer_elements() const noexcept {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < space.size(); ++d)
    if (reduced.empty() || !reduced[d]) count *= space[d];
  return count;
}

FusionPlan::FusionPlan(const ir::Graph& graph, const FusionOptions& options)
    : graph_(graph), options_(options) {
  find_roots();
  plan();
  if (!options_.fuse) return;
  // Now that it is known what ends up in memory, values that follow cheaply from it need none.
  const std::int64_t bytes = stored_bytes();
  for (const FusionGroup& group : groups_) hints_.insert(group.stored.begin(), group.stored.end());
  plan();
  if (stored_bytes() < bytes) return;
  hints_.clear();
  plan();
}

std::int64_t FusionPlan::stored_bytes() const {
  std::int64_t bytes = 0;
  for (const FusionGroup& group : groups_)
    for (ValueId v : group.stored) bytes += graph_[v].type.bytes();
  return bytes;
}

void FusionPlan::plan() {
  for (;;) {  // each failed attempt gives memory to one more value
    try {
      attempt();
      return;
    } catch (const NeedsSlot& needed) {
      if (!forced_.insert(needed.value).second)
        throw CompileError({.what = "the value cannot be computed even from memory (a bug of "
                                    "riffle's)",
                            .where = "%" + graph_[needed.value].name});
    }
  }
}

void FusionPlan::find_roots() {
  const auto count = static_cast<std::size_t>(graph_.size());
  roots_.resize(count);
  live_.assign(count, false);
  for (ValueId v = 0; v < graph_.size(); ++v)
    roots_[static_cast<std::size_t>(v)] =
        graph_[v].op == Op::reshape ? root(graph_[v].operands[0]) : v;
  for (ValueId v : graph_.outputs) {
    live_[static_cast<std::size_t>(v)] = true;
    outputs_.insert(root(v));
  }
  for (ValueId v = graph_.size(); v-- > 0;)
    if (live_[static_cast<std::size_t>(v)])
      for (ValueId operand : graph_[v].operands) live_[static_cast<std::size_t>(operand)] = true;
}

bool FusionPlan::is_zero_fill(ValueId v) const {
  while (graph_[v].op == Op::expand || graph_[v].op == Op::reshape) v = graph_[v].operands[0];
  const double value = graph_[v].op == Op::full ? graph_[v].attrs.number("fill_value") : 1;
  return value == 0 && !std::signbit(value);
}

void FusionPlan::find_slots() {
  slots_ = forced_;
  slots_.insert(outputs_.begin(), outputs_.end());
  for (ValueId v = 0; v < graph_.size(); ++v) {
    if (!live_[static_cast<std::size_t>(v)]) continue;
    const ir::Node& node = graph_[v];
    if (!options_.fuse) slots_.insert(root(v));
    if (node.op == Op::matmul)
      for (ValueId operand : node.operands) slots_.insert(matrix_view(operand).base);
    if (node.op == Op::scatter_add) {
      slots_.insert(v);
      if (!is_zero_fill(node.operands[0])) slots_.insert(root(node.operands[0]));
    }
    if (node.op == Op::cat) slots_.insert(v);
  }
}

MatrixView FusionPlan::matrix_view(ValueId operand) const {
  const Shape extents = graph_[operand].type.shape;
  const DType wanted = graph_[operand].type.dtype;
  TensorIndex index = identity_index(extents.size());
  for (ValueId v = operand;;) {
    const ValueId base = root(v);
    IndexTerm element = linear(index, graph_[v].type.shape, extents.size());
    normalise(element.affine, extents);
    const MatrixView here{base, element.affine};
    std::optional<Refine> refine;
    if (!options_.fuse || graph_[base].type.elements() == 0 || outputs_.contains(base)) return here;
    if (base != v && !unflatten(element, graph_[base].type.shape, extents, index, refine))
      return here;
    const ir::Node& node = graph_[base];
    const bool view = node.op == Op::permute || node.op == Op::expand || node.op == Op::slice;
    const bool widening = node.op == Op::to &&
                          widens_exactly(graph_[node.operands[0]].type.dtype, node.type.dtype) &&
                          widens_exactly(graph_[node.operands[0]].type.dtype, wanted);
    if (!view && !widening) return here;
    index = operand_index(graph_, base, 0, index, extents.size());
    v = node.operands[0];
  }
}

void FusionPlan::attempt() {
  const auto count = static_cast<std::size_t>(graph_.size());
  find_slots();
  places_.assign(count, {});
  touched_.assign(count, {});
  depths_.assign(count, 0);
  groups_.clear();
  for (ValueId v = 0; v < graph_.size(); ++v) {
    if (graph_[v].op == Op::input || graph_[v].op == Op::param)
      places_[static_cast<std::size_t>(v)].kind = Placement::Kind::source;
    else if (live_[static_cast<std::size_t>(v)] && root(v) == v)
      place_node(v);
  }
}

void FusionPlan::place_node(ValueId v) {
  switch (ir::info(graph_[v].op).family) {
    case OpFamily::reduce:
      return place_reduce(v);
    case OpFamily::matmul:
      return place_matmul(v);
    case OpFamily::marker:
      return;
    case OpFamily::composite:
      throw CompileError({.what = "composite op '" + std::string(ir::info(graph_[v].op).text) +
                                  "' reached code generation (a bug of riffle's)",
                          .where = "%" + graph_[v].name + " in @" + graph_.name});
    default:
      break;
  }
  if (graph_[v].op == Op::scatter_add) return place_scatter(v);
  if (graph_[v].op == Op::cat) return place_cat(v);
  place_mapped(v);
}

void FusionPlan::store(ValueId v) {
  Placement& place = places_[static_cast<std::size_t>(v)];
  if (place.in_memory()) return;
  place.stored = true;
  groups_[static_cast<std::size_t>(place.group)].stored.push_back(v);
}

std::vector<int> FusionPlan::touched_groups(ValueId v) const {
  std::set<int> groups;
  for (ValueId operand : graph_[v].operands) {
    const Placement& place = this->place(root(operand));
    if (place.kind == Placement::Kind::member)
      groups.insert(place.group);
    else if (place.kind == Placement::Kind::free)
      groups.insert(touched_[static_cast<std::size_t>(root(operand))].begin(),
                    touched_[static_cast<std::size_t>(root(operand))].end());
  }
  return {groups.rbegin(), groups.rend()};  // the latest first: it can depend on the others
}

std::size_t FusionPlan::depth_as_free(ValueId v) const {
  std::size_t deepest = 0;
  for (ValueId operand : graph_[v].operands)
    if (place(root(operand)).kind == Placement::Kind::free)
      deepest = std::max(deepest, depths_[static_cast<std::size_t>(root(operand))]);
  return deepest + 1;
}

std::vector<int> FusionPlan::sharing_groups(ValueId v) const {
  const Shape& space = graph_[v].type.shape;
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
  std::vector<int> groups;
  for (int g = static_cast<int>(groups_.size()); g-- > 0;)
    if (worth_sharing(group(g), walker.leaves)) groups.push_back(g);
  return groups;
}

bool FusionPlan::depends_on(int group, int other) const {
  std::vector<int> stack = {group};
  std::set<int> seen;
  while (!stack.empty()) {
    const int g = stack.back();
    stack.pop_back();
    if (g == other) return true;
    if (seen.insert(g).second)
      for (int d : this->group(g).depends) stack.push_back(d);
  }
  return false;
}

bool FusionPlan::worth_sharing(const FusionGroup& group, const std::set<ValueId>& leaves) const {
  const std::int64_t elements = element_count(group.space);
  if (elements <= kTinyElements) return true;
  return std::any_of(leaves.begin(), leaves.end(), [&](ValueId leaf) {
    return graph_[leaf].type.elements() >= elements && group.leaves.contains(leaf);
  });
}

bool FusionPlan::wide_enough(std::int64_t elements, std::int64_t outer) const noexcept {
  return outer >= kEnoughRows || elements <= kSmallElements;
}

bool FusionPlan::accept(int group, const ExprWalker& walker) {
  FusionGroup& g = groups_[static_cast<std::size_t>(group)];
  std::set<int> depends;
  for (ValueId leaf : walker.leaves) {
    const Placement& place = this->place(leaf);
    if (place.kind == Placement::Kind::source) continue;
    if (place.group == group || depends_on(place.group, group)) return false;
    depends.insert(place.group);
  }
  for (ValueId value : walker.exports) store(value);
  g.depends.insert(depends.begin(), depends.end());
  g.leaves.insert(walker.leaves.begin(), walker.leaves.end());
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
  for (Placement& place : places_) {
    if (place.kind != Placement::Kind::member || place.group != group) continue;
    refine_affine(place.home, refine);
    normalise(place.home, g.space);
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
    if (walker.exprs.size() > kMaximumExprs || walker.leaves.size() > kMaximumOperands ||
        g.leaves.size() + g.stored.size() > kMaximumOperands)
      return false;
    if (needs_unstored && !walker.touched_unstored) return false;
    if (!walker.touched && !worth_sharing(g, walker.leaves)) return false;
    if (!accept(group, walker)) return false;
    Placement& place = places_[static_cast<std::size_t>(v)];
    place = {.kind = Placement::Kind::member, .group = group, .outer = home.outer};
    place.home = home.element;
    return true;
  }
  return false;
}

bool FusionPlan::join(ValueId v, int group, bool needs_unstored) {
  const FusionGroup& g = this->group(group);
  if (g.kind == FusionGroup::Kind::scatter || g.kind == FusionGroup::Kind::cat) return false;
  for (const Home& home : home_candidates(v, group)) {
    if (g.kind == FusionGroup::Kind::row && !home.outer &&
        !wide_enough(element_count(g.space), g.outer_elements()))
      continue;
    if (try_home(v, group, home, needs_unstored)) return true;
  }
  return false;
}

void FusionPlan::place_mapped(ValueId v) {
  const bool needs_slot = slots_.contains(v);
  const std::vector<int> touched = touched_groups(v);
  if (options_.fuse && graph_[v].type.elements() > 0) {
    for (int g : touched)
      if (join(v, g, !needs_slot)) {
        if (needs_slot) store(v);
        return;
      }
    if (needs_slot)
      for (int g : sharing_groups(v))
        if (join(v, g, false)) return store(v);
  }
  const std::size_t depth = depth_as_free(v);
  if (depth > kMaximumDepth) forced_.insert(v);
  if (needs_slot || depth > kMaximumDepth) return place_loop(v);
  places_[static_cast<std::size_t>(v)].kind = Placement::Kind::free;
  depths_[static_cast<std::size_t>(v)] = depth;
  touched_[static_cast<std::size_t>(v)] = {touched.begin(), touched.end()};
}

void FusionPlan::place_loop(ValueId v) {
  const int id = static_cast<int>(groups_.size());
  groups_.push_back({.kind = FusionGroup::Kind::loop, .space = graph_[v].type.shape});
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = id};
  place.home = dense_affine(graph_[v].type.shape);
  if (graph_[v].type.elements() > 0) {
    for (;;) {
      ExprWalker walker(*this, id, group(id).space, false);
      try {
        walker.define(v, walker.index_of(v, place.home));
      } catch (const NeedsRefine& needed) {
        refine(id, needed.refine);
        continue;
      } catch (const Unfusable&) {
        throw CompileError({.what = "the value cannot be computed by a kernel of its own (a bug "
                                    "of riffle's)",
                            .where = "%" + graph_[v].name});
      }
      accept(id, walker);
      break;
    }
  }
  store(v);
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
    if (walker.exprs.size() > kMaximumExprs || walker.leaves.size() > kMaximumOperands ||
        g.leaves.size() + g.stored.size() > kMaximumOperands)
      return false;
    if (!walker.touched && !worth_sharing(g, walker.leaves)) return false;
    if (!row && !wide_enough(type.elements(), element_count(graph_[v].type.shape))) return false;
    if (!accept(group, walker)) return false;
    FusionGroup& joined = groups_[static_cast<std::size_t>(group)];
    joined.kind = FusionGroup::Kind::row;
    joined.reduced = mask;
    joined.lanes = lanes;
    joined.reductions.push_back(v);
    std::vector<bool> kept = mask;
    kept.flip();
    Placement& place = places_[static_cast<std::size_t>(v)];
    place = {.kind = Placement::Kind::member, .group = group, .anchor = true, .outer = true};
    place.home = dense_affine(joined.space, kept);
    return true;
  }
  return false;
}

void FusionPlan::place_reduce(ValueId v) {
  const ValueId operand = graph_[v].operands[0];
  const TensorType& type = graph_[operand].type;
  if (options_.fuse && type.elements() > 0) {
    std::vector<int> candidates = touched_groups(v);
    for (int g : sharing_groups(operand))
      if (std::find(candidates.begin(), candidates.end(), g) == candidates.end())
        candidates.push_back(g);
    for (int g : candidates)
      if (join_reduce(v, g)) {
        if (slots_.contains(v)) store(v);
        return;
      }
  }
  const int id = static_cast<int>(groups_.size());
  const std::vector<std::int64_t> dims = reduced_dimensions(graph_, v);
  FusionGroup group{.kind = FusionGroup::Kind::row, .space = type.shape};
  group.reduced.assign(type.shape.size(), false);
  for (std::int64_t dim : dims) group.reduced[static_cast<std::size_t>(dim)] = true;
  group.lanes = dims.empty() || dims.back() == type.rank() - 1;
  group.reductions = {v};
  groups_.push_back(std::move(group));
  if (type.elements() > 0) {
    for (;;) {
      ExprWalker walker(*this, id, this->group(id).space, false);
      try {
        walker.value(operand, walker.index_of(operand, dense_affine(this->group(id).space)));
      } catch (const NeedsRefine& needed) {
        refine(id, needed.refine);
        continue;
      } catch (const Unfusable&) {
        throw NeedsSlot{root(operand)};
      }
      accept(id, walker);
      break;
    }
  }
  std::vector<bool> kept = this->group(id).reduced;
  kept.flip();
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = id, .anchor = true, .outer = true};
  place.home = dense_affine(this->group(id).space, kept);
  if (slots_.contains(v)) store(v);
}

void FusionPlan::place_matmul(ValueId v) {
  const int id = static_cast<int>(groups_.size());
  groups_.push_back(
      {.kind = FusionGroup::Kind::matmul, .space = graph_[v].type.shape, .anchor = v});
  FusionGroup& group = groups_.back();
  for (ValueId operand : graph_[v].operands) {
    const ValueId base = matrix_view(operand).base;
    group.leaves.insert(base);
    if (place(base).kind == Placement::Kind::member) group.depends.insert(place(base).group);
  }
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = id, .anchor = true};
  place.home = dense_affine(group.space);
  if (slots_.contains(v)) store(v);
}

void FusionPlan::place_scatter(ValueId v) {
  const ir::Node& node = graph_[v];
  const int id = static_cast<int>(groups_.size());
  const Shape space = graph_[node.operands[1]].type.shape;
  groups_.push_back({.kind = FusionGroup::Kind::scatter, .space = space, .anchor = v});
  if (element_count(space) > 0) {
    ExprWalker walker(*this, id, space, false);
    ValueId operand = node.operands[1];
    try {
      walker.value(operand, identity_index(space.size()));
      operand = node.operands[2];
      walker.value(operand, identity_index(space.size()));
    } catch (const NeedsRefine&) {
      throw NeedsSlot{root(operand)};
    }
    accept(id, walker);
  }
  const ValueId base = root(node.operands[0]);
  if (!is_zero_fill(node.operands[0])) {
    FusionGroup& group = groups_.back();
    group.leaves.insert(base);
    if (place(base).kind == Placement::Kind::member) group.depends.insert(place(base).group);
  }
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = id, .anchor = true};
  place.home = zero_affine(space.size());
  store(v);
}

void FusionPlan::place_cat(ValueId v) {
  const int id = static_cast<int>(groups_.size());
  groups_.push_back({.kind = FusionGroup::Kind::cat, .anchor = v});
  for (ValueId operand : graph_[v].operands) {
    const Shape& space = graph_[operand].type.shape;
    if (element_count(space) == 0) continue;
    ExprWalker walker(*this, id, space, false);
    try {
      walker.value(operand, identity_index(space.size()));
    } catch (const NeedsRefine&) {
      throw NeedsSlot{root(operand)};
    }
    accept(id, walker);
  }
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = id, .anchor = true};
  store(v);
}

std::vector<int> FusionPlan::order() const {
  std::vector<int> order;
  std::vector<bool> done(groups_.size(), false);
  const std::function<void(int)> visit = [&](int g) {
    if (done[static_cast<std::size_t>(g)]) return;
    done[static_cast<std::size_t>(g)] = true;
    for (int d : group(g).depends) visit(d);
    order.push_back(g);
  };
  // What is recomputed for one reader comes just before it, so that it does not live long.
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    const std::vector<ValueId>& stored = group(g).stored;
    const bool wanted =
        std::any_of(stored.begin(), stored.end(), [&](ValueId v) { return outputs_.contains(v); });
    if (wanted || group(g).kind != FusionGroup::Kind::loop) visit(g);
  }
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) visit(g);
  return order;
}

}  // namespace riffle::codegen
