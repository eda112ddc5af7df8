// The double-precision reference evaluator: the oracle of every numeric test, and the back end of
// `backend K reference`. It computes in double throughout and does not round to the dtypes, except
// where integers or booleans result.
#pragma once

#include <span>
#include <vector>

#include "ir/array.h"
#include "ir/graph.h"

namespace riffle::ir {

/// Values of graph.outputs, given arrays for graph.inputs() followed by graph.parameters().
/// Composites are evaluated through their decomposition in double. Throws GraphError when the
/// arrays do not fit. Slow: one scalar at a time.
std::vector<Array> evaluate(const Graph& graph, std::span<const Array> inputs_then_parameters);

/// The value of every node.
std::vector<Array> evaluate_all(const Graph& graph, std::span<const Array> inputs_then_parameters);

}  // namespace riffle::ir
