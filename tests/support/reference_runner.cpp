#include "tests/support/reference_runner.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "ir/evaluator.h"

namespace riffle::test {
namespace {

using Environment = std::map<ir::ValueId, ir::Array>;

const ir::Array& read(const Environment& values, ir::ValueId v, const ir::Graph& whole,
                      std::string_view what) {
  const auto it = values.find(v);
  if (it != values.end()) return it->second;
  throw GraphError(
      {.what = fmt::format("{} of %{} is read before it is made", what, whole[v].name)});
}

void check_sizes(std::size_t actual, std::size_t expected, std::string_view what) {
  if (actual == expected) return;
  throw GraphError({.what = fmt::format("{}: {} described, {} there", what, expected, actual)});
}

}  // namespace

ReferenceStep run_reference(const ir::PartitionedGraph& graph,
                            const ir::DifferentiatedGraph& differentiated,
                            std::span<const ir::Array> arrays) {
  const ir::Graph& whole = graph.whole;
  Environment values, cotangents;
  std::size_t next = 0;
  for (ir::ValueId v : whole.inputs()) values[v] = arrays[next++];
  for (ir::ValueId v : whole.parameters()) values[v] = arrays[next++];

  check_sizes(differentiated.partitions.size(), graph.partitions.size(), "partitions");
  std::vector<std::vector<ir::Array>> forward(graph.partitions.size());
  for (std::size_t k = 0; k < graph.partitions.size(); ++k) {
    const ir::Partition& partition = graph.partitions[k];
    const ir::PartitionGradient& part = differentiated.partitions[k];
    check_sizes(part.forward.inputs().size(), partition.input_values.size(), "forward inputs");
    check_sizes(part.forward.parameters().size(), partition.parameter_values.size(),
                "forward parameters");
    check_sizes(part.forward_results, partition.output_values.size(), "forward results");
    std::vector<ir::Array> arguments;
    for (ir::ValueId v : partition.input_values) {
      arguments.push_back(read(values, v, whole, "the value"));
    }
    for (ir::ValueId v : partition.parameter_values) {
      arguments.push_back(read(values, v, whole, "the value"));
    }
    forward[k] = ir::evaluate(part.forward, arguments);
    for (std::size_t i = 0; i < partition.output_values.size(); ++i) {
      values[partition.output_values[i]] = forward[k][i];
    }
  }

  ReferenceStep step;
  for (ir::ValueId v : whole.outputs) step.outputs.push_back(read(values, v, whole, "the value"));

  for (std::size_t k = graph.partitions.size(); k-- > 0;) {
    const ir::PartitionGradient& part = differentiated.partitions[k];
    if (part.backward.outputs.empty()) continue;
    check_sizes(part.backward.inputs().size(), part.backward_inputs.size(), "backward inputs");
    check_sizes(part.backward.outputs.size(), part.backward_outputs.size(), "backward outputs");
    std::vector<ir::Array> arguments;
    for (const ir::BackwardValue& input : part.backward_inputs) {
      switch (input.kind) {
        case ir::BackwardValue::Kind::residual:
          arguments.push_back(forward[k].at(input.forward_output));
          break;
        case ir::BackwardValue::Kind::primal:
          arguments.push_back(read(values, input.whole, whole, "the value"));
          break;
        case ir::BackwardValue::Kind::cotangent:
          arguments.push_back(read(cotangents, input.whole, whole, "the gradient"));
          break;
      }
    }
    std::vector<ir::Array> results = ir::evaluate(part.backward, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ir::ValueId v = part.backward_outputs[i].whole;
      cotangents[v] = std::move(results[i]);
      if (ir::is_compute(whole[v])) continue;
      std::erase(step.ready_order, whole[v].name);
      step.ready_order.push_back(whole[v].name);
    }
  }
  auto keep = [&](ir::ValueId v) {
    step.gradients[whole[v].name] = read(cotangents, v, whole, "the gradient");
  };
  for (ir::ValueId v : differentiated.gradient_parameters) keep(v);
  for (ir::ValueId v : differentiated.gradient_inputs) keep(v);
  check_sizes(step.ready_order.size(), step.gradients.size(), "gradients");
  return step;
}

bool identical(const ir::Array& a, const ir::Array& b) {
  if (a.type != b.type || a.data.size() != b.data.size()) return false;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    if (std::isnan(a.data[i]) && std::isnan(b.data[i])) continue;
    if (std::bit_cast<std::uint64_t>(a.data[i]) != std::bit_cast<std::uint64_t>(b.data[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace riffle::test
