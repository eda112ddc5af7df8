// Rewrites of a Graph. Each is bit-exact, keeps program order, inputs, parameters and outputs
// (inputs and parameters stay even when unused), and leaves a graph that verifies. A node that
// goes takes its name along: an output may then be an earlier value, under that value's name.
//
// Differentiate first: simplify and eliminate_common_subexpressions keep every value, but not the
// number and order of the contributions to a gradient, and so not its bits.
#pragma once

#include "ir/graph.h"

namespace riffle::ir {

/// Throws GraphError naming the node when the graph is not well formed: operands before users,
/// operand and attribute counts and kinds, inferred type equal to the stored one, unique names,
/// outputs in range, sizes whose product fits.
void verify(const Graph& graph);

/// Replaces every composite by its primitives (recursively). Names of results are kept; inner
/// nodes get the composite's name as a prefix ("loss_mean"), its program_id and its location.
/// Throws GraphError for a composite that has no decomposition.
Graph decompose(const Graph& graph);

/// Exact identities only (x + 0 is not x for x = -0): casts, reshapes, expands and permutes of
/// each other and of constants, identity slice / pad / cat, x*1, x/1, x-0, double neg, where with
/// equal arms or a constant condition. ir/passes/simplify.cpp says beside each why it is exact.
Graph simplify(const Graph& graph);
/// Equal op, operands and attributes → one node (commutative operands in either order).
Graph eliminate_common_subexpressions(const Graph& graph);
/// Drops nodes that no output needs. Keeps inputs, parameters and breaks.
Graph eliminate_dead_code(const Graph& graph);

/// The pipeline before code generation: decompose, drop breaks, then the three above to a fixed
/// point, verifying between passes.
Graph lower_to_primitives(const Graph& graph);

/// Copies `graph` without nodes for which keep[node] is false; operands must be kept.
Graph filter(const Graph& graph, const std::vector<bool>& keep);

}  // namespace riffle::ir
