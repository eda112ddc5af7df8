// The pipeline between a graph as written (or differentiated) and code generation.
#include "ir/hash.h"
#include "ir/passes.h"

namespace riffle::ir {
namespace {

Graph without_breaks(const Graph& graph) {
  std::vector<bool> keep;
  for (const Node& node : graph.nodes) keep.push_back(node.op != Op::break_);
  return filter(graph, keep);
}

}  // namespace

Graph lower_to_primitives(const Graph& graph) {
  verify(graph);
  Graph lowered = without_breaks(decompose(graph));
  verify(lowered);
  // Each round drops nodes or brings operands closer to the sources, so the rounds end.
  while (true) {
    const Hash128 before = structural_hash(lowered);
    for (Graph (*pass)(const Graph&) :
         {simplify, eliminate_common_subexpressions, eliminate_dead_code}) {
      lowered = pass(lowered);
      verify(lowered);
    }
    if (structural_hash(lowered) == before) return lowered;
  }
}

}  // namespace riffle::ir
