#include "codegen/fusion_walk.h"

#include <algorithm>
#include <bit>

namespace riffle::codegen {

using ir::Op;
using ir::OpFamily;
using ir::ValueId;

TensorIndex operand_index(const ir::Graph& graph, ValueId v, std::size_t operand,
                          const TensorIndex& index, std::size_t rank) {
  const ir::Node& node = graph[v];
  const Shape& from = graph[node.operands[operand]].type.shape;
  const Shape& to = node.type.shape;
  TensorIndex result(from.size(), {zero_affine(rank), {}});
  if (node.op == Op::permute) {
    const ir::Ints& dims = node.attrs.ints("dims");
    for (std::size_t d = 0; d < dims.size(); ++d)
      result[static_cast<std::size_t>(dims[d] < 0 ? dims[d] + graph[v].type.rank() : dims[d])] =
          index[d];
    return result;
  }
  const std::size_t added = to.size() - from.size();  // broadcasting aligns the last dimensions
  for (std::size_t d = 0; d < from.size(); ++d)
    if (from[d] == to[d + added] || node.op == Op::slice) result[d] = index[d + added];
  if (node.op == Op::slice) {
    std::int64_t dim = node.attrs.integer("dim");
    if (dim < 0) dim += node.type.rank();
    const std::int64_t size = from[static_cast<std::size_t>(dim)];
    std::int64_t start = node.attrs.integer("start");
    if (start < 0) start += size;
    start = std::clamp<std::int64_t>(start, 0, size);
    const std::int64_t step = node.attrs.integer("step");
    IndexTerm& term = result[static_cast<std::size_t>(dim)];
    term.affine.offset = term.affine.offset * step + start;
    for (std::int64_t& stride : term.affine.strides) stride *= step;
    for (Indirect& indirect : term.indirect) indirect.stride *= step;
  }
  return result;
}

ExprWalker::ExprWalker(const FusionPlan& plan, int group, Shape extents, bool emitting)
    : plan_(plan),
      graph_(plan.graph()),
      group_(group),
      extents_(std::move(extents)),
      emitting_(emitting) {}

ExprId ExprWalker::push(Expr expr) {
  exprs.push_back(std::move(expr));
  return static_cast<ExprId>(exprs.size()) - 1;
}

ExprId ExprWalker::constant(DType dtype, double value) {
  const std::vector<std::int64_t> key = {-2, static_cast<std::int64_t>(dtype),
                                         std::bit_cast<std::int64_t>(value)};
  if (auto known = memo_.find(key); known != memo_.end()) return known->second;
  Expr expr;
  expr.kind = Expr::Kind::constant;
  expr.dtype = dtype;
  expr.value = value;
  return memo_[key] = push(std::move(expr));
}

ExprId ExprWalker::op(Op op, DType dtype, std::vector<ExprId> arguments, ir::Attrs attrs) {
  Expr expr;
  expr.kind = Expr::Kind::op;
  expr.dtype = dtype;
  expr.op = op;
  expr.attrs = std::move(attrs);
  expr.arguments = std::move(arguments);
  return push(std::move(expr));
}

ExprId ExprWalker::index_value(const IndexTerm& term, DType dtype) {
  Expr expr;
  expr.kind = Expr::Kind::index;
  expr.dtype = term.indirect.empty() ? dtype : DType::i64;
  expr.address = term.affine;
  normalise(expr.address, extents_);
  ExprId sum = push(std::move(expr));
  if (term.indirect.empty()) return sum;
  const ir::Attrs to_i64 = {{"dtype", DType::i64}};
  for (const Indirect& indirect : term.indirect) {
    ExprId index = indirect.index;
    if (exprs[static_cast<std::size_t>(index)].dtype != DType::i64)
      index = op(Op::to, DType::i64, {index}, to_i64);
    const ExprId stride = constant(DType::i64, static_cast<double>(indirect.stride));
    sum = op(Op::add, DType::i64, {sum, op(Op::mul, DType::i64, {index, stride})});
  }
  return dtype == DType::i64 ? sum : op(Op::to, dtype, {sum}, {{"dtype", dtype}});
}

ExprId ExprWalker::load(ValueId root, const IndexTerm& element) {
  leaves.insert(root);
  Expr expr;
  expr.kind = Expr::Kind::load;
  expr.dtype = graph_[root].type.dtype;
  expr.operand = root;
  expr.address = element.affine;
  normalise(expr.address, extents_);
  expr.indirect = element.indirect;
  expr.guards = guards_;
  expr.value = fill_;
  return push(std::move(expr));
}

void ExprWalker::give_up(ValueId v) const {
  const ValueId root = plan_.root(v);
  if (plan_.place(root).kind == Placement::Kind::free) throw NeedsSlot{root};
  throw Unfusable{};
}

TensorIndex ExprWalker::index_of(ValueId v, const Affine& element) const {
  TensorIndex index;
  std::optional<Refine> refine;
  if (unflatten({element, {}}, graph_[v].type.shape, extents_, index, refine)) return index;
  if (refine) throw NeedsRefine{*refine};
  throw Unfusable{};
}

bool ExprWalker::recomputable(ValueId root) const {
  const ir::Node& node = graph_[root];
  if (ir::info(node.op).family != OpFamily::elementwise) return false;
  if (ir::info(node.op).has(ir::kTranscendental)) return false;  // worth a store
  if (node.op == Op::to &&  // the narrower value is the cheaper one to store
      size_of(graph_[node.operands[0]].type.dtype) < size_of(node.type.dtype))
    return true;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
    const ValueId from = plan_.root(operand);
    return plan_.expects_memory(from) || graph_[from].op == Op::full;
  });
}

ExprId ExprWalker::value(ValueId v, const TensorIndex& index) {
  const TensorType& type = graph_[v].type;
  if (type.elements() == 0) return constant(type.dtype, 0);  // no point ever asks for it
  const ValueId root = plan_.root(v);
  IndexTerm element = linear(index, type.shape, extents_.size());
  normalise(element.affine, extents_);

  std::vector<std::int64_t> key = {root, element.affine.offset};
  key.insert(key.end(), element.affine.strides.begin(), element.affine.strides.end());
  for (const Indirect& indirect : element.indirect)
    key.insert(key.end(), {indirect.index, indirect.stride});
  for (const Guard& guard : guards_) {
    key.insert(key.end(), {-3, guard.value.offset, guard.lower, guard.upper});
    key.insert(key.end(), guard.value.strides.begin(), guard.value.strides.end());
  }
  key.push_back(std::bit_cast<std::int64_t>(fill_));
  if (auto known = memo_.find(key); known != memo_.end()) return known->second;

  const Placement& place = plan_.place(root);
  if (place.kind == Placement::Kind::member && place.group == group_) {
    const bool at_home = element.indirect.empty() && element.affine == place.home;
    if (!at_home && (place.anchor || (place.stored && !emitting_))) throw Unfusable{};
    if (at_home) {
      touched = true;
      touched_unstored = touched_unstored || !place.stored;
    }
    if (place.anchor || (at_home && !emitting_)) {
      carried.insert(root);
      Expr expr;
      expr.kind = Expr::Kind::carried;
      expr.dtype = graph_[root].type.dtype;
      expr.carried = root;
      return memo_[key] = push(std::move(expr));
    }
  } else if (place.in_memory()) {
    // Once complete, the plan may have stored what this group was to recompute; reading it then
    // could close a cycle.
    const bool readable = !emitting_ || place.kind == Placement::Kind::source ||
                          plan_.depends(group_).contains(place.group);
    if (readable) return memo_[key] = load(root, element);
  } else if (place.kind == Placement::Kind::member && !recomputable(root)) {
    exports.insert(root);
    return memo_[key] = load(root, element);
  }

  if (root == v) return memo_[key] = define(v, index);
  TensorIndex root_index;
  std::optional<Refine> refine;
  if (!unflatten(element, graph_[root].type.shape, extents_, root_index, refine)) {
    if (refine) throw NeedsRefine{*refine};
    if (place.kind == Placement::Kind::member && place.group != group_) {
      exports.insert(root);
      return memo_[key] = load(root, element);
    }
    give_up(root);
  }
  return memo_[key] = define(root, root_index);
}

ExprId ExprWalker::define(ValueId v, const TensorIndex& index) {
  const ir::Node& node = graph_[v];
  const std::size_t rank = extents_.size();
  weight += op_weight(node.op);
  if (ir::info(node.op).family == OpFamily::elementwise) {
    std::vector<ExprId> arguments;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      arguments.push_back(value(node.operands[i], operand_index(graph_, v, i, index, rank)));
    return op(node.op, node.type.dtype, std::move(arguments), node.attrs);
  }
  switch (node.op) {
    case Op::full:
      return constant(node.type.dtype, node.attrs.number("fill_value"));
    case Op::arange:
      return index_value(index[0], node.type.dtype);
    case Op::reshape: {  // only when it has a slot of its own
      TensorIndex from;
      std::optional<Refine> refine;
      if (!unflatten(linear(index, node.type.shape, rank), graph_[node.operands[0]].type.shape,
                     extents_, from, refine)) {
        if (refine) throw NeedsRefine{*refine};
        give_up(v);
      }
      return value(node.operands[0], from);
    }
    case Op::permute:
    case Op::expand:
    case Op::slice:
      return value(node.operands[0], operand_index(graph_, v, 0, index, rank));
    case Op::pad:
      return pad(v, index);
    case Op::gather:
      return gather(v, index);
    default:
      throw CompileError({.what = "op '" + std::string(ir::info(node.op).text) +
                                  "' has no place in a fused expression (a bug of riffle's)",
                          .where = "%" + node.name});
  }
}

ExprId ExprWalker::condition(const std::vector<Guard>& guards) {
  ExprId all = -1;
  const auto both = [&](ExprId term) {
    all = all < 0 ? term : op(Op::logical_and, DType::boolean, {all, term});
  };
  for (const Guard& guard : guards) {
    const auto [low, high] = range_of(guard.value, extents_);
    const ExprId index = index_value({guard.value, {}}, DType::i64);
    const auto bound = [&](std::int64_t b) { return constant(DType::i64, static_cast<double>(b)); };
    if (low < guard.lower) both(op(Op::ge, DType::boolean, {index, bound(guard.lower)}));
    if (high >= guard.upper) both(op(Op::lt, DType::boolean, {index, bound(guard.upper)}));
  }
  return all;
}

ExprId ExprWalker::pad(ValueId v, const TensorIndex& index) {
  const ir::Node& node = graph_[v];
  const ValueId operand = node.operands[0];
  const Shape& from = graph_[operand].type.shape;
  const double fill = node.attrs.number("value");
  if (graph_[operand].type.elements() == 0) return constant(node.type.dtype, fill);
  TensorIndex inner = index;
  std::vector<Guard> guards;
  for (std::size_t d = 0; d < from.size(); ++d) {
    inner[d].affine.offset -= node.attrs.ints("low")[d];
    Affine checked = inner[d].affine;
    normalise(checked, extents_);
    const auto [low, high] = range_of(checked, extents_);
    if (inner[d].indirect.empty() && low >= 0 && high < from[d]) continue;
    if (!inner[d].indirect.empty()) {
      if (from[d] == node.type.shape[d]) continue;  // not padded there
      give_up(v);
    }
    guards.push_back({checked, 0, from[d]});
  }
  if (guards.empty()) return value(operand, inner);
  const ValueId root = plan_.root(operand);
  const Placement& place = plan_.place(root);
  const bool direct = guards_.empty() && place.in_memory() && place.group != group_;
  const std::vector<Guard> outer_guards = guards_;
  const double outer_fill = fill_;
  guards_.insert(guards_.end(), guards.begin(), guards.end());
  fill_ = direct ? fill : 0;
  const ExprId inside = value(operand, inner);
  guards_ = outer_guards;
  fill_ = outer_fill;
  if (direct && exprs[static_cast<std::size_t>(inside)].kind == Expr::Kind::load) return inside;
  return op(Op::where_, node.type.dtype,
            {condition(guards), inside, constant(node.type.dtype, fill)});
}

ExprId ExprWalker::gather(ValueId v, const TensorIndex& index) {
  const ir::Node& node = graph_[v];
  const ValueId operand = node.operands[0];
  std::int64_t dim = node.attrs.integer("dim");
  if (dim < 0) dim += node.type.rank();
  const auto d = static_cast<std::size_t>(dim);
  const ExprId position = value(node.operands[1], index);
  TensorIndex from = index;
  from[d] = {zero_affine(extents_.size()), {{position, 1, graph_[operand].type.shape[d]}}};
  const ExprId result = value(operand, from);
  // The bound of the index is checked where memory is read; constants would never check it.
  const bool checked = std::any_of(exprs.begin(), exprs.end(), [&](const Expr& expr) {
    return std::any_of(expr.indirect.begin(), expr.indirect.end(),
                       [&](const Indirect& i) { return i.index == position; });
  });
  if (!checked) give_up(operand);
  return result;
}

}  // namespace riffle::codegen
