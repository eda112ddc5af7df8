#include "jit/layout.h"

#include "jit/memory_plan.h"

namespace riffle::jit {
namespace {

Region place(runtime::BufferId buffer, std::int64_t& end, TensorType type) {
  Region region{buffer, end, std::move(type)};
  end = align_up(end + region.type.bytes());
  return region;
}

}  // namespace

std::string_view name_of(BufferIndex buffer) noexcept {
  constexpr std::string_view kNames[] = {"parameters", "gradients", "state0",  "state1",
                                         "scalars",    "inputs",    "outputs", "arena"};
  static_assert(std::size(kNames) == kBufferCount);
  return kNames[buffer];
}

StateLayout layout_state(const ir::Graph& graph, const ir::DifferentiatedGraph& gradients,
                         const OptimizerSpec& optimizer) {
  StateLayout layout;
  const std::size_t nodes = graph.nodes.size();
  layout.parameters.resize(nodes);
  layout.gradients.resize(nodes);
  for (auto& states : layout.states) states.resize(nodes);
  for (ir::ValueId id : graph.parameters())
    layout.parameters[id] = place(kParameters, layout.bytes[kParameters], graph[id].type);
  for (ir::ValueId id : gradients.gradient_parameters) {
    layout.gradients[id] = place(kGradients, layout.bytes[kGradients], graph[id].type);
    const TensorType state{state_dtype(graph[id].type.dtype), graph[id].type.shape};
    for (int i = 0; i < state_count(optimizer); ++i) {
      const auto buffer = static_cast<BufferIndex>(kState0 + i);
      layout.states[i][id] = place(buffer, layout.bytes[buffer], state);
    }
  }
  const Region last = scalar_region(DType::f64, kOptimizerScalars - 1);
  layout.bytes[kScalars] = align_up(last.offset + last.type.bytes());
  return layout;
}

Region scalar_region(DType state, std::size_t scalar) noexcept {
  const std::size_t row = state == DType::f64 ? 1 : 0;
  const auto offset = static_cast<std::int64_t>((row * kOptimizerScalars + scalar) * 64);
  return {kScalars, offset, {state, {}}};
}

InputOutputLayout layout_input_output(const ir::Graph& graph,
                                      const std::vector<ir::ValueId>& gradient_inputs) {
  InputOutputLayout layout;
  layout.inputs.resize(graph.nodes.size());
  layout.input_gradients.resize(graph.nodes.size());
  for (ir::ValueId id : graph.inputs())
    layout.inputs[id] = place(kInputs, layout.input_bytes, graph[id].type);
  for (ir::ValueId id : graph.outputs)
    layout.outputs.push_back(place(kOutputs, layout.output_bytes, graph[id].type));
  for (ir::ValueId id : gradient_inputs)
    layout.input_gradients[id] = place(kOutputs, layout.output_bytes, graph[id].type);
  return layout;
}

}  // namespace riffle::jit
