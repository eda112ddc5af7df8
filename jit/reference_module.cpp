// `backend K reference`: a partition computed by the evaluator, behind the same interface as code.
#include <span>

#include "ir/evaluator.h"
#include "jit/specialisation.h"

namespace riffle::jit {
namespace {

struct Slots {
  std::vector<TensorType> inputs, outputs;
};

void run(const ir::Graph& graph, const Slots& slots, void* const* operands) {
  std::vector<ir::Array> arrays;
  for (std::size_t i = 0; i < slots.inputs.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(operands[i]);
    const auto size = static_cast<std::size_t>(slots.inputs[i].bytes());
    arrays.push_back(ir::array_from_bytes(slots.inputs[i], {bytes, size}));
  }
  const std::vector<ir::Array> results = ir::evaluate(graph, arrays);
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto* bytes = static_cast<std::byte*>(operands[slots.inputs.size() + i]);
    ir::array_to_bytes(results[i], {bytes, static_cast<std::size_t>(slots.outputs[i].bytes())});
  }
}

}  // namespace

std::shared_ptr<const CompiledGraph> reference_module(const ir::Graph& graph,
                                                      const std::string& name) {
  auto compiled = std::make_shared<CompiledGraph>();
  codegen::KernelProgram& program = compiled->program;
  codegen::KernelSpec kernel;
  kernel.name = "reference_" + graph.name;
  Slots slots;
  auto add_slot = [&](const TensorType& type, const std::string& slot_name,
                      codegen::Access access) {
    program.slots.push_back({type, slot_name});
    const auto slot = static_cast<std::int32_t>(program.slots.size()) - 1;
    kernel.operands.push_back({slot, access});
    return slot;
  };
  for (ir::ValueId id : graph.inputs()) {
    slots.inputs.push_back(graph[id].type);
    program.input_slots.push_back(add_slot(graph[id].type, graph[id].name, codegen::Access::read));
  }
  for (ir::ValueId id : graph.parameters()) {
    slots.inputs.push_back(graph[id].type);
    program.parameter_slots.push_back(
        add_slot(graph[id].type, graph[id].name, codegen::Access::read));
  }
  for (ir::ValueId id : graph.outputs) {
    slots.outputs.push_back(graph[id].type);
    program.output_slots.push_back(
        add_slot(graph[id].type, graph[id].name, codegen::Access::write));
  }
  compiled->image.name = name;
  runtime::KernelEntry entry;
  entry.name = kernel.name;
  entry.host_function = [graph, slots](void* const* operands) { run(graph, slots, operands); };
  compiled->image.kernels.push_back(std::move(entry));
  program.kernels.push_back(std::move(kernel));
  return compiled;
}

}  // namespace riffle::jit
