// Comparisons, logic and selection. Comparisons with NaN are false, but for ne.
#include "ir/ops/blocks.h"
#include "ir/ops/gradients.h"
#include "ir/ops/rules.h"
#include "ir/ops/samples.h"
#include "ir/scalar_builder.h"

namespace riffle::ir {
namespace {

using Scalars = std::span<const Scalar>;
using Doubles = std::span<const double>;

template <Compare how>
Scalar emit_compare(ScalarBuilder& b, Scalars a, const Attrs&) {
  return b.compare(how, a[0], a[1]);
}

std::vector<Sample> equality_samples() {
  return rules::numeric_binary_samples() + rules::boolean_binary_samples();
}

TensorType infer_where(const TypeQuery& q) {
  rules::require_boolean(q.operands[0], "condition");
  rules::require_same_dtype(q.operands[1], "x", q.operands[2], "other");
  return {q.operands[1].dtype, rules::broadcast_operands(q.operands)};
}

std::vector<Value> where_vjp(const VjpQuery& q) {
  Builder& b = q.b;
  std::vector<Value> gradients(3);
  const auto zero = [&] { return b.scalar(0, b.type(q.cotangent).dtype); };
  if (q.wanted[1])
    gradients[1] =
        rules::gradient_of(b, b.where(q.operands[0], q.cotangent, zero()), q.operands[1]);
  if (q.wanted[2])
    gradients[2] =
        rules::gradient_of(b, b.where(q.operands[0], zero(), q.cotangent), q.operands[2]);
  return gradients;
}

std::vector<Sample> where_samples() {
  std::vector<Sample> samples;
  for (const Sample& arms : rules::binary_samples(-2, 2) +
                                rules::with_dtype(rules::binary_samples(-9, 9), DType::i64) +
                                rules::with_dtype(rules::binary_samples(-9, 9), DType::i32) +
                                rules::boolean_binary_samples()) {
    Sample sample = arms;
    sample.operands.insert(sample.operands.begin(), rules::boolean(arms.operands[0].shape));
    samples.push_back(sample);
  }
  samples.push_back({.operands = {rules::boolean({4, 1}), rules::t({67}), rules::t({})}});
  samples.push_back({.operands = {rules::boolean({}), rules::t({3, 67}), rules::t({3, 1})}});
  return samples;
}

}  // namespace

const OpBlock op_eq = {
    .infer = rules::any_compare,
    .emit = emit_compare<Compare::eq>,
    .reference = [](Doubles a, const Attrs&) { return a[0] == a[1] ? 1.0 : 0.0; },
    .samples = equality_samples,
};
const OpBlock op_ne = {
    .infer = rules::any_compare,
    .emit = emit_compare<Compare::ne>,
    .reference = [](Doubles a, const Attrs&) { return a[0] != a[1] ? 1.0 : 0.0; },
    .samples = equality_samples,
};
const OpBlock op_lt = {
    .infer = rules::numeric_compare,
    .emit = emit_compare<Compare::lt>,
    .reference = [](Doubles a, const Attrs&) { return a[0] < a[1] ? 1.0 : 0.0; },
    .samples = rules::numeric_binary_samples,
};
const OpBlock op_le = {
    .infer = rules::numeric_compare,
    .emit = emit_compare<Compare::le>,
    .reference = [](Doubles a, const Attrs&) { return a[0] <= a[1] ? 1.0 : 0.0; },
    .samples = rules::numeric_binary_samples,
};
const OpBlock op_gt = {
    .infer = rules::numeric_compare,
    .emit = emit_compare<Compare::gt>,
    .reference = [](Doubles a, const Attrs&) { return a[0] > a[1] ? 1.0 : 0.0; },
    .samples = rules::numeric_binary_samples,
};
const OpBlock op_ge = {
    .infer = rules::numeric_compare,
    .emit = emit_compare<Compare::ge>,
    .reference = [](Doubles a, const Attrs&) { return a[0] >= a[1] ? 1.0 : 0.0; },
    .samples = rules::numeric_binary_samples,
};

const OpBlock op_logical_and = {
    .infer = rules::boolean_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.bit_and(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] != 0 && a[1] != 0 ? 1.0 : 0.0; },
    .samples = rules::boolean_binary_samples,
};
const OpBlock op_logical_or = {
    .infer = rules::boolean_binary,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.bit_or(a[0], a[1]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] != 0 || a[1] != 0 ? 1.0 : 0.0; },
    .samples = rules::boolean_binary_samples,
};

const OpBlock op_where_ = {
    .infer = infer_where,
    .emit = [](ScalarBuilder& b, Scalars a, const Attrs&) { return b.select(a[0], a[1], a[2]); },
    .reference = [](Doubles a, const Attrs&) { return a[0] != 0 ? a[1] : a[2]; },
    .vjp = where_vjp,
    .samples = where_samples,
};

}  // namespace riffle::ir
