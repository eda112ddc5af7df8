// Which values a forward saves for its backward, and which ones the backward computes again.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace riffle::ir {

struct ResidualQuery {
  /// Primitives; forward and backward of one partition together.
  const Graph& graph;
  /// Per value: does the partition's own result need it.
  const std::vector<bool>& forward;
  /// Per value: does it depend on a cotangent.
  const std::vector<bool>& backward;
  /// The cotangents that go out.
  const std::vector<ValueId>& gradients;
  /// Per value: results of the partition, which are in memory anyway.
  const std::vector<bool>& results;
  /// Per value: results that later partitions keep for their own backward.
  const std::vector<bool>& kept;
};

/// Per value: is it saved. Fewest bytes such that the backward can compute everything else that it
/// needs from saved values, inputs, parameters and constants with cheap ops alone (kCheap: a
/// matmul, a reduction, a gather of the forward is never run twice). Among equal choices a value
/// that the forward computes anyway, then a result, then the one nearest to its use.
///
/// A minimum cut between the expensive values and the backward's readers, where cutting a value
/// costs its bytes (Dinic's algorithm; near-linear on these graphs).
std::vector<bool> choose_residuals(const ResidualQuery& query);

}  // namespace riffle::ir
