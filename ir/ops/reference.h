// What reference implementations on arrays of doubles share.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "ir/array.h"

namespace riffle::ir::rules {

/// The larger, the smaller: NaN wins; of -0 and +0 the larger is +0.
inline double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
inline double smaller(double a, double b) { return -larger(-a, -b); }

/// Strides over `result` of a tensor that broadcasts to it: 0 along stretched dimensions.
std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& result);

/// Calls body(index of each operand's element) for every element of `space` in row-major order;
/// strides[k] are operand k's, one a dimension of space.
template <class Body>
void for_each(const Shape& space, const std::vector<std::vector<std::int64_t>>& strides,
              Body&& body) {
  for (std::int64_t size : space)
    if (size == 0) return;
  std::vector<std::int64_t> index(space.size(), 0), at(strides.size(), 0);
  for (;;) {
    body(std::span<const std::int64_t>(at));
    std::size_t d = space.size();
    for (;;) {
      if (d-- == 0) return;
      for (std::size_t k = 0; k < at.size(); ++k) at[k] += strides[k][d];
      if (++index[d] < space[d]) break;
      for (std::size_t k = 0; k < at.size(); ++k) at[k] -= strides[k][d] * space[d];
      index[d] = 0;
    }
  }
}

/// function(one element of each operand) for every element of the result.
template <class Function>
Array map_broadcast(std::span<const Array> operands, const TensorType& result,
                    Function&& function) {
  Array out(result);
  std::vector<std::vector<std::int64_t>> strides;
  for (const Array& operand : operands)
    strides.push_back(broadcast_strides(operand.type.shape, result.shape));
  std::vector<double> arguments(operands.size());
  std::size_t next = 0;
  for_each(result.shape, strides, [&](std::span<const std::int64_t> at) {
    for (std::size_t k = 0; k < at.size(); ++k)
      arguments[k] = operands[k].data[static_cast<std::size_t>(at[k])];
    out.data[next++] = function(std::span<const double>(arguments));
  });
  return out;
}

}  // namespace riffle::ir::rules
