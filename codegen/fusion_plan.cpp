// Which values get memory, and which group each of the others belongs to: nodes are placed in
// program order, by family. Start reading at FusionPlan::FusionPlan.
#include "codegen/fusion_plan.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "codegen/fusion_walk.h"

namespace riffle::codegen {

using ir::Op;
using ir::OpFamily;
using ir::ValueId;

namespace {
bool widens_exactly(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::bf16 || from == DType::f16) return to == DType::f32 || to == DType::f64;
  return (from == DType::f32 && to == DType::f64) || (from == DType::i32 && to == DType::i64);
}
}  // namespace

std::size_t op_weight(Op op) {
  const ir::OpInfo& info = ir::info(op);
  if (info.family == OpFamily::source) return 0;
  return info.has(ir::kExtended) ? 32 : info.has(ir::kTranscendental) ? 16 : 1;
}

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

PlanWork FusionPlan::work() const noexcept {
  PlanWork work = work_;
  work.visits += group_graph_.visits();
  return work;
}

void FusionPlan::plan() {
  const auto count = static_cast<std::size_t>(graph_.size());
  find_slots();
  places_.assign(count, {});
  met_.assign(count, 0);
  cones_ = 0;
  groups_.clear();
  work_.visits += group_graph_.visits();
  group_graph_ = {};
  readers_.clear();
  tiny_.clear();
  for (ValueId v = 0; v < graph_.size(); ++v) {
    if (graph_[v].op == Op::input || graph_[v].op == Op::param)
      places_[static_cast<std::size_t>(v)].kind = Placement::Kind::source;
    else if (live_[static_cast<std::size_t>(v)] && root(v) == v)
      place_value(v);
  }
}

void FusionPlan::place_value(ValueId v) {
  for (;;) {
    ValueId needed = ir::kNoValue;
    try {
      return place_node(v);
    } catch (const NeedsSlot& slot) {
      needed = slot.value;
    }
    give_memory(needed);
  }
}

void FusionPlan::give_memory(ValueId v) {
  const Placement& place = this->place(v);
  if (place.kind == Placement::Kind::dead || place.in_memory())
    throw CompileError({.what = "the value cannot be computed even from memory (a bug of riffle's)",
                        .where = "%" + graph_[v].name});
  // What reads it already goes on computing it for itself; the next pass knows better.
  forced_.insert(v);
  slots_.insert(v);
  if (place.kind == Placement::Kind::member) return store(v);
  place_value(v);
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

int FusionPlan::open(FusionGroup group) {
  const int id = group_graph_.add();
  groups_.push_back(std::move(group));
  const FusionGroup& opened = groups_.back();
  offer_tiny(id, element_count(opened.space));
  if (opened.kind == FusionGroup::Kind::row) offer_tiny(id, opened.outer_elements());
  return id;
}

Placement& FusionPlan::add_member(ValueId v, int group) {
  groups_[static_cast<std::size_t>(group)].members.push_back(v);
  Placement& place = places_[static_cast<std::size_t>(v)];
  place = {.kind = Placement::Kind::member, .group = group};
  return place;
}

bool FusionPlan::Cone::fits() const noexcept {
  return values <= FusionLimits::kWeight && weight <= FusionLimits::kFreeWeight &&
         leaves <= FusionLimits::kOperands;
}

FusionPlan::Cone FusionPlan::cone_of(ValueId v) {
  ++cones_;
  Cone cone;
  std::vector<ValueId> stack = {v};
  while (!stack.empty() && cone.fits()) {
    const ValueId at = stack.back();
    stack.pop_back();
    ++work_.visits;
    ++cone.values;
    cone.weight += op_weight(graph_[at].op);
    for (ValueId operand : graph_[at].operands) {
      const ValueId from = root(operand);
      std::size_t& met = met_[static_cast<std::size_t>(from)];
      if (met == cones_) continue;
      met = cones_;
      const Placement& place = this->place(from);
      if (place.kind == Placement::Kind::free) {
        stack.push_back(from);
        continue;
      }
      ++cone.leaves;
      if (place.kind != Placement::Kind::member) continue;
      cone.groups.push_back(place.group);
      if (!place.stored) cone.unstored.push_back(place.group);
    }
  }
  return cone;
}

void FusionPlan::place_mapped(ValueId v) {
  const bool needs_slot = slots_.contains(v);
  const Cone cone = cone_of(v);
  if (options_.fuse && graph_[v].type.elements() > 0) {
    if (needs_slot || cone.values <= FusionLimits::kReach)
      for (int g : touched_groups(cone, needs_slot ? cone.groups : cone.unstored))
        if (join(v, g, !needs_slot)) {
          if (needs_slot) store(v);
          return;
        }
    if (needs_slot)
      for (int g : sharing_groups(v))
        if (join(v, g, false)) return store(v);
  }
  if (!needs_slot && cone.fits()) {
    places_[static_cast<std::size_t>(v)].kind = Placement::Kind::free;
    return;
  }
  forced_.insert(v);
  place_loop(v);
}

void FusionPlan::place_loop(ValueId v) {
  FusionGroup group{.kind = FusionGroup::Kind::loop, .space = graph_[v].type.shape};
  Affine home = dense_affine(group.space);
  std::optional<ExprWalker> walker;
  while (graph_[v].type.elements() > 0) {
    walker.emplace(*this, static_cast<int>(groups_.size()), group.space, false);
    try {
      walker->define(v, walker->index_of(v, home));
      break;
    } catch (const NeedsRefine& needed) {
      refine_extents(group.space, needed.refine);
      refine_affine(home, needed.refine);
      normalise(home, group.space);
    } catch (const Unfusable&) {
      throw CompileError({.what = "the value cannot be computed by a kernel of its own (a bug "
                                  "of riffle's)",
                          .where = "%" + graph_[v].name});
    }
  }
  const int id = open(std::move(group));
  if (walker) accept(id, *walker);
  add_member(v, id).home = home;
  store(v);
}

void FusionPlan::place_reduce(ValueId v) {
  const ValueId operand = graph_[v].operands[0];
  const TensorType& type = graph_[operand].type;
  if (options_.fuse && type.elements() > 0) {
    const Cone cone = cone_of(v);
    std::vector<int> candidates = touched_groups(cone, cone.groups);
    for (int g : sharing_groups(operand))
      if (std::find(candidates.begin(), candidates.end(), g) == candidates.end())
        candidates.push_back(g);
    for (int g : candidates)
      if (join_reduce(v, g)) {
        if (slots_.contains(v)) store(v);
        return;
      }
  }
  const std::vector<std::int64_t> dims = reduced_dimensions(graph_, v);
  FusionGroup group{.kind = FusionGroup::Kind::row, .space = type.shape};
  group.reduced.assign(type.shape.size(), false);
  for (std::int64_t dim : dims) group.reduced[static_cast<std::size_t>(dim)] = true;
  group.lanes = dims.empty() || dims.back() == type.rank() - 1;
  group.reductions = {v};
  std::optional<ExprWalker> walker;
  while (type.elements() > 0) {
    walker.emplace(*this, static_cast<int>(groups_.size()), group.space, false);
    try {
      walker->value(operand, walker->index_of(operand, dense_affine(group.space)));
      break;
    } catch (const NeedsRefine& needed) {
      refine_extents(group.space, needed.refine);
      group.reduced.insert(
          group.reduced.begin() + static_cast<std::ptrdiff_t>(needed.refine.dimension),
          group.reduced[needed.refine.dimension]);
    } catch (const Unfusable&) {
      throw NeedsSlot{root(operand)};
    }
  }
  std::vector<bool> kept = group.reduced;
  kept.flip();
  const int id = open(std::move(group));
  if (walker) accept(id, *walker);
  Placement& place = add_member(v, id);
  place.anchor = place.outer = true;
  place.home = dense_affine(this->group(id).space, kept);
  if (slots_.contains(v)) store(v);
}

void FusionPlan::place_matmul(ValueId v) {
  const int id =
      open({.kind = FusionGroup::Kind::matmul, .space = graph_[v].type.shape, .anchor = v});
  for (ValueId operand : graph_[v].operands) add_leaf(id, matrix_view(operand).base);
  Placement& place = add_member(v, id);
  place.anchor = true;
  place.home = dense_affine(group(id).space);
  if (slots_.contains(v)) store(v);
}

void FusionPlan::place_scatter(ValueId v) {
  const ir::Node& node = graph_[v];
  const Shape& space = graph_[node.operands[1]].type.shape;
  ExprWalker walker(*this, static_cast<int>(groups_.size()), space, false);
  if (element_count(space) > 0) {
    ValueId operand = node.operands[1];
    try {
      walker.value(operand, identity_index(space.size()));
      operand = node.operands[2];
      walker.value(operand, identity_index(space.size()));
    } catch (const NeedsRefine&) {
      throw NeedsSlot{root(operand)};
    }
  }
  const int id = open({.kind = FusionGroup::Kind::scatter, .space = space, .anchor = v});
  accept(id, walker);
  if (!is_zero_fill(node.operands[0])) add_leaf(id, root(node.operands[0]));
  Placement& place = add_member(v, id);
  place.anchor = true;
  place.home = zero_affine(space.size());
  store(v);
}

void FusionPlan::place_cat(ValueId v) {
  std::deque<ExprWalker> walkers;
  for (ValueId operand : graph_[v].operands) {
    const Shape& space = graph_[operand].type.shape;
    if (element_count(space) == 0) continue;
    walkers.emplace_back(*this, static_cast<int>(groups_.size()), space, false);
    try {
      walkers.back().value(operand, identity_index(space.size()));
    } catch (const NeedsRefine&) {
      throw NeedsSlot{root(operand)};
    }
  }
  const int id = open({.kind = FusionGroup::Kind::cat, .anchor = v});
  for (const ExprWalker& walker : walkers) accept(id, walker);
  add_member(v, id).anchor = true;
  store(v);
}

std::vector<int> FusionPlan::order() const {
  // What is recomputed for one reader comes just before it, so that it does not live long.
  std::vector<int> first;
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    const std::vector<ValueId>& stored = group(g).stored;
    const bool wanted =
        std::any_of(stored.begin(), stored.end(), [&](ValueId v) { return outputs_.contains(v); });
    if (wanted || group(g).kind != FusionGroup::Kind::loop) first.push_back(g);
  }
  return group_graph_.sorted(first);
}

}  // namespace riffle::codegen
