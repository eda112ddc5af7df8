// Optimizers as graphs: compiled by the same path as a model's kernels, applied in place.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "riffle/session.h"

namespace riffle::jit {

/// Throws UsageError for an unknown name or a value that makes no sense.
void check(const OptimizerSpec& spec);
/// State tensors a parameter: 0 (sgd), 1 (sgd with momentum), 2 (adam, adamw).
int state_count(const OptimizerSpec& spec) noexcept;
/// State is held in the compute dtype: f32 for bf16 and f16 parameters.
DType state_dtype(DType parameter) noexcept;

/// Values that change from step to step, computed in double and passed as scalars of the state's
/// dtype, so that nothing is recompiled for a schedule.
inline constexpr std::size_t kOptimizerScalars = 4;
inline constexpr std::array<std::string_view, kOptimizerScalars> kOptimizerScalarNames = {
    "lr", "step_size", "denominator_scale", "decay"};
/// `step` counts from 1, as in the papers (bias correction).
std::array<double, kOptimizerScalars> optimizer_scalars(const OptimizerSpec& spec,
                                                        std::int64_t step);

/// Inputs: param, grad, states…, the scalars; outputs: param', states'…. One-dimensional, of
/// `elements`. SGD: Sutskever et al. 2013 as PyTorch writes it; Adam: Kingma & Ba 2015,
/// Algorithm 1; AdamW: Loshchilov & Hutter 2019, Algorithm 2. Empty (no outputs) for "none".
ir::Graph optimizer_graph(const OptimizerSpec& spec, DType parameter, std::int64_t elements);

}  // namespace riffle::jit
