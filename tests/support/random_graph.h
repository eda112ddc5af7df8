// Random training graphs, and values for their inputs: for suites that compare one way of running
// a graph with another, and for fuzzing. Equal seeds give equal graphs and values on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/array.h"
#include "ir/graph.h"

namespace riffle::test {

/// SplitMix64: small, seedable, the same everywhere (the standard distributions are not).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 … bound-1; bound ≥ 1.
  std::int64_t below(std::int64_t bound);
  double uniform(double low, double high);
  bool chance(double probability) { return uniform(0, 1) < probability; }
  template <typename T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(below(static_cast<std::int64_t>(items.size())))];
  }

 private:
  std::uint64_t state_;
};

struct RandomGraphOptions {
  int max_nodes = 12;        ///< compute nodes, the loss included; at least 2
  bool other_dtypes = true;  ///< some graphs in f64, bf16 or f16, and casts between dtypes
  bool zero_sizes = true;    ///< some graphs with a dimension of size 0 (their loss may be NaN)
  bool breaks = true;        ///< explicit graph breaks here and there
  std::int64_t scale = 1;    ///< factor on the sizes, so that kernels divide into tasks
};

/// A graph that verifies, returns a floating scalar first, and keeps its values within about 1e3
/// for the arrays that random_arrays gives. Somewhere among enough seeds there is: every family of
/// ops, values and parameters used several times and far apart, frozen and unused parameters,
/// inputs that want gradients, inputs and parameters returned unchanged, a value returned twice,
/// booleans, integers and scalars that several nodes use, nodes that nothing needs.
ir::Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {});

/// Values for graph.inputs() followed by graph.parameters(), exact in their dtypes. Integer inputs
/// stay within what the indexing ops that read them allow.
std::vector<ir::Array> random_arrays(const ir::Graph& graph, std::uint64_t seed);

}  // namespace riffle::test
