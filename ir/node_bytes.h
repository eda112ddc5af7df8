// A node as bytes: equal nodes give equal bytes and different ones different bytes. What hashing,
// structural equality and common subexpressions share.
#pragma once

#include <span>
#include <string>

#include "ir/graph.h"

namespace riffle::ir {

/// Op (by its text name, so that adding ops changes no hash), operands as given, attributes
/// (doubles by bits, all NaNs alike) and type; not name, location, program_id.
void append_bytes(std::string& bytes, const Node& node, std::span<const ValueId> operands);

}  // namespace riffle::ir
