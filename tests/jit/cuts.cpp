#include "tests/jit/cuts.h"

#include "ir/split.h"
#include "tests/support/random_graph.h"

namespace riffle::test {

OptimizerSpec optimizer_of(std::uint64_t seed) {
  if (seed % 3 == 0) return {.name = "adamw", .lr = 0.01, .weight_decay = 0.1};
  if (seed % 3 == 1)
    return {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
  return {.name = "sgd", .lr = 0.05};
}

std::size_t positions(const ir::Graph& graph) {
  struct Count final : ir::SplitPolicy {
    std::size_t& count;
    explicit Count(std::size_t& c) : count(c) {}
    std::string describe() const override { return "count"; }
    Cuts cuts(const ir::SplitView& view) const override {
      count = view.counted.size();
      return {};
    }
  };
  std::size_t count = 0;
  ir::split(graph, Count(count));
  return count;
}

std::set<Cuts> cut_sets(std::size_t nodes, std::uint64_t seed) {
  std::set<Cuts> sets;
  Cuts all;
  for (std::size_t k = 1; k < nodes; ++k) all.push_back(k);
  sets.insert(all);
  for (std::size_t k = 0; k <= nodes; ++k) sets.insert({k});
  if (nodes <= 6) {
    for (std::size_t bits = 0; bits < (std::size_t{1} << all.size()); ++bits) {
      Cuts cuts;
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((bits >> i & 1) != 0) cuts.push_back(all[i]);
      sets.insert(cuts);
    }
    return sets;
  }
  Random random(seed);
  for (int i = 0; i < 16; ++i) {
    Cuts cuts;
    for (std::size_t k : all)
      if (random.chance(0.5)) cuts.push_back(k);
    sets.insert(cuts);
  }
  return sets;
}

std::string describe(const Cuts& cuts) {
  std::string text = "cuts";
  for (std::size_t k : cuts) text += " " + std::to_string(k);
  return text;
}

}  // namespace riffle::test
