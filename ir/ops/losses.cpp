// Losses: cross_entropy and nll_loss on class indices, mse_loss.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

void require_reduction(const Attrs& attrs) {
  rules::require_word(attrs, "reduction", {"mean", "sum", "none"});
}

// x [N, C, d…] with target [N, d…], or x [C] with a scalar target.
TensorType infer_class_loss(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &target = q.operands[1];
  require_reduction(q.attrs);
  rules::require_floating(x, "x");
  rules::require_index(target, "target");
  if (x.rank() < 1)
    rules::fail(
        fmt::format("x {} does not fit: expected [N, C], [N, C, ...] or [C]", to_string(x)));
  Shape expected = x.shape;
  expected.erase(expected.begin() + (x.rank() == 1 ? 0 : 1));
  if (target.shape != expected)
    rules::fail(fmt::format("target {} does not fit x {}: expected {}", to_string(target),
                            to_string(x), to_string(expected)));
  return {x.dtype, q.attrs.text("reduction") == "none" ? target.shape : Shape{}};
}

TensorType infer_mse_loss(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &target = q.operands[1];
  require_reduction(q.attrs);
  rules::require_floating(x, "x");
  rules::require_same_dtype(x, "x", target, "target");
  if (x.shape != target.shape)
    rules::fail(fmt::format("target {} does not fit x {}: expected equal shapes", to_string(target),
                            to_string(x)),
                "reshape or expand one of them");
  return {x.dtype, q.attrs.text("reduction") == "none" ? x.shape : Shape{}};
}

}  // namespace

const OpBlock op_cross_entropy = {.infer = infer_class_loss};
const OpBlock op_nll_loss = {.infer = infer_class_loss};
const OpBlock op_mse_loss = {.infer = infer_mse_loss};

}  // namespace riffle::ir
