// gather and scatter_add, as PyTorch's; and embedding over gather.
#include <fmt/format.h>

#include "ir/array.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/reference.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"

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

// No index into nothing is in range.
void require_something_to_index(const TensorType& index, std::int64_t size, std::string_view what) {
  if (size == 0 && index.elements() > 0)
    rules::fail(
        fmt::format("index {} picks from {}, of which there are 0", to_string(index), what));
}

TensorType infer_gather(const TypeQuery& q) {
  const auto dim = static_cast<std::size_t>(q.attrs.integer("dim"));
  require_index_fits(q.operands[1], q.operands[0], q.attrs.integer("dim"));
  require_something_to_index(q.operands[1], q.operands[0].shape[dim], "x's elements along dim");
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType infer_scatter_add(const TypeQuery& q) {
  const TensorType &x = q.operands[0], &index = q.operands[1], &src = q.operands[2];
  rules::require_numeric(x, "x");
  require_index_fits(index, x, q.attrs.integer("dim"));
  require_something_to_index(index, x.shape[static_cast<std::size_t>(q.attrs.integer("dim"))],
                             "x's elements along dim");
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
  require_something_to_index(input, weight.shape[0], "weight's rows");
  TensorType result = {weight.dtype, input.shape};
  result.shape.push_back(weight.shape[1]);
  return result;
}

// The offset along dim, of `size` elements `stride` apart, that an element of the index names.
std::int64_t offset_along(double index, std::int64_t size, std::int64_t stride) {
  if (!(index >= 0 && index < static_cast<double>(size)))
    rules::fail(fmt::format("index {} is outside 0 to {}", index, size - 1));
  return static_cast<std::int64_t>(index) * stride;
}

// Strides of the tensor, with that of dim taken out: what an index adds to.
std::vector<std::int64_t> strides_without(const Shape& shape, std::size_t dim) {
  std::vector<std::int64_t> strides = strides_of(shape);
  strides[dim] = 0;
  return strides;
}

Array reference_gather(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  Array out(result);
  const auto dim = static_cast<std::size_t>(attrs.integer("dim"));
  const Shape& shape = a[0].type.shape;
  const std::int64_t size = shape[dim], stride = strides_of(shape)[dim];
  std::size_t i = 0;
  rules::for_each(result.shape, {strides_without(shape, dim)},
                  [&](std::span<const std::int64_t> at) {
                    const std::int64_t from = at[0] + offset_along(a[1].data[i], size, stride);
                    out.data[i++] = a[0].data[static_cast<std::size_t>(from)];
                  });
  return out;
}

Array reference_scatter_add(std::span<const Array> a, const Attrs& attrs,
                            const TensorType& result) {
  Array out = a[0];
  const Array &index = a[1], &src = a[2];
  const auto dim = static_cast<std::size_t>(attrs.integer("dim"));
  const std::int64_t size = result.shape[dim], stride = strides_of(result.shape)[dim];
  // src may be larger than index: only its leading corner takes part.
  std::size_t i = 0;
  rules::for_each(
      index.type.shape, {strides_without(result.shape, dim), strides_of(src.type.shape)},
      [&](std::span<const std::int64_t> at) {
        const std::int64_t to = at[0] + offset_along(index.data[i++], size, stride);
        out.data[static_cast<std::size_t>(to)] += src.data[static_cast<std::size_t>(at[1])];
      });
  return out;
}

// Rows may repeat: their contributions add up in compute_dtype and round once.
std::vector<Value> gather_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  if (!q.wanted[0]) return gradients;
  const TensorType type = b.type(q.operands[0]);
  const Value zeros = b.full(type.shape, 0, compute_dtype(type.dtype));
  const Value dx = b.append(Op::scatter_add, {zeros, q.operands[1], rules::wide(b, q.cotangent)},
                            {{"dim", q.attrs.integer("dim")}});
  gradients[0] = b.cast(dx, type.dtype);
  return gradients;
}

std::vector<Value> scatter_add_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(3);
  if (q.wanted[0]) gradients[0] = q.cotangent;
  if (q.wanted[2]) {
    Value dsrc =
        b.append(Op::gather, {q.cotangent, q.operands[1]}, {{"dim", q.attrs.integer("dim")}});
    const Shape from = b.type(dsrc).shape, to = b.type(q.operands[2]).shape;
    if (from != to) {
      Ints high(to.size());
      for (std::size_t d = 0; d < to.size(); ++d) high[d] = to[d] - from[d];
      dsrc = b.append(Op::pad, {dsrc}, {{"low", Ints(to.size(), 0)}, {"high", high}});
    }
    gradients[2] = dsrc;
  }
  return gradients;
}

// embedding: rows of weight; the index of a row is repeated along its features.
Value row_index(Builder& b, Value input, std::int64_t features) {
  const std::int64_t count = b.type(input).elements();
  return b.expand(b.reshape(input, {count, 1}), {count, features});
}

Value decompose_embedding(Builder& b, std::span<const Value> a, const Attrs&) {
  Shape shape = b.type(a[0]).shape;
  const std::int64_t features = b.type(a[1]).shape[1];
  shape.push_back(features);
  const Value rows =
      b.append(Op::gather, {a[1], row_index(b, a[0], features)}, {{"dim", std::int64_t{0}}});
  return b.reshape(rows, shape);
}

std::vector<Value> embedding_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(2);
  if (!q.wanted[1]) return gradients;
  const TensorType weight = b.type(q.operands[1]);
  const Value index = row_index(b, q.operands[0], weight.shape[1]);
  const Shape rows = b.type(index).shape;
  const Value dy = rules::wide(b, b.reshape(q.cotangent, rows));
  const Value zeros = b.full(weight.shape, 0, compute_dtype(weight.dtype));
  const Value dw = b.append(Op::scatter_add, {zeros, index, dy}, {{"dim", std::int64_t{0}}});
  gradients[1] = b.cast(dw, weight.dtype);
  return gradients;
}

using rules::t;

std::vector<Sample> gather_samples() {
  std::vector<Sample> samples;
  for (DType index : {DType::i64, DType::i32}) {
    const auto add = [&](const Shape& x, std::int64_t dim, const Shape& shape) {
      samples.push_back({.operands = {t(x), {index, shape}},
                         .attrs = {{"dim", dim}},
                         .index_limit = x[static_cast<std::size_t>(dim)]});
    };
    add({67}, 0, {130});
    add({5, 67}, 1, {5, 3});
    add({67, 5}, 0, {40, 5});
    add({3, 4, 70}, 1, {2, 9, 67});
    add({4, 3}, 0, {0, 3});
    add({4, 3}, 1, {4, 0});
  }
  return samples;
}

std::vector<Sample> scatter_add_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, std::int64_t dim, const Shape& index, const Shape& src) {
    samples.push_back({.operands = {t(x), rules::i64(index), t(src)},
                       .attrs = {{"dim", dim}},
                       .index_limit = x[static_cast<std::size_t>(dim)]});
  };
  add({67}, 0, {130}, {130});
  add({7}, 0, {67}, {70});
  add({5, 67}, 1, {5, 3}, {5, 3});
  add({6, 5}, 0, {40, 5}, {40, 5});
  add({3, 4, 70}, 1, {2, 9, 67}, {3, 9, 70});
  add({4, 3}, 0, {0, 3}, {0, 3});
  return samples;
}

std::vector<Sample> embedding_samples() {
  std::vector<Sample> samples;
  const auto add = [&](TensorType input, const Shape& weight) {
    samples.push_back({.operands = {input, t(weight)}, .index_limit = weight[0]});
  };
  add(rules::i64({}), {5, 3});
  add(rules::i64({67}), {10, 33});
  add(rules::i32({4, 9}), {130, 67});
  add(rules::i64({0}), {5, 3});
  add(rules::i64({2, 3}), {1, 1});
  return samples;
}

}  // namespace

const OpBlock op_gather = {.infer = infer_gather,
                           .normalize = normalize_dim,
                           .reference_array = reference_gather,
                           .vjp = gather_vjp,
                           .samples = gather_samples};
const OpBlock op_scatter_add = {.infer = infer_scatter_add,
                                .normalize = normalize_dim,
                                .reference_array = reference_scatter_add,
                                .vjp = scatter_add_vjp,
                                .samples = scatter_add_samples};
const OpBlock op_embedding = {.infer = infer_embedding,
                              .decompose = decompose_embedding,
                              .vjp = embedding_vjp,
                              .samples = embedding_samples};

}  // namespace riffle::ir
