// Which cuts of a graph the suites try.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "riffle/session.h"

namespace riffle::test {

using Cuts = std::vector<std::size_t>;

OptimizerSpec optimizer_of(std::uint64_t seed);
/// How many positions there are to cut at.
std::size_t positions(const ir::Graph& graph);
/// Every subset of cuts for up to 6 nodes; otherwise all single cuts, all singletons and 16 subsets
/// of a seed. The ends are positions too: a first and a last partition that compute nothing.
std::set<Cuts> cut_sets(std::size_t nodes, std::uint64_t seed);
std::string describe(const Cuts& cuts);

}  // namespace riffle::test
