// Building blocks of `samples`: shapes that catch what vector code gets wrong. Scalars, zero sizes,
// sizes that are no multiple of a vector (67, 130), broadcasting from every side.
#pragma once

#include <vector>

#include "ir/op.h"

namespace riffle::ir {

/// Both lists. Beside Sample, where argument-dependent look-up finds it.
std::vector<Sample> operator+(std::vector<Sample> a, std::vector<Sample> b);

namespace rules {

/// The dtype under test.
inline TensorType t(Shape shape) { return {DType::f32, std::move(shape)}; }
inline TensorType i64(Shape shape) { return {DType::i64, std::move(shape)}; }
inline TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
inline TensorType boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }

/// One operand, floating; `low` … `high` from the caller.
std::vector<Sample> unary_samples(double low, double high);
/// Two operands of the dtype under test, broadcast.
std::vector<Sample> binary_samples(double low, double high);
/// The same shapes with every dtype under test replaced.
std::vector<Sample> with_dtype(std::vector<Sample> samples, DType dtype);

/// unary_samples in a range, as a function pointer.
template <int low, int high>
std::vector<Sample> unary_in() {
  return unary_samples(low, high);
}

/// Arithmetic that integers have too.
std::vector<Sample> numeric_unary_samples();
std::vector<Sample> numeric_binary_samples();
std::vector<Sample> boolean_binary_samples();

}  // namespace rules
}  // namespace riffle::ir
