// The buffers that outlive a step: parameters, gradients, optimizer state and scalars (layout.h).
#include <algorithm>
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
  buffers_[index] = device_.allocate(layout_.bytes[index], name_of(index));
  fill_with_zeros(index);
}

void State::fill_with_zeros(BufferIndex index) {
  runtime::Buffer& buffer = *buffers_[index];
  if (buffer.host()) {
    std::memset(buffer.host(), 0, static_cast<std::size_t>(buffer.bytes()));
    return;
  }
  constexpr std::int64_t kChunk = 4 << 20;
  const std::vector<std::byte> zeros(
      static_cast<std::size_t>(std::min(kChunk, std::max<std::int64_t>(buffer.bytes(), 0))));
  for (std::int64_t at = 0; at < buffer.bytes(); at += kChunk)
    buffer.write(at, std::span(zeros).first(
                         static_cast<std::size_t>(std::min(kChunk, buffer.bytes() - at))));
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

std::vector<std::byte> State::read(const Region& region) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(region.type.bytes()));
  buffers_[region.buffer]->read(region.offset, bytes);
  return bytes;
}

void State::write(const Region& region, std::span<const std::byte> bytes) {
  buffers_[region.buffer]->write(region.offset, bytes);
}

void State::write_scalars(const OptimizerSpec& optimizer, std::int64_t step) {
  const auto values = optimizer_scalars(optimizer, step);
  // One write: on a GPU each is a copy of its own.
  std::vector<std::byte> bytes(static_cast<std::size_t>(layout_.bytes[kScalars]));
  for (DType dtype : {DType::f32, DType::f64})
    for (std::size_t i = 0; i < values.size(); ++i) {
      ir::Array scalar{TensorType{dtype, {}}};
      scalar.data[0] = values[i];
      const Region region = scalar_region(dtype, i);
      ir::array_to_bytes(scalar,
                         std::span(bytes).subspan(static_cast<std::size_t>(region.offset),
                                                  static_cast<std::size_t>(region.type.bytes())));
    }
  buffers_[kScalars]->write(0, bytes);
}

}  // namespace riffle::jit
