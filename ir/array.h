// Array: a tensor on the host for the reference evaluator, every element held as a double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "riffle/types.h"

namespace riffle::ir {

/// Dense row-major. Integers and booleans are held exactly up to 2^53.
struct Array {
  TensorType type;
  std::vector<double> data;

  Array() = default;
  explicit Array(TensorType t)
      : type(std::move(t)), data(static_cast<std::size_t>(type.elements())) {}
};

/// Row-major strides in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);

/// From and to the bytes of a tensor of array.type (rounding to nearest even on the way out).
Array array_from_bytes(const TensorType& type, std::span<const std::byte> bytes);
void array_to_bytes(const Array& array, std::span<std::byte> bytes);

}  // namespace riffle::ir
