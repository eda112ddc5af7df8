// Elementwise arithmetic, unary and binary.
#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {
TensorType infer_to(const TypeQuery& q) { return {q.attrs.dtype("dtype"), q.operands[0].shape}; }
}  // namespace

const OpBlock op_neg = {.infer = rules::numeric_unary};
const OpBlock op_abs = {.infer = rules::numeric_unary};
const OpBlock op_sign = {.infer = rules::numeric_unary};
const OpBlock op_exp = {.infer = rules::floating_unary};
const OpBlock op_log = {.infer = rules::floating_unary};
const OpBlock op_sqrt = {.infer = rules::floating_unary};
const OpBlock op_rsqrt = {.infer = rules::floating_unary};
const OpBlock op_reciprocal = {.infer = rules::floating_unary};
const OpBlock op_sin = {.infer = rules::floating_unary};
const OpBlock op_cos = {.infer = rules::floating_unary};
const OpBlock op_tanh = {.infer = rules::floating_unary};
const OpBlock op_erf = {.infer = rules::floating_unary};
const OpBlock op_floor = {.infer = rules::floating_unary};
const OpBlock op_logical_not = {.infer = rules::boolean_unary};
const OpBlock op_to = {.infer = infer_to};

const OpBlock op_add = {.infer = rules::numeric_binary};
const OpBlock op_sub = {.infer = rules::numeric_binary};
const OpBlock op_mul = {.infer = rules::numeric_binary};
const OpBlock op_div = {.infer = rules::numeric_binary};
const OpBlock op_maximum = {.infer = rules::numeric_binary};
const OpBlock op_minimum = {.infer = rules::numeric_binary};
const OpBlock op_pow = {.infer = rules::floating_binary};

}  // namespace riffle::ir
