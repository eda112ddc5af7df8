#include "support/random.h"

#include <cmath>
#include <numbers>

namespace riffle {

std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

CounterRandom::CounterRandom(std::uint64_t seed, std::uint64_t stream)
    : key_(mix_bits(seed + 0x9e3779b97f4a7c15ULL * (stream + 1)) | 1) {}

std::uint32_t CounterRandom::bits(std::uint64_t counter) const noexcept {
  std::uint64_t x = counter * key_, y = x, z = y + key_;
  x = x * x + y;
  x = (x >> 32) | (x << 32);
  x = x * x + z;
  x = (x >> 32) | (x << 32);
  x = x * x + y;
  x = (x >> 32) | (x << 32);
  return static_cast<std::uint32_t>((x * x + z) >> 32);
}

double CounterRandom::uniform(std::uint64_t counter) const noexcept {
  return bits(counter) * 0x1p-32;
}

double CounterRandom::normal(std::uint64_t counter) const noexcept {
  const double radius = std::sqrt(-2 * std::log((bits(2 * counter) + 1.0) * 0x1p-32));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * counter + 1));
}

}  // namespace riffle
