// Reductions: sum, amax, amin, prod, argmax; and the composite mean.
//
// The result has x's dtype (sums of integers wrap in it). Over no elements: 0 for sum, 1 for prod,
// -inf / +inf or the integer's limits for amax / amin, NaN for mean; argmax needs an element.
// amax and amin propagate NaN; of -0 and +0 amax gives +0 and amin -0. argmax gives the first of
// equal maxima, and takes NaN for the largest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "ir/array.h"
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/reference.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"

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

// Reference.

// combine(accumulator, element) in row-major order from `start`.
template <class Combine>
Array fold(const Array& x, const Ints& dims, const TensorType& result, double start,
           Combine&& combine) {
  Array out(result);
  std::fill(out.data.begin(), out.data.end(), start);
  const Shape kept = rules::reduced_shape(x.type.shape, dims, true);
  const std::vector<std::int64_t> strides = rules::broadcast_strides(kept, x.type.shape);
  std::size_t next = 0;
  rules::for_each(x.type.shape, {strides}, [&](std::span<const std::int64_t> at) {
    double& accumulator = out.data[static_cast<std::size_t>(at[0])];
    accumulator = combine(accumulator, x.data[next++]);
  });
  return out;
}

// What amax gives over nothing; amin gives its negative, or the largest integer.
double lowest(DType dtype) {
  if (dtype == DType::i64) return -0x1p63;
  if (dtype == DType::i32) return -0x1p31;
  return -std::numeric_limits<double>::infinity();
}
double highest(DType dtype) { return dtype == DType::i32 ? 0x1p31 - 1 : -lowest(dtype); }

Array reference_sum(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  return fold(a[0], attrs.ints("dim"), result, 0, [](double s, double x) { return s + x; });
}
Array reference_prod(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  return fold(a[0], attrs.ints("dim"), result, 1, [](double s, double x) { return s * x; });
}
Array reference_amax(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  return fold(a[0], attrs.ints("dim"), result, lowest(result.dtype), rules::larger);
}
Array reference_amin(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  return fold(a[0], attrs.ints("dim"), result, highest(result.dtype), rules::smaller);
}

Array reference_argmax(std::span<const Array> a, const Attrs& attrs, const TensorType& result) {
  const Array& x = a[0];
  const auto dim = static_cast<std::size_t>(attrs.integer("dim"));
  const std::int64_t stride = strides_of(x.type.shape)[dim], size = x.type.shape[dim];
  std::vector<std::int64_t> strides = strides_of(x.type.shape);
  Shape outer = x.type.shape;
  outer[dim] = 1;
  Array out(result);
  std::size_t next = 0;
  rules::for_each(outer, {strides}, [&](std::span<const std::int64_t> at) {
    const auto element = [&](std::int64_t i) {
      return x.data[static_cast<std::size_t>(at[0] + i * stride)];
    };
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < size && !std::isnan(element(best)); ++i)
      if (std::isnan(element(i)) || element(i) > element(best)) best = i;
    out.data[next++] = static_cast<double>(best);
  });
  return out;
}

// Gradients.

// Something of the result's shape, with the reduced dimensions back as ones.
Value unreduced(const VjpQuery& q, Value reduced) {
  return rules::keep_dims(q.b, reduced, q.b.type(q.operands[0]).shape, q.attrs.ints("dim"));
}

std::vector<Value> sum_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  const Shape shape = q.b.type(q.operands[0]).shape;
  return {q.b.expand(unreduced(q, q.cotangent), shape)};
}

// Evenly among the elements that equal the extremum, as PyTorch's amax.
std::vector<Value> extremum_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  Builder& b = q.b;
  const Value x = q.operands[0];
  const Value dy = rules::wide(b, unreduced(q, q.cotangent));
  const DType dtype = b.type(dy).dtype;
  const Value hit = b.binary(Op::eq, x, unreduced(q, q.result));
  const Value count = b.sum(b.cast(hit, dtype), q.attrs.ints("dim"), true);
  const Value zero = b.scalar(0, dtype);
  return {rules::gradient_of(b, b.where(hit, b.div(dy, count), zero), x)};
}

// The product of the others: P/x where nothing is zero, P the product of what is not zero. With one
// zero only that element has a gradient, P; with more, none has. Right with zeros and needs one
// pass, no scan; where P overflows or underflows although a product of others would not, it is
// lost.
std::vector<Value> prod_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  Builder& b = q.b;
  const Ints& dims = q.attrs.ints("dim");
  const Value x = rules::wide(b, q.operands[0]), dy = rules::wide(b, unreduced(q, q.cotangent));
  const DType dtype = b.type(x).dtype;
  const Value zero = b.scalar(0, dtype), one = b.scalar(1, dtype);
  const Value is_zero = b.binary(Op::eq, x, zero);
  const Value zeros = b.sum(b.cast(is_zero, dtype), dims, true);
  const Value safe = b.where(is_zero, one, x);
  const Value product = b.mul(dy, b.reduce(Op::prod, safe, dims, true));
  const Value at_zero = b.where(b.binary(Op::eq, zeros, one), product, zero);
  const Value others = b.div(product, safe);
  const Value elsewhere = b.where(b.binary(Op::eq, zeros, zero), others, zero);
  return {rules::gradient_of(b, b.where(is_zero, at_zero, elsewhere), q.operands[0])};
}

// mean

double reduced_count(const Shape& shape, const Ints& dims) {
  double count = 1;
  for (std::int64_t d : dims) count *= static_cast<double>(shape[static_cast<std::size_t>(d)]);
  return count;
}

Value decompose_mean(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const TensorType type = b.type(a[0]);
  const Ints& dims = attrs.ints("dim");
  const Value total = b.sum(rules::wide(b, a[0]), dims, attrs.flag("keepdim"));
  const double count = reduced_count(type.shape, dims);
  return b.cast(b.div(total, b.scalar(count, compute_dtype(type.dtype))), type.dtype);
}

std::vector<Value> mean_vjp(const VjpQuery& q) {
  if (!q.wanted[0]) return {Value{}};
  Builder& b = q.b;
  const TensorType type = b.type(q.operands[0]);
  const double count = reduced_count(type.shape, q.attrs.ints("dim"));
  const Value dy = rules::wide(b, unreduced(q, q.cotangent));
  const Value share = b.div(dy, b.scalar(count, b.type(dy).dtype));
  return {b.expand(b.cast(share, type.dtype), type.shape)};
}

using rules::t;

std::vector<Sample> dims_samples(double low, double high) {
  std::vector<Sample> samples;
  for (const bool keepdim : {false, true}) {
    const auto add = [&](const Shape& x, const Ints& dims) {
      samples.push_back({.operands = {t(x)},
                         .attrs = {{"dim", dims}, {"keepdim", keepdim}},
                         .low = low,
                         .high = high});
    };
    add({}, {});
    add({67}, {0});
    add({3, 130}, {-1});
    add({67, 5}, {0});
    add({5, 67}, {});
    add({2, 3, 4, 5}, {1, 3});
    add({3, 4, 67}, {1});
    add({2, 3, 70}, {0, -1});
    add({0, 3}, {1});
    add({1, 1}, {0});
  }
  return samples;
}

// Sums over nothing are defined for all; the others' identities are checked by hand-written tests.
std::vector<Sample> sum_samples() {
  return dims_samples(-2, 2) + rules::with_dtype(dims_samples(-9, 9), DType::i64) +
         rules::with_dtype(dims_samples(-9, 9), DType::i32) +
         std::vector<Sample>{{.operands = {t({0, 3})}, .attrs = {{"dim", Ints{0}}}},
                             {.operands = {t({4, 0})}, .attrs = {}}};
}
std::vector<Sample> extremum_samples() {
  return dims_samples(-2, 2) + rules::with_dtype(dims_samples(-9, 9), DType::i64) +
         rules::with_dtype(dims_samples(-9, 9), DType::i32) +
         std::vector<Sample>{
             {.operands = {t({3, 67})},
              .attrs = {{"dim", Ints{1}}},
              .low = 1,
              .high = 1,
              .smooth = false},
             {.operands = {t({0, 3})}, .attrs = {{"dim", Ints{0}}}, .smooth = false}};
}
std::vector<Sample> prod_samples() {
  return dims_samples(0.5, 1.5) +
         std::vector<Sample>{
             {.operands = {t({3, 7})}, .attrs = {{"dim", Ints{1}}}, .low = -2, .high = 2},
             {.operands = {t({2, 1})}, .attrs = {{"dim", Ints{1}}}, .low = 0, .high = 0},
             {.operands = {t({2, 3})}, .attrs = {{"dim", Ints{1}}}, .low = 0, .high = 0},
             {.operands = {t({0, 3})}, .attrs = {{"dim", Ints{0}}}},
             {.operands = {rules::i64({3, 7})}, .attrs = {}, .low = -3, .high = 3}};
}
std::vector<Sample> mean_samples() { return dims_samples(-2, 2); }

std::vector<Sample> argmax_samples() {
  std::vector<Sample> samples;
  for (const bool keepdim : {false, true}) {
    const auto add = [&](const Shape& x, std::int64_t dim) {
      samples.push_back({.operands = {t(x)}, .attrs = {{"dim", dim}, {"keepdim", keepdim}}});
    };
    add({67}, 0);
    add({3, 130}, -1);
    add({130, 3}, 0);
    add({2, 67, 4}, 1);
    add({0, 3}, 1);
  }
  return samples + rules::with_dtype(samples, DType::i64) +
         std::vector<Sample>{
             {.operands = {t({4, 67})}, .attrs = {{"dim", std::int64_t{1}}}, .low = 1, .high = 1}};
}

}  // namespace

const OpBlock op_sum = {.infer = infer_reduce,
                        .normalize = normalize_dims,
                        .reference_array = reference_sum,
                        .vjp = sum_vjp,
                        .samples = sum_samples};
const OpBlock op_amax = {.infer = infer_reduce,
                         .normalize = normalize_dims,
                         .reference_array = reference_amax,
                         .vjp = extremum_vjp,
                         .samples = extremum_samples};
const OpBlock op_amin = {.infer = infer_reduce,
                         .normalize = normalize_dims,
                         .reference_array = reference_amin,
                         .vjp = extremum_vjp,
                         .samples = extremum_samples};
const OpBlock op_prod = {.infer = infer_reduce,
                         .normalize = normalize_dims,
                         .reference_array = reference_prod,
                         .vjp = prod_vjp,
                         .samples = prod_samples};
const OpBlock op_argmax = {.infer = infer_argmax,
                           .normalize = normalize_argmax,
                           .reference_array = reference_argmax,
                           .samples = argmax_samples};
const OpBlock op_mean = {.infer = infer_mean,
                         .normalize = normalize_dims,
                         .decompose = decompose_mean,
                         .vjp = mean_vjp,
                         .samples = mean_samples};

}  // namespace riffle::ir
