// matmul, batched with broadcasting, and linear over it.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

TensorType infer_matmul(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &other = q.operands[1];
  rules::require_numeric(x, "x");
  rules::require_same_dtype(x, "x", other, "other");
  if (x.rank() < 2 || other.rank() < 2)
    rules::fail(fmt::format("x {} and other {} do not fit: expected at least 2 dimensions each",
                            to_string(x), to_string(other)),
                "reshape a vector to a matrix");
  const bool transpose_x = q.attrs.flag("transpose_x"),
             transpose_other = q.attrs.flag("transpose_other");
  Shape a(x.shape.end() - 2, x.shape.end()), b(other.shape.end() - 2, other.shape.end());
  if (transpose_x) std::swap(a[0], a[1]);
  if (transpose_other) std::swap(b[0], b[1]);
  if (a[1] != b[0])
    rules::fail(fmt::format(
        "other {}{} does not fit x {}{}: expected {}", to_string(other),
        transpose_other ? " transposed" : "", to_string(x), transpose_x ? " transposed" : "",
        transpose_other ? fmt::format("[..., n, {}]", a[1]) : fmt::format("[..., {}, n]", a[1])));
  auto shape = rules::broadcast(Shape(x.shape.begin(), x.shape.end() - 2),
                                Shape(other.shape.begin(), other.shape.end() - 2));
  if (!shape)
    rules::fail(fmt::format("the leading dimensions of x {} and other {} do not broadcast",
                            to_string(x), to_string(other)));
  shape->push_back(a[0]);
  shape->push_back(b[1]);
  return {x.dtype, *shape};
}

TensorType infer_linear(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &weight = q.operands[1];
  rules::require_floating(x, "x");
  rules::require_same_dtype(x, "x", weight, "weight");
  if (x.rank() < 1) rules::fail(fmt::format("x {} does not fit: expected [..., in]", to_string(x)));
  if (weight.rank() != 2 || weight.shape[1] != x.shape.back())
    rules::fail(fmt::format("weight {} does not fit x {}: expected [out, {}]", to_string(weight),
                            to_string(x), x.shape.back()));
  if (q.operands.size() > 2) {
    const TensorType& bias = q.operands[2];
    rules::require_same_dtype(x, "x", bias, "bias");
    if (bias.shape != Shape{weight.shape[0]})
      rules::fail(fmt::format("bias {} does not fit weight {}: expected [{}]", to_string(bias),
                              to_string(weight), weight.shape[0]));
  }
  TensorType result = x;
  result.shape.back() = weight.shape[0];
  return result;
}

}  // namespace

const OpBlock op_matmul = {.infer = infer_matmul};
const OpBlock op_linear = {.infer = infer_linear};

}  // namespace riffle::ir
