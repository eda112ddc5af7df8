// What the two ways of cutting a RowBody for a GPU share (row.cpp, row_block.cpp).
#pragma once

#include <functional>
#include <vector>

#include "codegen/emit/loops.h"
#include "codegen/emit/reduction.h"
#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {

/// A RowBody with its dimensions merged; at least one inner dimension.
struct RowProblem {
  RowBody body;
  std::int64_t rows = 0, length = 0;  ///< points of outer and of inner

  std::vector<const std::vector<Expr>*> exprs() const;  ///< of the stages
  std::vector<const std::vector<Store>*> stores() const;
};

std::vector<Reducer> reducers(EmitContext& context, const RowBody::Stage& stage);

/// The accumulators of each reduction.
using RowState = std::vector<std::vector<Accumulated>>;
RowState start_state(const std::vector<Reducer>& reduce, int slots, int width);
/// As a list of values, for loops, and back.
Values flat(const std::vector<Reducer>& reduce, const RowState& state);
RowState grouped(const std::vector<Reducer>& reduce, std::span<llvm::Value* const> list, int slots);
/// if (condition) body(), which may change the state.
void when(EmitContext& context, llvm::Value* condition, const std::vector<Reducer>& reduce,
          RowState& state, int slots, const std::function<void()>& body);

/// What a vector of an unrolled row loaded in an earlier stage: the same loads need not be done
/// again. (LLVM would think that a store of the later stage may have changed them.)
class KeptLoads {
 public:
  ExprChoice choice(const std::vector<Expr>& exprs) const;
  void keep(const std::vector<Expr>& exprs, const Values& values);

 private:
  std::vector<std::pair<const Expr*, llvm::Value*>> loads_;
};

/// True when `elements` of a row, for each thread, may be unrolled: kept in registers, in code that
/// the instruction cache holds, with few branches.
bool may_unroll(const RowProblem& row, std::int64_t elements);

/// One block a row, or one block some neighbouring columns, whose threads evaluate elements side by
/// side and hand them to the folding threads through shared memory.
/// Whether it beats a team of `team` threads a row, or `threads` threads with a vector of columns
/// each.
bool block_suits_lanes(const RowProblem& row, std::int64_t team);
bool block_suits_columns(const RowProblem& row, std::int64_t threads);
GridShape emit_row_block(NvptxContext& context, const RowProblem& row);

}  // namespace riffle::codegen
