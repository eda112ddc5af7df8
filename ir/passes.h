// Rewrites of a Graph. Each is bit-exact, keeps program order, inputs, parameters and outputs
// (inputs and parameters stay even when unused), and leaves a graph that verifies.
#pragma once

#include "ir/graph.h"

namespace riffle::ir {

/// Throws GraphError naming the node when the graph is not well formed: operands before users,
/// operand and attribute counts and kinds, inferred type equal to the stored one, unique names,
/// outputs in range, sizes whose product fits.
void verify(const Graph& graph);

/// Replaces every composite by its primitives (recursively). Names of results are kept; inner
/// nodes get the composite's name as a prefix. Values that are outputs keep their names.
Graph decompose(const Graph& graph);

/// x+0 is not x for x = −0; so only exact identities: casts to the same dtype, reshape of reshape,
/// identity permute / expand / slice / pad, x*1, double neg, where with equal arms, cast of a constant.
Graph simplify(const Graph& graph);
/// Equal op, operands and attributes → one node (commutative operands in either order).
Graph eliminate_common_subexpressions(const Graph& graph);
/// Drops nodes that no output needs. Keeps inputs, parameters and breaks.
Graph eliminate_dead_code(const Graph& graph);

/// The pipeline before code generation: decompose, then the three above to a fixed point,
/// verifying between passes.
Graph lower_to_primitives(const Graph& graph);

/// Copies `graph` without nodes for which keep[node] is false; operands must be kept.
Graph filter(const Graph& graph, const std::vector<bool>& keep);

}  // namespace riffle::ir
