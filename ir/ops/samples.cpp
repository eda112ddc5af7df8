#include "ir/ops/samples.h"

#include <iterator>

namespace riffle::ir {

std::vector<Sample> operator+(std::vector<Sample> a, std::vector<Sample> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

namespace rules {

std::vector<Sample> unary_samples(double low, double high) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{67}, Shape{3, 130}, Shape{0, 5}, Shape{2, 3, 4, 5}})
    samples.push_back({.operands = {t(shape)}, .low = low, .high = high});
  return samples;
}

std::vector<Sample> binary_samples(double low, double high) {
  const std::pair<Shape, Shape> shapes[] = {
      {{}, {}},        {{67}, {67}},        {{3, 130}, {3, 130}}, {{}, {130}},
      {{4, 67}, {67}}, {{67}, {5, 67}},     {{5, 1}, {1, 67}},    {{0, 3}, {1, 3}},
      {{3, 0}, {}},    {{2, 1, 3}, {5, 1}}, {{1, 130}, {3, 130}}, {{2, 3, 4, 5}, {3, 1, 5}},
      {{1}, {}},
  };
  std::vector<Sample> samples;
  for (const auto& [a, b] : shapes)
    samples.push_back({.operands = {t(a), t(b)}, .low = low, .high = high});
  return samples;
}

std::vector<Sample> with_dtype(std::vector<Sample> samples, DType dtype) {
  for (Sample& sample : samples)
    for (TensorType& operand : sample.operands)
      if (operand.dtype == DType::f32) operand.dtype = dtype;
  return samples;
}

std::vector<Sample> numeric_unary_samples() {
  // The last: everything at the kink.
  return unary_samples(-3, 3) + with_dtype(unary_samples(-9, 9), DType::i64) +
         with_dtype(unary_samples(-9, 9), DType::i32) +
         std::vector<Sample>{{.operands = {t({5})}, .low = 0, .high = 0, .smooth = false}};
}

std::vector<Sample> numeric_binary_samples() {
  // The last: ties everywhere.
  return binary_samples(-3, 3) + with_dtype(binary_samples(-9, 9), DType::i64) +
         with_dtype(binary_samples(-9, 9), DType::i32) +
         std::vector<Sample>{
             {.operands = {t({67}), t({67})}, .low = 1, .high = 1, .smooth = false}};
}

std::vector<Sample> boolean_binary_samples() {
  return with_dtype(binary_samples(0, 1), DType::boolean);
}

}  // namespace rules
}  // namespace riffle::ir
