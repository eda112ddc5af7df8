// Builds KernelPrograms: runs the fusion plan and writes each of its groups as kernels.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/fusion_walk.h"
#include "codegen/kernel_canonical.h"
#include "ir/array.h"

namespace riffle::codegen {
namespace {

using ir::Op;
using ir::ValueId;

class ProgramBuilder {
 public:
  ProgramBuilder(const ir::Graph& graph, const FusionOptions& options)
      : graph_(graph), plan_(graph, options) {}

  KernelProgram build();

 private:
  std::int32_t slot(ValueId root);
  void emit(int id);
  void emit_loop(int id);
  void emit_row(int id);
  void emit_matmul(int id);
  void emit_scatter(int id);
  void emit_cat(int id);

  /// Operand numbers of the kernel under construction.
  std::int32_t operand(ValueId root, Access access);
  void number_operands(std::vector<Expr>& exprs);
  /// Adds the values' names and ops, in program order, and the kernel to the program.
  void finish(int id, std::variant<LoopBody, RowBody, MatmulBody, ScatterBody> body);

  const ir::Graph& graph_;
  FusionPlan plan_;
  KernelProgram program_;
  std::map<ValueId, std::int32_t> slots_;
  KernelSpec kernel_;
  std::map<ValueId, std::int32_t> operands_;
};

std::int32_t ProgramBuilder::slot(ValueId root) {
  auto [found, added] = slots_.try_emplace(root, static_cast<std::int32_t>(program_.slots.size()));
  if (added) program_.slots.push_back({graph_[root].type, graph_[root].name});
  return found->second;
}

std::int32_t ProgramBuilder::operand(ValueId root, Access access) {
  auto [found, added] =
      operands_.try_emplace(root, static_cast<std::int32_t>(kernel_.operands.size()));
  if (added) kernel_.operands.push_back({slot(root), access});
  return found->second;
}

void ProgramBuilder::number_operands(std::vector<Expr>& exprs) {
  for (Expr& expr : exprs)
    if (expr.kind == Expr::Kind::load) expr.operand = operand(expr.operand, Access::read);
}

/// Every value that a kernel computes on the way, for names and origins: what the program needs of
/// v, down to memory and to other groups.
void collect_origin(const ir::Graph& graph, const FusionPlan& plan, int group, ValueId v,
                    std::set<ValueId>& origin) {
  const ValueId root = plan.root(v);
  if (!origin.insert(root).second) return;
  for (ValueId operand : graph[root].operands) {
    const Placement& place = plan.place(plan.root(operand));
    const bool elsewhere = place.in_memory() && place.group != group;
    if (elsewhere || place.kind == Placement::Kind::source) continue;
    if (graph[root].op == Op::matmul) continue;  // operands are read through views
    if (plan.group(group).kind == FusionGroup::Kind::scatter && operand == graph[root].operands[0])
      continue;
    collect_origin(graph, plan, group, operand, origin);
  }
}

/// "_matmul_add_where": the anchor's op, then the others in program order. Of many, those that say
/// most.
std::string ops_suffix(const ir::Graph& graph, const std::set<ValueId>& origin, ValueId anchor) {
  const auto plain = [](Op op) {  // says little about what a kernel is for
    return op == Op::expand || op == Op::permute || op == Op::full || op == Op::slice ||
           op == Op::to || op == Op::arange;
  };
  const auto arithmetic = [&](Op op) {
    return plain(op) || op == Op::add || op == Op::sub || op == Op::mul || op == Op::div ||
           op == Op::neg || op == Op::where_ || ir::info(op).has(ir::kNotDifferentiable);
  };
  const auto names = [&](const auto& dropped) {
    std::vector<std::string_view> ops;
    if (anchor != ir::kNoValue) ops.push_back(ir::info(graph[anchor].op).text);
    for (ValueId v : origin)
      if (const Op op = graph[v].op;
          !dropped(op) && std::find(ops.begin(), ops.end(), ir::info(op).text) == ops.end())
        ops.push_back(ir::info(op).text);
    return ops;
  };
  constexpr std::size_t kMaximumOps = 5;
  std::vector<std::string_view> ops = names(plain);
  if (ops.size() > kMaximumOps)
    if (auto fewer = names(arithmetic); !fewer.empty()) ops = std::move(fewer);
  if (ops.empty()) ops = names([](Op) { return false; });
  if (ops.size() > kMaximumOps) ops.resize(kMaximumOps);
  std::string suffix;
  for (std::string_view op : ops) suffix += fmt::format("_{}", op);
  return suffix;
}

double flops_of(const std::vector<Expr>& exprs) {
  return static_cast<double>(std::count_if(
      exprs.begin(), exprs.end(), [](const Expr& expr) { return expr.kind == Expr::Kind::op; }));
}

double flops_of(const LoopBody& body) {
  return static_cast<double>(element_count(body.space)) * flops_of(body.exprs);
}
double flops_of(const RowBody& body) {
  double inner = 0;
  for (const RowBody::Stage& stage : body.stages)
    inner += flops_of(stage.exprs) + static_cast<double>(stage.reductions.size());
  return static_cast<double>(element_count(body.outer)) *
         (inner * static_cast<double>(element_count(body.inner)) + flops_of(body.final_exprs));
}
double flops_of(const MatmulBody& body) {
  return static_cast<double>(element_count(body.batch) * body.m * body.n) *
         (2.0 * static_cast<double>(body.k) + flops_of(body.epilogue));
}
double flops_of(const ScatterBody& body) {
  return static_cast<double>(element_count(body.space)) * (flops_of(body.exprs) + 1);
}

void ProgramBuilder::finish(int id, std::variant<LoopBody, RowBody, MatmulBody, ScatterBody> body) {
  const FusionGroup& group = plan_.group(id);
  std::set<ValueId> origin;
  for (ValueId v : group.stored) collect_origin(graph_, plan_, id, v, origin);
  for (ValueId v : origin) kernel_.origin.push_back(graph_[v].name);
  kernel_.name =
      fmt::format("k{}{}", program_.kernels.size(), ops_suffix(graph_, origin, group.anchor));
  kernel_.body = std::move(body);
  kernel_.flops = std::visit([](const auto& b) { return flops_of(b); }, kernel_.body);
  for (const KernelOperand& o : kernel_.operands)
    kernel_.bytes +=
        static_cast<double>(program_.slots[static_cast<std::size_t>(o.slot)].type.bytes());
  kernel_.may_alias = aliasable_operands(kernel_, program_);
  program_.kernels.push_back(std::move(kernel_));
  kernel_ = {};
  operands_.clear();
}

void ProgramBuilder::emit(int id) {
  const FusionGroup& group = plan_.group(id);
  const bool writes = std::any_of(group.stored.begin(), group.stored.end(),
                                  [&](ValueId v) { return graph_[v].type.elements() > 0; });
  for (ValueId v : group.stored) slot(v);
  if (!writes) return;
  switch (group.kind) {
    case FusionGroup::Kind::loop:
      return emit_loop(id);
    case FusionGroup::Kind::row:
      return emit_row(id);
    case FusionGroup::Kind::matmul:
      return emit_matmul(id);
    case FusionGroup::Kind::scatter:
      return emit_scatter(id);
    case FusionGroup::Kind::cat:
      return emit_cat(id);
  }
}

void ProgramBuilder::emit_loop(int id) {
  const FusionGroup& group = plan_.group(id);
  ExprWalker walker(plan_, id, group.space, true);
  LoopBody body;
  body.space = group.space;
  for (ValueId v : group.stored) {
    const Affine& home = plan_.place(v).home;
    body.stores.push_back({v, home, walker.value(v, walker.index_of(v, home))});
  }
  body.exprs = std::move(walker.exprs);
  number_operands(body.exprs);
  for (Store& store : body.stores) store.operand = operand(store.operand, Access::write);
  canonicalise(body);
  finish(id, std::move(body));
}

void ProgramBuilder::emit_row(int id) {
  const FusionGroup& group = plan_.group(id);
  const Shape& space = group.space;
  const bool empty = element_count(space) == 0;
  std::vector<std::size_t> order;  // loop dimension ← dimension of space
  RowBody body;
  body.lanes = group.lanes;
  for (std::size_t d = 0; d < space.size(); ++d)
    if (!group.reduced[d]) order.push_back(d), body.outer.push_back(space[d]);
  for (std::size_t d = 0; d < space.size(); ++d)
    if (group.reduced[d]) order.push_back(d), body.inner.push_back(space[d]);

  const auto reduced_index = [&](ExprWalker& walker, ValueId operand) {
    return empty ? TensorIndex(graph_[operand].type.shape.size(), {zero_affine(space.size()), {}})
                 : walker.index_of(operand, dense_affine(space));
  };
  // A reduction's stage follows those whose results it reads.
  std::map<ValueId, std::size_t> stage_of;
  const auto stage_after = [&](const std::set<ValueId>& carried) {
    std::size_t stage = 0;
    for (ValueId v : carried) stage = std::max(stage, stage_of.at(v) + 1);
    return stage;
  };
  std::size_t stages = 0;
  for (ValueId v : group.reductions) {
    ExprWalker walker(plan_, id, space, true);
    const ValueId operand = graph_[v].operands[0];
    walker.value(operand, reduced_index(walker, operand));
    stage_of[v] = stage_after(walker.carried);
    stages = std::max(stages, stage_of[v] + 1);
  }
  std::map<ValueId, std::size_t> stored_in;
  for (ValueId v : group.stored) {
    if (plan_.place(v).outer || empty) continue;
    ExprWalker walker(plan_, id, space, true);
    walker.value(v, walker.index_of(v, plan_.place(v).home));
    stored_in[v] = stage_after(walker.carried);
    stages = std::max(stages, stored_in[v] + 1);
  }

  std::map<ValueId, std::int32_t> carried_number;
  const auto finish_exprs = [&](ExprWalker& walker, std::vector<Expr>& exprs) {
    exprs = std::move(walker.exprs);
    for (Expr& expr : exprs)
      if (expr.kind == Expr::Kind::carried) expr.carried = carried_number.at(expr.carried);
    number_operands(exprs);
  };
  for (std::size_t s = 0; s < stages; ++s) {
    RowBody::Stage stage;
    ExprWalker walker(plan_, id, space, true);
    std::vector<ValueId> here;
    for (ValueId v : group.reductions) {
      if (stage_of[v] != s) continue;
      const ValueId operand = graph_[v].operands[0];
      const DType dtype = graph_[operand].type.dtype;
      const auto kind = [&] {
        switch (graph_[v].op) {
          case Op::sum:
            return ReduceKind::sum;
          case Op::amax:
            return ReduceKind::max;
          case Op::amin:
            return ReduceKind::min;
          case Op::prod:
            return ReduceKind::prod;
          default:
            return ReduceKind::argmax;
        }
      }();
      stage.reductions.push_back(
          {kind, walker.value(operand, reduced_index(walker, operand)), dtype});
      here.push_back(v);
    }
    for (const auto& [v, in] : stored_in) {
      if (in != s) continue;
      const Affine& home = plan_.place(v).home;
      stage.stores.push_back({v, home, walker.value(v, walker.index_of(v, home))});
    }
    finish_exprs(walker, stage.exprs);
    for (ValueId v : here)
      carried_number.emplace(v, static_cast<std::int32_t>(carried_number.size()));
    body.stages.push_back(std::move(stage));
  }
  ExprWalker walker(plan_, id, space, true);
  for (ValueId v : group.stored) {
    if (!plan_.place(v).outer) continue;
    const Affine& home = plan_.place(v).home;
    body.final_stores.push_back({v, home, walker.value(v, walker.index_of(v, home))});
  }
  finish_exprs(walker, body.final_exprs);

  const auto reorder = [&](Affine& affine) {
    Affine ordered = affine;
    for (std::size_t d = 0; d < order.size(); ++d) ordered.strides[d] = affine.strides[order[d]];
    affine = std::move(ordered);
  };
  const auto reorder_all = [&](std::vector<Expr>& exprs, std::vector<Store>& stores) {
    for (Expr& expr : exprs) {
      if (expr.kind == Expr::Kind::load || expr.kind == Expr::Kind::index) reorder(expr.address);
      for (Guard& guard : expr.guards) reorder(guard.value);
    }
    for (Store& store : stores) {
      reorder(store.address);
      store.operand = operand(store.operand, Access::write);
    }
  };
  for (RowBody::Stage& stage : body.stages) reorder_all(stage.exprs, stage.stores);
  reorder_all(body.final_exprs, body.final_stores);
  canonicalise(body);
  finish(id, std::move(body));
}

void ProgramBuilder::emit_matmul(int id) {
  const FusionGroup& group = plan_.group(id);
  const ir::Node& node = graph_[group.anchor];
  const Shape& space = group.space;
  MatmulBody body;
  body.dtype = node.type.dtype;
  body.batch.assign(space.begin(), space.end() - 2);
  body.m = space[space.size() - 2];
  body.n = space.back();

  const auto side = [&](std::size_t number, bool transposed) {
    const ValueId v = node.operands[number];
    const Shape& shape = graph_[v].type.shape;
    const MatrixView view = plan_.matrix_view(v);
    MatmulBody::Side result;
    result.operand = operand(view.base, Access::read);
    result.offset = view.address.offset;
    const std::size_t rank = shape.size();
    result.row_stride = view.address.strides[rank - 2];
    result.column_stride = view.address.strides[rank - 1];
    if (transposed) std::swap(result.row_stride, result.column_stride);
    // Strides over the result's dimensions, n left out, right-aligned …
    const Shape coarse(node.type.shape.begin(), node.type.shape.end() - 1);
    std::vector<std::int64_t> strides(coarse.size(), 0);
    for (std::size_t d = 0; d + 2 < rank; ++d)
      strides[coarse.size() + 1 - rank + d] = view.address.strides[d];
    if (number == 0) strides.back() = result.row_stride;
    // … carried over to the space's, which may be a refinement of them (FusionPlan::refine).
    const Shape fine(space.begin(), space.end() - 1);
    std::vector<std::int64_t> refined(fine.size(), 0);
    std::size_t f = fine.size();
    for (std::size_t d = coarse.size(); d-- > 0;) {
      std::int64_t covered = 1;
      while (f > 0 && (covered < coarse[d] || fine[f - 1] == 1)) {
        --f;
        refined[f] = strides[d] * covered;
        covered *= fine[f];
      }
    }
    if (number == 0) result.row_stride = refined.back();
    result.batch_strides.assign(refined.begin(), refined.end() - 1);
    return std::pair(result, shape[rank - (transposed == (number == 0) ? 2 : 1)]);
  };
  // Operands in graph order; k is x's last dimension, unless transposed.
  auto [a, k] = side(0, node.attrs.flag("transpose_x"));
  auto [b, ignored] = side(1, node.attrs.flag("transpose_other"));
  (void)ignored;
  body.a = a;
  body.b = b;
  body.k = k;

  ExprWalker walker(plan_, id, space, true);
  for (ValueId v : group.stored) {
    const Affine& home = plan_.place(v).home;
    body.stores.push_back({v, home, walker.value(v, walker.index_of(v, home))});
  }
  body.epilogue = std::move(walker.exprs);
  for (Expr& expr : body.epilogue)
    if (expr.kind == Expr::Kind::carried) expr.carried = 0;
  number_operands(body.epilogue);
  for (Store& store : body.stores) store.operand = operand(store.operand, Access::write);
  canonicalise(body);
  finish(id, std::move(body));
}

void ProgramBuilder::emit_scatter(int id) {
  const FusionGroup& group = plan_.group(id);
  const ir::Node& node = graph_[group.anchor];
  const std::size_t rank = group.space.size();
  ScatterBody body;
  body.space = group.space;
  body.out_shape = node.type.shape;
  auto dim = static_cast<std::size_t>(node.attrs.integer("dim"));
  const std::vector<std::int64_t> strides = ir::strides_of(body.out_shape);
  body.address = zero_affine(rank);
  for (std::size_t d = 0; d < rank; ++d)
    if (d != dim && group.space[d] > 1) body.address.strides[d] = strides[d];
  body.index_stride = strides[dim];
  body.index_size = body.out_shape[dim];
  ExprWalker walker(plan_, id, group.space, true);
  const TensorIndex index = identity_index(rank);
  body.index = walker.value(node.operands[1], index);
  body.source = walker.value(node.operands[2], index);
  body.exprs = std::move(walker.exprs);
  number_operands(body.exprs);
  if (!plan_.is_zero_fill(node.operands[0]))
    body.base = operand(plan_.root(node.operands[0]), Access::read);
  body.out = operand(group.anchor, Access::write);
  canonicalise(body);
  finish(id, std::move(body));
}

void ProgramBuilder::emit_cat(int id) {
  const ir::Node& node = graph_[plan_.group(id).anchor];
  const auto dim = static_cast<std::size_t>(node.attrs.integer("dim"));
  const std::vector<std::int64_t> strides = ir::strides_of(node.type.shape);
  std::int64_t start = 0;
  for (ValueId part : node.operands) {
    const Shape& space = graph_[part].type.shape;
    Affine address{start * strides[dim], strides};
    start += space[dim];
    if (element_count(space) == 0) continue;
    normalise(address, space);
    LoopBody body;
    body.space = space;
    ExprWalker walker(plan_, id, space, true);
    const ExprId value = walker.value(part, identity_index(space.size()));
    body.exprs = std::move(walker.exprs);
    number_operands(body.exprs);
    body.stores = {{operand(plan_.group(id).anchor, Access::write), address, value}};
    canonicalise(body);
    finish(id, std::move(body));
  }
}

KernelProgram ProgramBuilder::build() {
  for (ValueId v : graph_.inputs()) program_.input_slots.push_back(slot(v));
  for (ValueId v : graph_.parameters()) program_.parameter_slots.push_back(slot(v));
  for (int id : plan_.order()) emit(id);
  for (ValueId v : graph_.outputs) program_.output_slots.push_back(slot(plan_.root(v)));
  return std::move(program_);
}

}  // namespace

KernelProgram build_kernels(const ir::Graph& graph, const FusionOptions& options) {
  const auto stuck = [&graph] {
    return CompileError({.what = "the fused kernels cannot be written down (a bug of riffle's)",
                         .where = "@" + graph.name,
                         .hint = "use the reference back end for this partition"});
  };
  try {
    return ProgramBuilder(graph, options).build();
  } catch (const NeedsRefine&) {  // the plan's own signals, which it should have dealt with
    throw stuck();
  } catch (const NeedsSlot&) {
    throw stuck();
  } catch (const Unfusable&) {
    throw stuck();
  }
}

}  // namespace riffle::codegen
