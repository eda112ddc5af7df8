// Initial values of parameters and inputs, from a counter-based generator.
#pragma once

#include <cstdint>
#include <span>

#include "ir/array.h"
#include "ir/graph.h"

namespace riffle::jit {

/// Squares (Widynski 2020, arXiv:2004.06278): element i of stream s is a function of (seed, s, i)
/// alone, so equal seeds give equal values on every machine, for every split and thread count.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::uint64_t stream);
  std::uint32_t bits(std::uint64_t counter) const noexcept;
  double uniform(std::uint64_t counter) const noexcept;  ///< [0, 1)
  double normal(std::uint64_t counter) const noexcept;   ///< Box–Muller on counters 2i, 2i+1

 private:
  std::uint64_t key_;
};

/// What a parameter starts as, by its first use: linear and matmul weights and biases uniform in
/// ±1/√fan_in (PyTorch's Linear), layer_norm weight 1 and bias 0, embedding tables standard normal,
/// anything else uniform ±1/√(last size).
ir::Array initial_parameter(const ir::Graph& graph, ir::ValueId parameter, std::uint64_t seed);
/// Floating inputs: standard normal; integers: 0; booleans: false.
ir::Array initial_input(const ir::Graph& graph, ir::ValueId input, std::uint64_t seed);

}  // namespace riffle::jit
