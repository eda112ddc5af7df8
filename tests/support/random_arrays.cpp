// Values for a graph's inputs and parameters: exact in their dtypes, and indices that are in range.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/random_graph.h"

namespace riffle::test {

using ir::Op;

namespace {

/// What the integer input's readers allow: all elements below it.
std::int64_t index_limit(const ir::Graph& graph, ir::ValueId input) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  auto allow = [&](std::int64_t size) { limit = std::min(limit, size); };
  for (const ir::Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != input) continue;
      const TensorType& first = graph[node.operands[0]].type;
      switch (node.op) {
        case Op::embedding:
          if (i == 0) allow(graph[node.operands[1]].type.shape[0]);
          break;
        case Op::gather:
        case Op::scatter_add:
          if (i == 1) allow(first.shape[static_cast<std::size_t>(node.attrs.integer("dim"))]);
          break;
        case Op::cross_entropy:
        case Op::nll_loss:
          if (i == 1) allow(first.shape[first.rank() == 1 ? 0 : 1]);
          break;
        default:
          break;
      }
    }
  }
  return limit == std::numeric_limits<std::int64_t>::max() ? 8 : std::max<std::int64_t>(limit, 1);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    default:
      return std::round(value * 64) / 64;  // at most 8 bits: exact in bf16 and f16
  }
}

}  // namespace

std::vector<ir::Array> random_arrays(const ir::Graph& graph, std::uint64_t seed) {
  Random random(seed);
  std::vector<ir::ValueId> values = graph.inputs();
  const std::size_t inputs = values.size();
  for (ir::ValueId p : graph.parameters()) values.push_back(p);
  std::vector<ir::Array> arrays;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ir::Array array(graph[values[i]].type);
    const DType dtype = array.type.dtype;
    const std::int64_t limit = is_integer(dtype) ? index_limit(graph, values[i]) : 2;
    for (double& element : array.data) {
      if (is_floating(dtype)) {
        const double range = i < inputs ? 2.0 : 1.0;
        element = round_to(dtype, random.uniform(-range, range));
      } else {
        element = static_cast<double>(random.below(limit));
      }
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace riffle::test
