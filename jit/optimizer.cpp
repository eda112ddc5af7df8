#include "jit/optimizer.h"

#include <cmath>

#include "ir/builder.h"
#include "riffle/error.h"

namespace riffle::jit {
namespace {

using ir::Builder;
using ir::Op;
using ir::Value;

bool is_adam(const OptimizerSpec& spec) { return spec.name == "adam" || spec.name == "adamw"; }

void require(bool condition, const OptimizerSpec& spec, const std::string& rule) {
  if (!condition)
    throw UsageError({.what = "optimizer " + spec.name + ": " + rule,
                      .hint = "optimizer adamw lr=0.001 weight_decay=0.01"});
}

/// What a step works on, in the compute dtype.
struct Terms {
  Value parameter, gradient;
  std::vector<Value> states;
  std::array<Value, kOptimizerScalars> scalars;
};

std::vector<Value> sgd(Builder& b, const OptimizerSpec& spec, const Terms& t) {
  Value gradient = t.gradient;
  if (spec.weight_decay != 0) gradient = b.add(gradient, b.mul(t.parameter, spec.weight_decay));
  if (spec.momentum == 0) return {b.sub(t.parameter, b.mul(gradient, t.scalars[0]))};
  Value velocity = b.add(b.mul(t.states[0], spec.momentum), gradient);
  Value direction = spec.nesterov ? b.add(gradient, b.mul(velocity, spec.momentum)) : velocity;
  return {b.sub(t.parameter, b.mul(direction, t.scalars[0])), velocity};
}

std::vector<Value> adam(Builder& b, const OptimizerSpec& spec, const Terms& t) {
  Value parameter = t.parameter, gradient = t.gradient;
  if (spec.name == "adamw")
    parameter = b.mul(parameter, t.scalars[3]);
  else if (spec.weight_decay != 0)
    gradient = b.add(gradient, b.mul(parameter, spec.weight_decay));
  Value share = b.mul(gradient, 1 - spec.beta1);
  Value mean = b.add(b.mul(t.states[0], spec.beta1), share);
  Value square_share = b.mul(b.mul(gradient, gradient), 1 - spec.beta2);
  Value square = b.add(b.mul(t.states[1], spec.beta2), square_share);
  Value denominator = b.add(b.div(b.unary(Op::sqrt, square), t.scalars[2]), spec.eps);
  return {b.sub(parameter, b.mul(b.div(mean, denominator), t.scalars[1])), mean, square};
}

}  // namespace

void check(const OptimizerSpec& spec) {
  if (spec.name == "none") return;
  if (spec.name != "sgd" && !is_adam(spec))
    throw UsageError(
        {.what = "there is no optimizer '" + spec.name + "'", .hint = "sgd, adam, adamw or none"});
  require(std::isfinite(spec.lr) && spec.lr >= 0, spec, "lr must be a finite number ≥ 0");
  require(spec.weight_decay >= 0, spec, "weight_decay must be ≥ 0");
  require(spec.momentum >= 0 && spec.momentum < 1, spec, "momentum must be in [0, 1)");
  require(!spec.nesterov || spec.momentum > 0, spec, "nesterov needs a momentum above 0");
  require(spec.beta1 >= 0 && spec.beta1 < 1 && spec.beta2 >= 0 && spec.beta2 < 1, spec,
          "beta1 and beta2 must be in [0, 1)");
  require(spec.eps >= 0, spec, "eps must be ≥ 0");
}

int state_count(const OptimizerSpec& spec) noexcept {
  if (is_adam(spec)) return 2;
  return spec.name == "sgd" && spec.momentum != 0 ? 1 : 0;
}

DType state_dtype(DType parameter) noexcept { return compute_dtype(parameter); }

std::array<double, kOptimizerScalars> optimizer_scalars(const OptimizerSpec& spec,
                                                        std::int64_t step) {
  const double t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(spec.beta1, t);
  const double correction2 = 1 - std::pow(spec.beta2, t);
  return {spec.lr, spec.lr / correction1, std::sqrt(correction2), 1 - spec.lr * spec.weight_decay};
}

ir::Graph optimizer_graph(const OptimizerSpec& spec, DType parameter, std::int64_t elements) {
  check(spec);
  Builder b("optimizer_" + spec.name);
  if (spec.name == "none") return b.finish({});
  const DType compute = state_dtype(parameter);
  const TensorType tensor{parameter, {elements}}, state{compute, {elements}}, scalar{compute, {}};
  Terms t;
  Value stored = b.append_source(Op::input, tensor, "param");
  Value gradient = b.append_source(Op::input, tensor, "grad");
  for (int i = 0; i < state_count(spec); ++i)
    t.states.push_back(b.append_source(Op::input, state, "state" + std::to_string(i)));
  for (std::size_t i = 0; i < kOptimizerScalars; ++i)
    t.scalars[i] = b.append_source(Op::input, scalar, kOptimizerScalarNames[i]);
  t.parameter = b.cast(stored, compute);
  t.gradient = b.cast(gradient, compute);
  std::vector<Value> results = spec.name == "sgd" ? sgd(b, spec, t) : adam(b, spec, t);
  results[0] = b.cast(results[0], parameter);
  return b.finish(std::move(results));
}

}  // namespace riffle::jit
