// gather and scatter_add, as PyTorch's; and embedding over gather.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

void normalize_dim(std::span<const TensorType> operands, Attrs& attrs) {
  rules::normalize_dim(attrs, "dim", operands[0]);
}

// index may be smaller than x, except along dim, where it may have any size.
void require_index_fits(const TensorType& index, const TensorType& x, std::int64_t dim) {
  rules::require_index(index, "index");
  bool fits = index.rank() == x.rank();
  for (std::int64_t d = 0; fits && d < x.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    fits = d == dim || index.shape[i] <= x.shape[i];
  }
  if (!fits)
    rules::fail(
        fmt::format("index {} does not fit x {}: expected as many dimensions, none but "
                    "dim {} larger than x's",
                    to_string(index), to_string(x), dim));
}

TensorType infer_gather(const TypeQuery& q) {
  require_index_fits(q.operands[1], q.operands[0], q.attrs.integer("dim"));
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType infer_scatter_add(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &index = q.operands[1], &src = q.operands[2];
  rules::require_numeric(x, "x");
  require_index_fits(index, x, q.attrs.integer("dim"));
  rules::require_same_dtype(x, "x", src, "src");
  bool fits = src.rank() == index.rank();
  for (std::size_t d = 0; fits && d < src.shape.size(); ++d) fits = index.shape[d] <= src.shape[d];
  if (!fits)
    rules::fail(fmt::format("src {} does not fit index {}: expected at least its sizes",
                            to_string(src), to_string(index)));
  return x;
}

TensorType infer_embedding(const TypeQuery& q) {
  const TensorType &input = q.operands[0], &weight = q.operands[1];
  rules::require_index(input, "input");
  if (weight.rank() != 2)
    rules::fail(
        fmt::format("weight {} does not fit: expected [rows, features]", to_string(weight)));
  TensorType result = {weight.dtype, input.shape};
  result.shape.push_back(weight.shape[1]);
  return result;
}

}  // namespace

const OpBlock op_gather = {.infer = infer_gather, .normalize = normalize_dim};
const OpBlock op_scatter_add = {.infer = infer_scatter_add, .normalize = normalize_dim};
const OpBlock op_embedding = {.infer = infer_embedding};

}  // namespace riffle::ir
