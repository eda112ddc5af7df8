// scaled_dot_product_attention: softmax(query·keyᵀ/√E + mask)·value, a composite.
//
// is_causal lets query i see keys 0 … i (aligned at the top left). A boolean mask is true where a
// key may be seen. A query that sees no key gives 0, and gradients of 0, as in PyTorch.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/ops/softmax.h"

namespace riffle::ir {
namespace {

// query [..., L, E], key [..., S, E], value [..., S, Ev] → [..., L, Ev]
TensorType infer_attention(const TypeQuery& q) {
  const TensorType &query = q.operands[0], &key = q.operands[1], &value = q.operands[2];
  rules::require_floating(query, "query");
  rules::require_same_dtype(query, "query", key, "key");
  rules::require_same_dtype(query, "query", value, "value");
  if (query.rank() < 2)
    rules::fail(fmt::format("query {} does not fit: expected [..., L, E]", to_string(query)));
  if (key.rank() < 2 || key.shape.back() != query.shape.back())
    rules::fail(fmt::format("key {} does not fit query {}: expected [..., S, {}]", to_string(key),
                            to_string(query), query.shape.back()));
  const auto last_but_one = [](const TensorType& t) { return t.shape[t.shape.size() - 2]; };
  if (value.rank() < 2 || last_but_one(value) != last_but_one(key))
    rules::fail(fmt::format("value {} does not fit key {}: expected [..., {}, Ev]",
                            to_string(value), to_string(key), last_but_one(key)));
  const auto leading = [](const TensorType& t) {
    return Shape(t.shape.begin(), t.shape.end() - 2);
  };
  auto batch = rules::broadcast(leading(query), leading(key));
  if (batch) batch = rules::broadcast(*batch, leading(value));
  if (!batch)
    rules::fail(
        fmt::format("the leading dimensions of query {}, key {} and value {} do not "
                    "broadcast",
                    to_string(query), to_string(key), to_string(value)));
  if (q.operands.size() > 3) {
    const TensorType& mask = q.operands[3];
    if (q.attrs.flag("is_causal"))
      rules::fail("attn_mask and is_causal=True exclude each other",
                  "leave one out; a mask may be causal itself");
    if (mask.dtype != DType::boolean && mask.dtype != query.dtype)
      rules::fail(fmt::format("attn_mask {} does not fit: expected bool or {}", to_string(mask),
                              name_of(query.dtype)));
    Shape scores = *batch;
    scores.push_back(last_but_one(query));
    scores.push_back(last_but_one(key));
    if (!rules::broadcasts_to(mask.shape, scores))
      rules::fail(fmt::format("attn_mask {} does not broadcast to the scores {}", to_string(mask),
                              to_string(scores)));
  }
  Shape shape = *batch;
  shape.push_back(last_but_one(query));
  shape.push_back(value.shape.back());
  return {query.dtype, shape};
}

using rules::wide;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double scale_of(const Shape& query) {
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(query.back(), 1)));
}

// The softmaxed scores in compute_dtype. Built again in the backward, so that no [L, S] matrix is
// kept between.
Value probabilities(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const Value query = wide(b, a[0]), key = wide(b, a[1]);
  const Shape query_shape = b.type(query).shape, key_shape = b.type(key).shape;
  const DType dtype = b.type(query).dtype;
  Value scores = b.mul(b.matmul(query, key, false, true), scale_of(query_shape));
  if (attrs.flag("is_causal")) {
    const std::int64_t l = query_shape[query_shape.size() - 2], s = key_shape[key_shape.size() - 2];
    const auto positions = [&b](std::int64_t end) {
      return b.append(Op::arange, {}, {{"end", end}});
    };
    const Value keys = positions(s);
    const Value queries = b.reshape(positions(l), {l, 1});
    const Value seen = b.binary(Op::ge, queries, keys);
    scores = b.where(seen, scores, b.scalar(kHidden, dtype));
  }
  if (a.size() > 3) {
    scores = b.type(a[3]).dtype == DType::boolean ? b.where(a[3], scores, b.scalar(kHidden, dtype))
                                                  : b.add(scores, wide(b, a[3]));
  }
  const std::int64_t last = b.type(scores).rank() - 1;
  const Value largest = b.reduce(Op::amax, scores, {last}, true);
  const Value zero = b.scalar(0, dtype);
  // A row that sees nothing has largest = −∞: shift it by 0 and divide its zeros by 1.
  const Value blind = b.binary(Op::eq, largest, b.scalar(kHidden, dtype));
  const Value weights = b.unary(Op::exp, b.sub(scores, b.where(blind, zero, largest)));
  const Value sum = b.sum(weights, {last}, true);
  const Value total = b.where(blind, b.scalar(1, dtype), sum);
  return b.div(weights, total);
}

Value decompose_attention(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const Value p = probabilities(b, a, attrs);
  return b.cast(b.matmul(p, wide(b, a[2])), b.type(a[0]).dtype);
}

std::vector<Value> attention_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(q.operands.size());
  if (std::none_of(q.wanted.begin(), q.wanted.end(), [](bool wanted) { return wanted; }))
    return gradients;
  const Value p = probabilities(b, q.operands, q.attrs), dy = wide(b, q.cotangent);
  if (q.wanted[2]) gradients[2] = rules::gradient_of(b, b.matmul(p, dy, true), q.operands[2]);
  const bool mask_wanted = q.operands.size() > 3 && q.wanted[3];
  if (!q.wanted[0] && !q.wanted[1] && !mask_wanted) return gradients;
  const Value dp = b.matmul(dy, wide(b, q.operands[2]), false, true);
  const Value dscores = rules::softmax_gradient(b, p, dp, b.type(p).rank() - 1);
  if (mask_wanted && is_floating(b.type(q.operands[3]).dtype))
    gradients[3] = rules::gradient_of(b, dscores, q.operands[3]);
  const double scale = scale_of(b.type(q.operands[0]).shape);
  if (q.wanted[0])
    gradients[0] = rules::gradient_of(b, b.mul(b.matmul(dscores, wide(b, q.operands[1])), scale),
                                      q.operands[0]);
  if (q.wanted[1])
    gradients[1] = rules::gradient_of(
        b, b.mul(b.matmul(dscores, wide(b, q.operands[0]), true), scale), q.operands[1]);
  return gradients;
}

std::vector<Sample> attention_samples() {
  using rules::t;
  std::vector<Sample> samples;
  for (const bool causal : {false, true}) {
    const auto add = [&](const Shape& query, const Shape& key, const Shape& value) {
      samples.push_back(
          {.operands = {t(query), t(key), t(value)}, .attrs = {{"is_causal", causal}}});
    };
    add({4, 8}, {4, 8}, {4, 8});
    add({2, 3, 17, 5}, {2, 3, 17, 5}, {2, 3, 17, 5});
    add({2, 7, 16}, {2, 5, 16}, {2, 5, 3});
    add({2, 3, 5, 4}, {1, 6, 4}, {3, 6, 4});
    add({0, 5, 4}, {0, 5, 4}, {0, 5, 4});
  }
  samples.push_back(
      {.operands = {t({2, 5, 4}), t({2, 7, 4}), t({2, 7, 4}), rules::boolean({5, 7})}});
  samples.push_back({.operands = {t({2, 5, 4}), t({2, 7, 4}), t({2, 7, 4}), t({2, 1, 7})}});
  return samples;
}

}  // namespace

const OpBlock op_scaled_dot_product_attention = {.infer = infer_attention,
                                                 .decompose = decompose_attention,
                                                 .vjp = attention_vjp,
                                                 .samples = attention_samples};

}  // namespace riffle::ir
