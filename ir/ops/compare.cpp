// Comparisons, logic and selection.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

TensorType infer_where(const TypeQuery& q) {
  rules::require_boolean(q.operands[0], "condition");
  rules::require_same_dtype(q.operands[1], "x", q.operands[2], "other");
  return {q.operands[1].dtype, rules::broadcast_operands(q.operands)};
}

}  // namespace

const OpBlock op_eq = {.infer = rules::any_compare};
const OpBlock op_ne = {.infer = rules::any_compare};
const OpBlock op_lt = {.infer = rules::numeric_compare};
const OpBlock op_le = {.infer = rules::numeric_compare};
const OpBlock op_gt = {.infer = rules::numeric_compare};
const OpBlock op_ge = {.infer = rules::numeric_compare};
const OpBlock op_logical_and = {.infer = rules::boolean_binary};
const OpBlock op_logical_or = {.infer = rules::boolean_binary};
const OpBlock op_where_ = {.infer = infer_where};

}  // namespace riffle::ir
