// softmax, log_softmax, layer_norm: composites, inside in compute_dtype.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/ops/softmax.h"

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

using rules::wide;

Value decompose_softmax(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const auto parts = rules::softmax_parts(b, wide(b, a[0]), attrs.integer("dim"));
  return b.cast(b.div(parts.exponential, parts.sum), b.type(a[0]).dtype);
}

Value softmax_rule(const rules::UnaryGradient& g) {
  const Value dy = g.dy(), p = g.result();
  return rules::softmax_gradient(g.b, p, dy, g.q.attrs.integer("dim"));
}

Value decompose_log_softmax(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const auto parts = rules::softmax_parts(b, wide(b, a[0]), attrs.integer("dim"));
  return b.cast(b.sub(parts.shifted, b.unary(Op::log, parts.sum)), b.type(a[0]).dtype);
}

// dy − softmax·Σ dy
Value log_softmax_rule(const rules::UnaryGradient& g) {
  Builder& b = g.b;
  const Value dy = g.dy(), p = b.unary(Op::exp, g.result());
  return b.sub(dy, b.mul(p, b.sum(dy, {g.q.attrs.integer("dim")}, true)));
}

std::vector<Sample> softmax_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, std::int64_t dim) {
    samples.push_back({.operands = {rules::t(x)}, .attrs = {{"dim", dim}}, .low = -4, .high = 4});
  };
  add({67}, 0);
  add({3, 130}, -1);
  add({130, 3}, 0);
  add({2, 3, 4, 5}, 1);
  add({2, 1}, -1);
  add({0, 3}, 1);
  add({3, 0}, 1);
  return samples;
}

// layer_norm. Two passes, mean and then centred, because E[x²] − E[x]² cancels. The variance is the
// biased one.
struct Normalized {
  Ints dims;         // the normalised ones
  double count = 1;  // elements in them
  Value inverse;     // 1/√(variance + eps)
  Value x_hat;       // (x − mean)·inverse
};

Normalized normalized(Builder& b, Value x, const Attrs& attrs) {
  Normalized n;
  const Shape shape = b.type(x).shape;
  n.dims.resize(attrs.ints("normalized_shape").size());
  std::iota(n.dims.begin(), n.dims.end(), static_cast<std::int64_t>(shape.size() - n.dims.size()));
  for (std::int64_t d : n.dims) n.count *= static_cast<double>(shape[static_cast<std::size_t>(d)]);
  x = wide(b, x);
  const Value count = b.scalar(n.count, b.type(x).dtype);
  const Value centred = b.sub(x, b.div(b.sum(x, n.dims, true), count));
  const Value variance = b.div(b.sum(b.mul(centred, centred), n.dims, true), count);
  n.inverse = b.unary(Op::rsqrt, b.add(variance, attrs.number("eps")));
  n.x_hat = b.mul(centred, n.inverse);
  return n;
}

Value decompose_layer_norm(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  Value y = normalized(b, a[0], attrs).x_hat;
  if (a.size() > 1) y = b.mul(y, wide(b, a[1]));
  if (a.size() > 2) y = b.add(y, wide(b, a[2]));
  return b.cast(y, b.type(a[0]).dtype);
}

// With g = dy·weight: dx = inverse·(g − mean(g) − x̂·mean(g·x̂)). x̂ is recomputed from x.
std::vector<Value> layer_norm_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(q.operands.size());
  const bool weighted = q.operands.size() > 1, biased = q.operands.size() > 2;
  const Value dy = wide(b, q.cotangent);
  if (biased && q.wanted[2]) gradients[2] = rules::gradient_of(b, dy, q.operands[2]);
  if (!q.wanted[0] && !(weighted && q.wanted[1])) return gradients;
  const Normalized n = normalized(b, q.operands[0], q.attrs);
  if (weighted && q.wanted[1])
    gradients[1] = rules::gradient_of(b, b.mul(dy, n.x_hat), q.operands[1]);
  if (q.wanted[0]) {
    const Value count = b.scalar(n.count, b.type(dy).dtype);
    const Value g = weighted ? b.mul(dy, wide(b, q.operands[1])) : dy;
    const auto mean = [&](Value v) { return b.div(b.sum(v, n.dims, true), count); };
    const Value along = b.mul(n.x_hat, mean(b.mul(g, n.x_hat)));
    const Value correction = b.add(mean(g), along);
    gradients[0] = rules::gradient_of(b, b.mul(n.inverse, b.sub(g, correction)), q.operands[0]);
  }
  return gradients;
}

std::vector<Sample> layer_norm_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, const Ints& shape, int affine) {
    Sample sample{.operands = {rules::t(x)}, .attrs = {{"normalized_shape", shape}}};
    for (int i = 0; i < affine; ++i) sample.operands.push_back(rules::t(shape));
    samples.push_back(sample);
  };
  add({67}, {67}, 0);
  add({3, 130}, {130}, 2);
  add({5, 67}, {67}, 1);
  add({2, 3, 4, 5}, {4, 5}, 2);
  add({4, 3}, {4, 3}, 2);
  add({0, 7}, {7}, 2);
  samples.push_back(
      {.operands = {rules::t({9, 33})}, .attrs = {{"normalized_shape", Ints{33}}, {"eps", 0.1}}});
  return samples;
}

}  // namespace

const OpBlock op_softmax = {.infer = rules::floating_unary,
                            .normalize = normalize_dim,
                            .decompose = decompose_softmax,
                            .vjp = rules::unary_vjp<softmax_rule>,
                            .samples = softmax_samples};
const OpBlock op_log_softmax = {.infer = rules::floating_unary,
                                .normalize = normalize_dim,
                                .decompose = decompose_log_softmax,
                                .vjp = rules::unary_vjp<log_softmax_rule>,
                                .samples = softmax_samples};
const OpBlock op_layer_norm = {.infer = infer_layer_norm,
                               .decompose = decompose_layer_norm,
                               .vjp = layer_norm_vjp,
                               .samples = layer_norm_samples};

}  // namespace riffle::ir
