#include "codegen/nvptx/row_parts.h"

#include <algorithm>

namespace riffle::codegen {
namespace {

/// A row is unrolled up to so many 4-byte registers for each thread and load …
constexpr std::int64_t kRegistersKept = 64;
/// … so many expressions in all: code beyond leaves the instruction cache …
constexpr std::int64_t kUnrolledExprs = 3000;
/// … and so many indices to be checked, each of them a branch.
constexpr std::int64_t kUnrolledChecks = 8;

bool same_load(const Expr& a, const Expr& b) {
  return a.kind == Expr::Kind::load && b.kind == Expr::Kind::load && a.operand == b.operand &&
         a.dtype == b.dtype && a.address == b.address && a.indirect.empty() && b.indirect.empty() &&
         a.guards.empty() && b.guards.empty();
}

}  // namespace

std::vector<const std::vector<Expr>*> RowProblem::exprs() const {
  std::vector<const std::vector<Expr>*> list;
  for (const RowBody::Stage& stage : body.stages) list.push_back(&stage.exprs);
  return list;
}

std::vector<const std::vector<Store>*> RowProblem::stores() const {
  std::vector<const std::vector<Store>*> list;
  for (const RowBody::Stage& stage : body.stages) list.push_back(&stage.stores);
  return list;
}

std::vector<Reducer> reducers(EmitContext& context, const RowBody::Stage& stage) {
  std::vector<Reducer> list;
  for (const RowBody::Reduction& reduction : stage.reductions)
    list.emplace_back(context, reduction);
  return list;
}

RowState start_state(const std::vector<Reducer>& reduce, int slots, int width) {
  RowState state;
  for (const Reducer& reducer : reduce)
    state.emplace_back(static_cast<std::size_t>(slots), reducer.start(width));
  return state;
}

Values flat(const std::vector<Reducer>& reduce, const RowState& state) {
  Values list;
  for (std::size_t r = 0; r < reduce.size(); ++r)
    for (const Accumulated& a : state[r]) {
      list.push_back(a.value);
      if (reduce[r].keeps_index()) list.push_back(a.index);
    }
  return list;
}

RowState grouped(const std::vector<Reducer>& reduce, std::span<llvm::Value* const> list,
                 int slots) {
  RowState state(reduce.size());
  std::size_t next = 0;
  for (std::size_t r = 0; r < reduce.size(); ++r)
    for (int s = 0; s < slots; ++s) {
      Accumulated a{.value = list[next++]};
      if (reduce[r].keeps_index()) a.index = list[next++];
      state[r].push_back(a);
    }
  return state;
}

void when(EmitContext& context, llvm::Value* condition, const std::vector<Reducer>& reduce,
          RowState& state, int slots, const std::function<void()>& body) {
  llvm::IRBuilder<>& ir = context.ir;
  const Values before = flat(reduce, state);
  llvm::BasicBlock* from = ir.GetInsertBlock();
  Values inside;
  llvm::BasicBlock* end = nullptr;
  emit_if(context, condition, [&] {
    body();
    inside = flat(reduce, state);
    end = ir.GetInsertBlock();
  });
  Values joined;
  for (std::size_t k = 0; k < before.size(); ++k) {
    llvm::PHINode* phi = ir.CreatePHI(before[k]->getType(), 2);
    phi->addIncoming(before[k], from);
    phi->addIncoming(inside[k], end);
    joined.push_back(phi);
  }
  state = grouped(reduce, joined, slots);
}

ExprChoice KeptLoads::choice(const std::vector<Expr>& exprs) const {
  ExprChoice choice;
  choice.known.resize(exprs.size());
  for (std::size_t e = 0; e < exprs.size(); ++e)
    for (const auto& [expr, value] : loads_)
      if (same_load(exprs[e], *expr)) choice.known[e] = value;
  return choice;
}

void KeptLoads::keep(const std::vector<Expr>& exprs, const Values& values) {
  for (std::size_t e = 0; e < exprs.size(); ++e)
    if (exprs[e].kind == Expr::Kind::load) loads_.emplace_back(&exprs[e], values[e]);
}

bool may_unroll(const RowProblem& row, std::int64_t elements) {
  std::int64_t exprs = 0, words = 1, checks = 0;
  for (const std::vector<Expr>* list : row.exprs()) {
    exprs += static_cast<std::int64_t>(list->size());
    for (const Expr& expr : *list) {
      checks += static_cast<std::int64_t>(expr.indirect.size());
      if (expr.kind == Expr::Kind::load)
        words = std::max(words, size_of(compute_dtype(expr.dtype)) / 4);
    }
  }
  return elements * words <= kRegistersKept && elements * exprs <= kUnrolledExprs &&
         elements * checks <= kUnrolledChecks;
}

}  // namespace riffle::codegen
