// The same program at other input shapes: what a shape specialisation is made from.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace riffle::ir {

/// `graph` with the given types for the inputs named (others keep theirs), every other type
/// inferred anew. Where an attribute spells out a shape whose leading size was that of an input
/// (reshape, expand, full), the leading size follows. Throws GraphError naming the node that the
/// new shapes do not fit.
Graph retype(const Graph& graph, const std::map<std::string, TensorType, std::less<>>& inputs);

}  // namespace riffle::ir
