// Initial values of parameters and inputs, from a counter-based generator.
#pragma once

#include <cstdint>
#include <span>

#include "ir/array.h"
#include "ir/graph.h"
#include "support/random.h"

namespace riffle::jit {

/// What a parameter starts as, by its first use: linear and matmul weights and biases uniform in
/// ±1/√fan_in (PyTorch's Linear), layer_norm weight 1 and bias 0, embedding tables standard normal,
/// anything else uniform ±1/√(last size).
ir::Array initial_parameter(const ir::Graph& graph, ir::ValueId parameter, std::uint64_t seed);
/// Floating inputs: standard normal; integers: 0; booleans: false.
ir::Array initial_input(const ir::Graph& graph, ir::ValueId input, std::uint64_t seed);

}  // namespace riffle::jit
