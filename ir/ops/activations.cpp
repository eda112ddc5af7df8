// relu, gelu, silu, sigmoid: composites over elementwise primitives.
#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

TensorType infer_gelu(const TypeQuery& q) {
  rules::require_word(q.attrs, "approximate", {"none", "tanh"});
  return rules::floating_unary(q);
}

}  // namespace

const OpBlock op_relu = {.infer = rules::numeric_unary};
const OpBlock op_gelu = {.infer = infer_gelu};
const OpBlock op_silu = {.infer = rules::floating_unary};
const OpBlock op_sigmoid = {.infer = rules::floating_unary};

}  // namespace riffle::ir
