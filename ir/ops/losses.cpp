// Losses: cross_entropy and nll_loss on class indices, mse_loss.
//
// Targets equal to ignore_index count for nothing; the mean divides by the number of the others, so
// it is NaN when there are none, as PyTorch's. Other targets must be 0 … C-1.
#include <fmt/format.h>

#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/ops/softmax.h"

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
  const std::size_t classes = x.rank() == 1 ? 0 : 1;
  if (x.shape[classes] == 0)
    rules::fail(fmt::format("x {} has no classes: dim {} is empty", to_string(x), classes));
  Shape expected = x.shape;
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(classes));
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

using rules::wide;

// What both class losses look at: the class dimension, targets with it back as size 1.
struct ClassTargets {
  std::int64_t dim;  // the classes'
  Value valid;       // bool, target's shape with dim of size 1
  Value target;      // 0 where ignored, so that it may index
  Shape flat;        // target's own shape
};

ClassTargets class_targets(Builder& b, Value x, Value target, const Attrs& attrs) {
  const TensorType given = b.type(target);
  ClassTargets t;
  t.dim = b.type(x).rank() == 1 ? 0 : 1;
  t.flat = given.shape;
  Shape column = given.shape;
  column.insert(column.begin() + static_cast<std::ptrdiff_t>(t.dim), 1);
  target = b.reshape(target, column);
  const std::int64_t ignored = attrs.integer("ignore_index");
  // An i32 target cannot equal what an i32 cannot hold.
  if (given.dtype == DType::i32 && ignored != static_cast<std::int32_t>(ignored)) {
    t.valid = b.full(column, 1, DType::boolean);
    t.target = target;
  } else {
    t.valid = b.binary(Op::ne, target, b.scalar(static_cast<double>(ignored), given.dtype));
    t.target = b.where(t.valid, target, b.scalar(0, given.dtype));
  }
  return t;
}

// Σ valid, as a float: exact up to 2^24 targets in f32.
Value valid_count(Builder& b, const ClassTargets& t, DType dtype) {
  return b.sum(b.cast(t.valid, dtype), {});
}

// Per-target losses (dim of size 1) → the result.
Value reduce_losses(Builder& b, const ClassTargets& t, Value losses, const Attrs& attrs,
                    DType result) {
  const DType dtype = b.type(losses).dtype;
  losses = b.where(t.valid, losses, b.scalar(0, dtype));
  const std::string& reduction = attrs.text("reduction");
  if (reduction == "none") return b.cast(b.reshape(losses, t.flat), result);
  Value total = b.sum(losses, {});
  if (reduction == "mean") total = b.div(total, valid_count(b, t, dtype));
  return b.cast(total, result);
}

// d loss / d (loss of one target), dim of size 1: 0 where ignored.
Value target_weights(const VjpQuery& q, const ClassTargets& t) {
  Builder& b = q.b;
  Value dy = wide(b, q.cotangent);
  const DType dtype = b.type(dy).dtype;
  const std::string& reduction = q.attrs.text("reduction");
  const Shape column = b.type(t.valid).shape;
  if (reduction == "none") dy = b.reshape(dy, column);
  if (reduction == "mean") dy = b.div(dy, valid_count(b, t, dtype));
  return b.where(t.valid, dy, b.scalar(0, dtype));
}

// bool, x's shape: is this class the target.
Value is_target(Builder& b, const ClassTargets& t, const Shape& x) {
  const auto dim = static_cast<std::size_t>(t.dim);
  Shape along(x.size(), 1);
  along[dim] = x[dim];
  const Value classes =
      b.append(Op::arange, {}, {{"end", x[dim]}, {"dtype", b.type(t.target).dtype}});
  return b.binary(Op::eq, b.reshape(classes, along), t.target);
}

Value chosen(Builder& b, const ClassTargets& t, Value x) {
  return b.append(Op::gather, {x, t.target}, {{"dim", t.dim}});
}

// log Σ exp(x − max) − (x_target − max): needs no log-probabilities but the targets'.
Value decompose_cross_entropy(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const Value x = wide(b, a[0]);
  const ClassTargets t = class_targets(b, a[0], a[1], attrs);
  const rules::SoftmaxParts parts = rules::softmax_parts(b, x, t.dim);
  const Value target = chosen(b, t, parts.shifted);
  const Value losses = b.sub(b.unary(Op::log, parts.sum), target);
  return reduce_losses(b, t, losses, attrs, b.type(a[0]).dtype);
}

// softmax − onehot, weighted; recomputed from x, so that only x is kept.
std::vector<Value> cross_entropy_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  if (!q.wanted[0]) return gradients;
  Builder& b = q.b;
  const Value x = wide(b, q.operands[0]);
  const ClassTargets t = class_targets(b, q.operands[0], q.operands[1], q.attrs);
  const rules::SoftmaxParts parts = rules::softmax_parts(b, x, t.dim);
  const Value p = b.div(parts.exponential, parts.sum);
  const Shape shape = b.type(x).shape;
  const Value at_target = b.add(p, -1);
  const Value error = b.where(is_target(b, t, shape), at_target, p);
  // Ignored targets give 0 even where p is NaN.
  const Value weights = target_weights(q, t);
  const Value zero = b.scalar(0, b.type(x).dtype);
  const Value dx = b.where(t.valid, b.mul(error, weights), zero);
  gradients[0] = rules::gradient_of(b, dx, q.operands[0]);
  return gradients;
}

Value decompose_nll_loss(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const ClassTargets t = class_targets(b, a[0], a[1], attrs);
  const Value losses = b.neg(chosen(b, t, wide(b, a[0])));
  return reduce_losses(b, t, losses, attrs, b.type(a[0]).dtype);
}

std::vector<Value> nll_loss_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  if (!q.wanted[0]) return gradients;
  Builder& b = q.b;
  const ClassTargets t = class_targets(b, q.operands[0], q.operands[1], q.attrs);
  const Value weights = b.neg(target_weights(q, t));
  const Shape shape = b.type(q.operands[0]).shape;
  const Value zero = b.scalar(0, b.type(weights).dtype);
  const Value dx = b.where(is_target(b, t, shape), weights, zero);
  gradients[0] = rules::gradient_of(b, dx, q.operands[0]);
  return gradients;
}

Value decompose_mse_loss(Builder& b, std::span<const Value> a, const Attrs& attrs) {
  const TensorType type = b.type(a[0]);
  const Value target = wide(b, a[1]);
  const Value difference = b.sub(wide(b, a[0]), target);
  const Value squares = b.mul(difference, difference);
  const std::string& reduction = attrs.text("reduction");
  if (reduction == "none") return b.cast(squares, type.dtype);
  Value total = b.sum(squares, {});
  if (reduction == "mean")
    total = b.div(total, b.scalar(static_cast<double>(type.elements()), b.type(total).dtype));
  return b.cast(total, type.dtype);
}

std::vector<Value> mse_loss_vjp(const VjpQuery& q) {
  std::vector<Value> gradients(2);
  if (!q.wanted[0] && !q.wanted[1]) return gradients;
  Builder& b = q.b;
  const TensorType type = b.type(q.operands[0]);
  const Value target = wide(b, q.operands[1]);
  const Value difference = b.sub(wide(b, q.operands[0]), target);
  Value scale = b.mul(wide(b, q.cotangent), 2);
  if (q.attrs.text("reduction") == "mean")
    scale = b.div(scale, b.scalar(static_cast<double>(type.elements()), b.type(scale).dtype));
  const Value dx = b.mul(difference, scale);
  if (q.wanted[0]) gradients[0] = rules::gradient_of(b, dx, q.operands[0]);
  if (q.wanted[1]) gradients[1] = rules::gradient_of(b, b.neg(dx), q.operands[1]);
  return gradients;
}

constexpr const char* kReductions[] = {"mean", "sum", "none"};

std::vector<Sample> class_loss_samples() {
  std::vector<Sample> samples;
  for (const std::string reduction : kReductions) {
    const auto add = [&](Shape x, TensorType target, std::int64_t ignored = -100) {
      samples.push_back({.operands = {rules::t(x), target},
                         .attrs = {{"reduction", reduction}, {"ignore_index", ignored}},
                         .low = -4,
                         .high = 4,
                         .index_limit = x[x.size() == 1 ? 0 : 1]});
    };
    add({67, 10}, rules::i64({67}));
    add({5, 130}, rules::i32({5}));
    add({31, 3}, rules::i64({31}), 1);
    add({7}, rules::i64({}));
    add({3, 5, 67}, rules::i64({3, 67}));
    add({2, 3, 4, 5}, rules::i32({2, 4, 5}), 0);
    if (reduction != "mean") add({0, 3}, rules::i64({0}));
  }
  return samples;
}

std::vector<Sample> mse_loss_samples() {
  std::vector<Sample> samples;
  for (const std::string reduction : kReductions)
    for (const Shape& shape : {Shape{}, Shape{67}, Shape{3, 130}, Shape{0, 5}, Shape{2, 3, 4}})
      if (element_count(shape) > 0 || reduction != "mean")
        samples.push_back(
            {.operands = {rules::t(shape), rules::t(shape)}, .attrs = {{"reduction", reduction}}});
  return samples;
}

}  // namespace

const OpBlock op_cross_entropy = {.infer = infer_class_loss,
                                  .decompose = decompose_cross_entropy,
                                  .vjp = cross_entropy_vjp,
                                  .samples = class_loss_samples};
const OpBlock op_nll_loss = {.infer = infer_class_loss,
                             .decompose = decompose_nll_loss,
                             .vjp = nll_loss_vjp,
                             .samples = class_loss_samples};
const OpBlock op_mse_loss = {.infer = infer_mse_loss,
                             .decompose = decompose_mse_loss,
                             .vjp = mse_loss_vjp,
                             .samples = mse_loss_samples};

}  // namespace riffle::ir
