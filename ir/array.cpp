#include "ir/array.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "ir/ops/reference.h"
#include "support/float16.h"

namespace riffle::ir {
namespace {

template <class T>
T load(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

// Saturates, because the largest integers are not doubles; NaN gives 0.
std::int64_t integer_from(double x, std::int64_t lowest, std::int64_t highest) {
  if (std::isnan(x)) return 0;
  if (x >= static_cast<double>(highest)) return highest;
  if (x <= static_cast<double>(lowest)) return lowest;
  return static_cast<std::int64_t>(x);
}

double load_element(DType dtype, std::span<const std::byte> bytes, std::size_t i) {
  switch (dtype) {
    case DType::f32:
      return load<float>(bytes, i);
    case DType::f64:
      return load<double>(bytes, i);
    case DType::bf16:
      return bf16_to_f32(load<std::uint16_t>(bytes, i));
    case DType::f16:
      return f16_to_f32(load<std::uint16_t>(bytes, i));
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(bytes, i));
    case DType::i32:
      return load<std::int32_t>(bytes, i);
    case DType::boolean:
      return load<std::uint8_t>(bytes, i) != 0;
  }
  return 0;
}

void store_element(DType dtype, std::span<std::byte> bytes, std::size_t i, double x) {
  switch (dtype) {
    case DType::f32:
      return store(bytes, i, static_cast<float>(x));
    case DType::f64:
      return store(bytes, i, x);
    case DType::bf16:
      return store(bytes, i, f64_to_bf16(x));
    case DType::f16:
      return store(bytes, i, f64_to_f16(x));
    case DType::i64:
      return store(bytes, i, integer_from(x, INT64_MIN, INT64_MAX));
    case DType::i32:
      return store(bytes, i, static_cast<std::int32_t>(integer_from(x, INT32_MIN, INT32_MAX)));
    case DType::boolean:
      return store(bytes, i, static_cast<std::uint8_t>(x != 0));
  }
}

}  // namespace

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

Array array_from_bytes(const TensorType& type, std::span<const std::byte> bytes) {
  assert(static_cast<std::int64_t>(bytes.size()) == type.bytes());
  Array array(type);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = load_element(type.dtype, bytes, i);
  return array;
}

void array_to_bytes(const Array& array, std::span<std::byte> bytes) {
  assert(static_cast<std::int64_t>(bytes.size()) == array.type.bytes());
  for (std::size_t i = 0; i < array.data.size(); ++i)
    store_element(array.type.dtype, bytes, i, array.data[i]);
}

namespace rules {

std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& result) {
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides(result.size(), 0);
  const std::size_t added = result.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) strides[added + d] = shape[d] == 1 ? 0 : own[d];
  return strides;
}

}  // namespace rules
}  // namespace riffle::ir
