// Random numbers as functions of a counter: no state, the same on every machine.
#pragma once

#include <cstdint>

namespace riffle {

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): spreads every bit of x over the result.
std::uint64_t mix_bits(std::uint64_t x) noexcept;

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

}  // namespace riffle
