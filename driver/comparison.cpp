#include "driver/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace riffle::driver {

std::int64_t different_elements(const HostTensor& a, const HostTensor& b) {
  if (a.type != b.type) return std::max(a.type.elements(), b.type.elements());
  if (a.bytes == b.bytes) return 0;
  const ir::Array x = ir::array_from_bytes(a.type, a.bytes);
  const ir::Array y = ir::array_from_bytes(b.type, b.bytes);
  const auto size = static_cast<std::size_t>(size_of(a.type.dtype));
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const bool both_nan = std::isnan(x.data[i]) && std::isnan(y.data[i]);
    count +=
        !both_nan && std::memcmp(a.bytes.data() + i * size, b.bytes.data() + i * size, size) != 0;
  }
  return count;
}

namespace {
double smallest_normal(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::min();
    case DType::f32:
    case DType::bf16:
      return std::numeric_limits<float>::min();
    case DType::f16:
      return 0x1p-14;
    default:
      return 0;
  }
}
}  // namespace

double relative_error(const ir::Array& a, const ir::Array& reference, const ir::Array* squares) {
  double difference = 0, norm = 0, terms = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const double x = a.data[i], y = reference.data[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::isinf(x) && x == y) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    difference += (x - y) * (x - y);
    norm += y * y;
    if (squares && std::isfinite(squares->data[i])) terms += squares->data[i];
  }
  norm = std::max(norm, terms);
  const double floor = smallest_normal(reference.type.dtype);
  norm = std::max(norm, floor * floor * static_cast<double>(a.data.size()));
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

double reference_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 1000 * 0x1p-53;
    case DType::f32:
      return 1000 * 0x1p-24;
    case DType::bf16:
      return 10 * 0x1p-8;
    case DType::f16:
      return 10 * 0x1p-11;
    default:
      return 0;
  }
}

}  // namespace riffle::driver
