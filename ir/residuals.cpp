#include "ir/residuals.h"

#include <algorithm>
#include <limits>

namespace riffle::ir {
namespace {

/// Maximum flow by Dinic's algorithm, without recursion.
class FlowNetwork {
 public:
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

  explicit FlowNetwork(std::size_t vertices) : edges_of_(vertices) {}

  void connect(std::size_t from, std::size_t to, std::int64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  void saturate(std::size_t source, std::size_t sink) {
    while (build_levels(source, sink)) {
      next_.assign(edges_of_.size(), 0);
      while (augment(source, sink)) {
      }
    }
  }

  /// After `saturate`: vertices from which the sink can still be reached. What separates them
  /// from the others is the minimum cut that lies nearest to the sink.
  std::vector<bool> reaches(std::size_t sink) const {
    std::vector<bool> seen(edges_of_.size(), false);
    std::vector<std::size_t> stack = {sink};
    seen[sink] = true;
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      for (std::size_t edge : edges_of_[at]) {
        const std::size_t from = edges_[edge].to;  // the reverse of `edge` runs from → at
        if (edges_[edge ^ 1].capacity > 0 && !seen[from]) {
          seen[from] = true;
          stack.push_back(from);
        }
      }
    }
    return seen;
  }

 private:
  struct Edge {
    std::size_t to;
    std::int64_t capacity;  ///< what is left of it
  };

  bool build_levels(std::size_t source, std::size_t sink) {
    level_.assign(edges_of_.size(), -1);
    level_[source] = 0;
    std::vector<std::size_t> queue = {source};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::size_t at = queue[head];
      for (std::size_t edge : edges_of_[at]) {
        const Edge& e = edges_[edge];
        if (e.capacity > 0 && level_[e.to] < 0) {
          level_[e.to] = level_[at] + 1;
          queue.push_back(e.to);
        }
      }
    }
    return level_[sink] >= 0;
  }

  /// Pushes flow along one path of the level graph.
  bool augment(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> path;
    std::size_t at = source;
    while (at != sink) {
      bool advanced = false;
      for (std::size_t& i = next_[at]; i < edges_of_[at].size(); ++i) {
        const std::size_t edge = edges_of_[at][i];
        const Edge& e = edges_[edge];
        if (e.capacity > 0 && level_[e.to] == level_[at] + 1) {
          path.push_back(edge);
          at = e.to;
          advanced = true;
          break;
        }
      }
      if (advanced) continue;
      if (path.empty()) return false;
      at = edges_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[at];
    }
    std::int64_t flow = kInfinite;
    for (std::size_t edge : path) flow = std::min(flow, edges_[edge].capacity);
    for (std::size_t edge : path) {
      // Infinite edges stay so: no sum of finite capacities can wear them out.
      if (edges_[edge].capacity < kInfinite / 2) edges_[edge].capacity -= flow;
      if (edges_[edge ^ 1].capacity < kInfinite / 2) edges_[edge ^ 1].capacity += flow;
    }
    return true;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

/// Bytes, and in the last bits what decides between equal choices. Never 0, so that nothing is
/// saved for no reason.
std::int64_t cost(const ResidualQuery& query, ValueId v) {
  const auto i = static_cast<std::size_t>(v);
  if (query.kept[i]) return 1;
  const std::int64_t bytes = std::min(query.graph[v].type.bytes(), FlowNetwork::kInfinite / 1024);
  return bytes * 8 + 1 + (query.results[i] ? 0 : 1) + (query.forward[i] ? 0 : 2);
}

}  // namespace

std::vector<bool> choose_residuals(const ResidualQuery& query) {
  const Graph& graph = query.graph;
  const std::size_t n = graph.nodes.size();
  std::vector<bool> needed(n, false);  // by the backward
  std::vector<bool> read(n, false);    // by a node of the backward itself
  for (ValueId v : query.gradients) needed[static_cast<std::size_t>(v)] = true;
  for (ValueId v : query.gradients) read[static_cast<std::size_t>(v)] = true;
  for (std::size_t v = n; v-- > 0;) {
    if (!needed[v]) continue;
    for (ValueId operand : graph.nodes[v].operands) {
      needed[static_cast<std::size_t>(operand)] = true;
      if (query.backward[v]) read[static_cast<std::size_t>(operand)] = true;
    }
  }
  auto takes_part = [&](std::size_t v) {
    return needed[v] && !query.backward[v] && is_compute(graph.nodes[v]);
  };

  // Vertices: 2v where the value is computed, 2v+1 where it is read, then source and sink.
  const std::size_t source = 2 * n, sink = 2 * n + 1;
  FlowNetwork network(2 * n + 2);
  for (std::size_t v = 0; v < n; ++v) {
    if (!takes_part(v)) continue;
    network.connect(2 * v, 2 * v + 1, cost(query, static_cast<ValueId>(v)));
    const bool expensive = query.forward[v] && !info(graph.nodes[v].op).has(kCheap);
    if (expensive) network.connect(source, 2 * v, FlowNetwork::kInfinite);
    if (read[v]) network.connect(2 * v + 1, sink, FlowNetwork::kInfinite);
    for (ValueId operand : graph.nodes[v].operands) {
      const auto o = static_cast<std::size_t>(operand);
      if (takes_part(o)) network.connect(2 * o + 1, 2 * v, FlowNetwork::kInfinite);
    }
  }
  network.saturate(source, sink);
  const std::vector<bool> below = network.reaches(sink);
  std::vector<bool> saved(n, false);
  for (std::size_t v = 0; v < n; ++v) saved[v] = takes_part(v) && !below[2 * v] && below[2 * v + 1];
  return saved;
}

}  // namespace riffle::ir
