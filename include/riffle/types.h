// DType × Shape = TensorType: the type of every value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "riffle/error.h"

namespace riffle {

/// Element types. The order is part of the on-disk cache key: append only.
enum class DType : std::uint8_t { f32, f64, bf16, f16, i64, i32, boolean };

inline constexpr std::array kAllDTypes = {DType::f32, DType::f64, DType::bf16,   DType::f16,
                                          DType::i64, DType::i32, DType::boolean};

/// "f32", "bf16", "bool" …: the name in text form.
RIFFLE_API std::string_view name_of(DType dtype) noexcept;
/// Inverse of name_of; nullopt for an unknown name.
RIFFLE_API std::optional<DType> dtype_from_name(std::string_view name) noexcept;
/// Bytes of one element; bool is one byte holding 0 or 1.
RIFFLE_API std::int64_t size_of(DType dtype) noexcept;
constexpr bool is_floating(DType d) noexcept { return d <= DType::f16; }
constexpr bool is_integer(DType d) noexcept { return d == DType::i64 || d == DType::i32; }
/// The dtype in which composites compute: f64 for f64, otherwise f32 for floating dtypes.
constexpr DType compute_dtype(DType d) noexcept {
  return (d == DType::bf16 || d == DType::f16) ? DType::f32 : d;
}

/// Sizes of the dimensions, outermost first. Empty = a scalar. Zero sizes are allowed.
using Shape = std::vector<std::int64_t>;

/// Product of the sizes (1 for a scalar). Shapes that came through the verifier do not overflow.
RIFFLE_API std::int64_t element_count(const Shape& shape) noexcept;

/// A dense row-major tensor's type.
struct RIFFLE_API TensorType {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t elements() const noexcept { return element_count(shape); }
  std::int64_t bytes() const noexcept { return elements() * size_of(dtype); }
  std::int64_t rank() const noexcept { return static_cast<std::int64_t>(shape.size()); }
  bool operator==(const TensorType&) const = default;
};

/// "f32[64, 1024]"; a scalar is "f32[]".
RIFFLE_API std::string to_string(const TensorType& type);
/// "[64, 1024]".
RIFFLE_API std::string to_string(const Shape& shape);

}  // namespace riffle
