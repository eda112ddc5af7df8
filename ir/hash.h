// Structural identity of graphs: what the caches and "equal partitions compile once" rest on.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace riffle::ir {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};
std::string to_string(const Hash128& hash);  // 32 hex digits

/// Over ops, operands, attributes, types, outputs; not over names, locations, program ids.
Hash128 structural_hash(const Graph& graph);
bool structurally_equal(const Graph& a, const Graph& b);

}  // namespace riffle::ir
