// matmul, batched with broadcasting, and linear over it.
#include <fmt/format.h>

#include "ir/array.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/reference.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"

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

// One matrix product of row-major rows: c += a·b, m×k by k×n.
void multiply(const double* a, const double* b, double* c, std::int64_t m, std::int64_t n,
              std::int64_t k) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p) {
      const double x = a[i * k + p];
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += x * b[p * n + j];
    }
}

// The last two dimensions swapped.
Array transposed(const Array& x) {
  Array out = x;
  const std::size_t rank = x.type.shape.size();
  const std::int64_t rows = x.type.shape[rank - 2], columns = x.type.shape[rank - 1];
  std::swap(out.type.shape[rank - 2], out.type.shape[rank - 1]);
  const std::int64_t size = rows * columns;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.data.size()); ++i) {
    const std::int64_t row = i % size / columns, column = i % columns;
    out.data[static_cast<std::size_t>(i - i % size + column * rows + row)] =
        x.data[static_cast<std::size_t>(i)];
  }
  return out;
}

Array reference_matmul(std::span<const Array> operands, const Attrs& attrs,
                       const TensorType& result) {
  const Array x = attrs.flag("transpose_x") ? transposed(operands[0]) : operands[0];
  const Array y = attrs.flag("transpose_other") ? transposed(operands[1]) : operands[1];
  Array out(result);
  const std::int64_t m = x.type.shape.rbegin()[1], k = x.type.shape.back(), n = y.type.shape.back();
  const auto leading = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  const Shape batch = leading(result.shape);
  double* next = out.data.data();
  rules::for_each(batch,
                  {rules::broadcast_strides(leading(x.type.shape), batch),
                   rules::broadcast_strides(leading(y.type.shape), batch)},
                  [&](std::span<const std::int64_t> at) {
                    multiply(x.data.data() + at[0] * m * k, y.data.data() + at[1] * k * n, next, m,
                             n, k);
                    next += m * n;
                  });
  return out;
}

// Product of the sizes but the last `kept`.
std::int64_t rows_of(const Shape& shape, std::size_t kept) {
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + kept < shape.size(); ++d) rows *= shape[d];
  return rows;
}

// All leading dimensions folded into one: [..., n] → [rows, n].
Value as_matrix(Builder& b, Value x) {
  const Shape shape = b.type(x).shape;
  return b.reshape(x, {rows_of(shape, 1), shape.back()});
}

// C = A·B with A = x or xᵀ, B = other or otherᵀ: dA = dC·Bᵀ, dB = Aᵀ·dC, transposed back where the
// operand was. An operand that was broadcast sums over the batch in compute_dtype.
std::vector<Value> matmul_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  const bool tx = q.attrs.flag("transpose_x"), to = q.attrs.flag("transpose_other");
  Value x = q.operands[0], other = q.operands[1], dc = q.cotangent;
  const auto leading = [&b](Value v) {
    const Shape& shape = b.type(v).shape;
    return Shape(shape.begin(), shape.end() - 2);
  };
  const Shape batch = leading(q.result);
  if (q.wanted[0]) {
    const bool broadcast = leading(x) != batch;
    const Value y = broadcast ? rules::wide(b, other) : other;
    const Value d = broadcast ? rules::wide(b, dc) : dc;
    gradients[0] =
        rules::gradient_of(b, tx ? b.matmul(y, d, to, true) : b.matmul(d, y, false, !to), x);
  }
  if (q.wanted[1]) {
    Value a = x, d = dc;
    const Shape own = leading(other);
    if (own != batch && !tx && rows_of(own, 0) == 1 && leading(x) == batch) {
      // One matrix for the whole batch: the sum over the batch is part of the product's own.
      a = as_matrix(b, x);
      d = as_matrix(b, dc);
    } else if (own != batch) {
      a = rules::wide(b, x);
      d = rules::wide(b, dc);
    }
    Value gradient = to ? b.matmul(d, a, true, tx) : b.matmul(a, d, !tx, false);
    if (b.type(gradient).shape.size() < b.type(other).shape.size()) {
      const Shape shape = b.type(other).shape;
      gradient = b.reshape(gradient, shape);
    }
    gradients[1] = rules::gradient_of(b, gradient, other);
  }
  return gradients;
}

std::vector<Sample> matmul_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Shape& other, bool tx = false, bool to = false) {
    samples.push_back({.operands = {rules::t(x), rules::t(other)},
                       .attrs = {{"transpose_x", tx}, {"transpose_other", to}}});
  };
  add({1, 1}, {1, 1});
  add({3, 5}, {5, 4});
  add({67, 130}, {130, 33});
  add({130, 67}, {130, 33}, true, false);
  add({67, 130}, {33, 130}, false, true);
  add({19, 6}, {13, 19}, true, true);
  add({1, 130}, {130, 1});
  add({2, 3, 4, 5}, {2, 3, 5, 6});
  add({2, 3, 4, 5}, {5, 7});
  add({2, 3, 4, 5}, {1, 7, 5}, false, true);
  add({4, 5}, {3, 5, 2});
  add({2, 1, 5, 4}, {3, 5, 6}, true, false);
  add({0, 3}, {3, 4});
  add({3, 0}, {0, 4});
  add({0, 3, 4}, {4, 2});
  return samples + rules::with_dtype(samples, DType::i64) +
         rules::with_dtype({samples[1], samples[2]}, DType::i32);
}

// linear: x·weightᵀ + bias on the folded rows, added before the one rounding.
Value decompose_linear(Builder& b, std::span<const Value> a, const Attrs&) {
  const TensorType type = b.type(a[0]);
  Value x = as_matrix(b, a[0]), weight = a[1];
  Value y;
  if (a.size() > 2) {
    const Value wide_weight = rules::wide(b, weight);
    y = b.matmul(rules::wide(b, x), wide_weight, false, true);
    y = b.cast(b.add(y, rules::wide(b, a[2])), type.dtype);
  } else {
    y = b.matmul(x, weight, false, true);
  }
  Shape shape = type.shape;
  shape.back() = b.type(weight).shape[0];
  return b.reshape(y, shape);
}

std::vector<Value> linear_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(q.operands.size());
  const Value dy = as_matrix(b, q.cotangent);
  if (q.wanted[0]) {
    const Shape shape = b.type(q.operands[0]).shape;
    gradients[0] = b.reshape(b.matmul(dy, q.operands[1]), shape);
  }
  if (q.wanted[1]) gradients[1] = b.matmul(dy, as_matrix(b, q.operands[0]), true, false);
  if (q.operands.size() > 2 && q.wanted[2]) gradients[2] = b.sum(dy, {0});
  return gradients;
}

std::vector<Sample> linear_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, std::int64_t out) {
    const std::int64_t in = x.back();
    samples.push_back({.operands = {rules::t(x), rules::t({out, in})}});
    samples.push_back({.operands = {rules::t(x), rules::t({out, in}), rules::t({out})}});
  };
  add({5}, 3);
  add({8, 32}, 32);
  add({67, 130}, 33);
  add({2, 3, 5}, 7);
  add({1, 67}, 1);
  add({0, 4}, 3);
  add({3, 0}, 4);
  return samples;
}

}  // namespace

const OpBlock op_matmul = {.infer = infer_matmul,
                           .reference_array = reference_matmul,
                           .vjp = matmul_vjp,
                           .samples = matmul_samples};
const OpBlock op_linear = {.infer = infer_linear,
                           .decompose = decompose_linear,
                           .vjp = linear_vjp,
                           .samples = linear_samples};

}  // namespace riffle::ir
