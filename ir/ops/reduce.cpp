// Reductions: sum, amax, amin, prod, argmax; and the composite mean.
//
// The result has x's dtype (sums of integers wrap in it). Over no elements: 0 for sum, 1 for prod,
// -inf / +inf or the integer's limits for amax / amin, NaN for mean; argmax needs an element.
// amax and amin propagate NaN; of -0 and +0 amax gives +0 and amin -0. argmax gives the first of
// equal maxima, and takes NaN for the largest.
#include <fmt/format.h>
#include <numeric>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

// dim=[] means all dimensions; stored written out, sorted.
void normalize_dims(std::span<const TensorType> operands, Attrs& attrs) {
  Ints dims = attrs.ints("dim");
  if (dims.empty()) {
    dims.resize(operands[0].shape.size());
    std::iota(dims.begin(), dims.end(), 0);
  }
  attrs.set("dim", rules::sorted_dims(dims, operands[0]));
}

TensorType infer_reduce(const TypeQuery& q) {
  rules::require_numeric(q.operands[0], "x");
  return {q.operands[0].dtype,
          rules::reduced_shape(q.operands[0].shape, q.attrs.ints("dim"), q.attrs.flag("keepdim"))};
}

TensorType infer_mean(const TypeQuery& q) {
  rules::require_floating(q.operands[0], "x");
  return infer_reduce(q);
}

void normalize_argmax(std::span<const TensorType> operands, Attrs& attrs) {
  rules::normalize_dim(attrs, "dim", operands[0]);
}

TensorType infer_argmax(const TypeQuery& q) {
  const TensorType& x = q.operands[0];
  rules::require_numeric(x, "x");
  const std::int64_t dim = q.attrs.integer("dim");
  if (x.shape[static_cast<std::size_t>(dim)] == 0)
    rules::fail(fmt::format("{} has no elements along dim {}", to_string(x), dim));
  return {DType::i64, rules::reduced_shape(x.shape, {dim}, q.attrs.flag("keepdim"))};
}

}  // namespace

const OpBlock op_sum = {.infer = infer_reduce, .normalize = normalize_dims};
const OpBlock op_amax = {.infer = infer_reduce, .normalize = normalize_dims};
const OpBlock op_amin = {.infer = infer_reduce, .normalize = normalize_dims};
const OpBlock op_prod = {.infer = infer_reduce, .normalize = normalize_dims};
const OpBlock op_argmax = {.infer = infer_argmax, .normalize = normalize_argmax};
const OpBlock op_mean = {.infer = infer_mean, .normalize = normalize_dims};

}  // namespace riffle::ir
