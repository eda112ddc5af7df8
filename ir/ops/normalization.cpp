// softmax, log_softmax, layer_norm.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

void normalize_dim(std::span<const TensorType> operands, Attrs& attrs) {
  rules::normalize_dim(attrs, "dim", operands[0]);
}

TensorType infer_layer_norm(const TypeQuery& q) {
  const TensorType& x = q.operands[0];
  rules::require_floating(x, "x");
  const Ints& shape = q.attrs.ints("normalized_shape");
  if (shape.empty() || shape.size() > x.shape.size() ||
      !std::equal(shape.rbegin(), shape.rend(), x.shape.rbegin()))
    rules::fail(fmt::format("normalized_shape={} does not fit x {}: expected its last sizes",
                            to_string(shape), to_string(x)));
  constexpr std::string_view names[] = {"weight", "bias"};
  for (std::size_t i = 1; i < q.operands.size(); ++i) {
    rules::require_same_dtype(x, "x", q.operands[i], names[i - 1]);
    if (q.operands[i].shape != shape)
      rules::fail(fmt::format("{} {} does not fit: expected normalized_shape {}", names[i - 1],
                              to_string(q.operands[i]), to_string(shape)));
  }
  return x;
}

}  // namespace

const OpBlock op_softmax = {.infer = rules::floating_unary, .normalize = normalize_dim};
const OpBlock op_log_softmax = {.infer = rules::floating_unary, .normalize = normalize_dim};
const OpBlock op_layer_norm = {.infer = infer_layer_norm};

}  // namespace riffle::ir
