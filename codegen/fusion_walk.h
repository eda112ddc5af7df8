// ExprWalker: writes the expressions that compute a value at an index, walking from the value to
// memory, constants and the results of its own group.
//
// While planning, what its group computes at home already is not walked again; only the emitted
// code has to compute it. Operands and carried values are left as ValueIds; the kernel builder
// numbers them.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "codegen/fusion_plan.h"

namespace riffle::codegen {

/// Why a walk stopped. Thrown inside codegen only; the plan tries something else.
struct Unfusable {};
struct NeedsRefine {
  Refine refine;
};
/// The (free) value cannot be computed at that index: give it memory.
struct NeedsSlot {
  ir::ValueId value;
};

class ExprWalker {
 public:
  /// `emitting`: the plan is complete; values are read from where it put them.
  ExprWalker(const FusionPlan& plan, int group, Shape extents, bool emitting);

  /// `v` at `index`, from wherever it is.
  ExprId value(ir::ValueId v, const TensorIndex& index);
  /// `v` at `index`, computed here even if it is stored.
  ExprId define(ir::ValueId v, const TensorIndex& index);
  TensorIndex index_of(ir::ValueId v, const Affine& element) const;

  std::vector<Expr> exprs;
  std::set<ir::ValueId> leaves;   ///< read from memory
  std::set<ir::ValueId> exports;  ///< of these, members of other groups that are not stored yet
  std::set<ir::ValueId> carried;  ///< anchors of the own group
  bool touched = false;           ///< met a member of the own group at home
  bool touched_unstored = false;
  std::size_t weight = 0;  ///< of the ops written: op_weight

 private:
  ExprId load(ir::ValueId root, const IndexTerm& element);
  ExprId constant(DType dtype, double value);
  ExprId index_value(const IndexTerm& term, DType dtype);
  ExprId op(ir::Op op, DType dtype, std::vector<ExprId> arguments, ir::Attrs attrs = {});
  ExprId push(Expr expr);
  ExprId pad(ir::ValueId v, const TensorIndex& index);
  ExprId gather(ir::ValueId v, const TensorIndex& index);
  ExprId condition(const std::vector<Guard>& guards);
  [[noreturn]] void give_up(ir::ValueId v) const;
  bool recomputable(ir::ValueId root) const;

  const FusionPlan& plan_;
  const ir::Graph& graph_;
  int group_;
  Shape extents_;
  bool emitting_;
  std::vector<Guard> guards_;  ///< hold for every load below
  double fill_ = 0;
  std::map<std::vector<std::int64_t>, ExprId> memo_;
};

/// Index of operand number `operand` of an elementwise op, permute, expand or slice.
TensorIndex operand_index(const ir::Graph& graph, ir::ValueId v, std::size_t operand,
                          const TensorIndex& index, std::size_t rank);

}  // namespace riffle::codegen
