#include <cstring>
#include <utility>

#include "ir/array.h"
#include "jit/session_impl.h"

namespace riffle::jit {

State::State(runtime::Device& device, const ir::Graph& graph,
             const ir::DifferentiatedGraph& gradients, const OptimizerSpec& optimizer)
    : device_(device), graph_(graph), gradients_(gradients) {
  layout_ = layout_state(graph_, gradients_, optimizer);
  for (BufferIndex index : {kParameters, kGradients, kState0, kState1, kScalars}) allocate(index);
}

void State::allocate(BufferIndex index) {
  auto buffer = device_.allocate(layout_.bytes[index], name_of(index));
  if (buffer->host()) std::memset(buffer->host(), 0, static_cast<std::size_t>(buffer->bytes()));
  buffers_[index] = std::move(buffer);
}

void State::reset_optimizer(const OptimizerSpec& optimizer) {
  const StateLayout before = std::exchange(layout_, layout_state(graph_, gradients_, optimizer));
  try {
    allocate_optimizer_state();
  } catch (...) {
    // The old state is gone, but what fitted before fits again: zeroed, so that steps can go on.
    layout_ = before;
    allocate_optimizer_state();
    throw;
  }
}

void State::allocate_optimizer_state() {
  for (BufferIndex index : {kState0, kState1}) {
    buffers_[index].reset();  // before its successor: the peak counts both otherwise
    allocate(index);
  }
}

std::span<std::byte> State::bytes(const Region& region) const {
  runtime::Buffer* buffer = buffers_[region.buffer].get();
  if (!buffer || !buffer->host()) return {};
  return {buffer->host() + region.offset, static_cast<std::size_t>(region.type.bytes())};
}

void State::write_scalars(const OptimizerSpec& optimizer, std::int64_t step) {
  const auto values = optimizer_scalars(optimizer, step);
  for (DType dtype : {DType::f32, DType::f64})
    for (std::size_t i = 0; i < values.size(); ++i) {
      ir::Array scalar{TensorType{dtype, {}}};
      scalar.data[0] = values[i];
      if (auto target = bytes(scalar_region(dtype, i)); !target.empty())
        ir::array_to_bytes(scalar, target);
    }
}

}  // namespace riffle::jit
