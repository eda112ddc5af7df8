// Where tensors that outlive a kernel lie: the buffers of a Schedule and the regions in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/autodiff.h"
#include "ir/split.h"
#include "jit/optimizer.h"
#include "runtime/schedule.h"

namespace riffle::jit {

/// The buffers of every schedule that a session builds, by index.
enum BufferIndex : runtime::BufferId {
  kParameters,  ///< all parameters
  kGradients,   ///< the gradient bucket: one slot a trainable, used parameter, in ready order
  kState0,      ///< optimizer state, laid out like the gradients
  kState1,
  kScalars,  ///< the optimizer's scalars, f32 then f64
  kInputs,   ///< of one specialisation
  kOutputs,  ///< of one specialisation: outputs, then gradients of inputs
  kArena,    ///< of one specialisation: temporaries, by the memory plan
  kBufferCount,
};
std::string_view name_of(BufferIndex buffer) noexcept;

struct Region {
  runtime::BufferId buffer = -1;
  std::int64_t offset = 0;
  TensorType type;
  runtime::ByteRange range() const { return {buffer, offset, offset + type.bytes()}; }
  explicit operator bool() const noexcept { return buffer >= 0; }
};

/// Parameters, gradients and optimizer state: shared by all specialisations of an Executable.
/// Vectors are indexed by the whole graph's ValueId; a Region without a buffer means none.
struct StateLayout {
  std::vector<Region> parameters, gradients, states[2];
  std::int64_t bytes[kBufferCount] = {};
};
StateLayout layout_state(const ir::Graph& graph, const ir::DifferentiatedGraph& gradients,
                         const OptimizerSpec& optimizer);
Region scalar_region(DType state, std::size_t scalar) noexcept;

/// Inputs and outputs of one specialisation.
struct InputOutputLayout {
  std::vector<Region> inputs;           ///< by ValueId
  std::vector<Region> outputs;          ///< by position in graph.outputs
  std::vector<Region> input_gradients;  ///< by ValueId
  std::int64_t input_bytes = 0, output_bytes = 0;
};
InputOutputLayout layout_input_output(const ir::Graph& graph,
                                      const std::vector<ir::ValueId>& gradient_inputs);

}  // namespace riffle::jit
