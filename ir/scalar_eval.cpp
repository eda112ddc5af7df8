#include "ir/scalar_eval.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "support/float16.h"

namespace riffle::ir {
namespace {

static_assert(sizeof(void*) == 8, "a handle holds 64 bits");

std::uint64_t word(Scalar a) { return reinterpret_cast<std::uintptr_t>(a.handle); }
Scalar make(DType dtype, std::uint64_t bits) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the handle is opaque and never dereferenced
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(bits)), dtype};
}
float f32_of(Scalar a) { return std::bit_cast<float>(static_cast<std::uint32_t>(word(a))); }
double f64_of(Scalar a) { return std::bit_cast<double>(word(a)); }
std::int64_t integer_of(Scalar a) { return static_cast<std::int64_t>(word(a)); }

/// An f32 result, rounded to the narrower dtype if it is one.
Scalar from_f32(DType dtype, float value) {
  if (dtype == DType::bf16) value = bf16_to_f32(f32_to_bf16(value));
  if (dtype == DType::f16) value = f16_to_f32(f32_to_f16(value));
  return make(dtype, std::bit_cast<std::uint32_t>(value));
}
Scalar from_f64(double value) { return make(DType::f64, std::bit_cast<std::uint64_t>(value)); }
Scalar from_bool(bool value) { return make(DType::boolean, value ? 1 : 0); }
/// Wraps to the width of the dtype and sign-extends.
Scalar from_integer(DType dtype, std::uint64_t value) {
  if (dtype == DType::i32)
    value = static_cast<std::uint64_t>(
        static_cast<std::int64_t>(static_cast<std::int32_t>(static_cast<std::uint32_t>(value))));
  return make(dtype, value);
}

template <class Integer>
std::uint64_t saturated(double value) {
  if (value != value) return 0;
  const double limit = -static_cast<double>(std::numeric_limits<Integer>::min());
  if (value >= limit) return static_cast<std::uint64_t>(std::numeric_limits<Integer>::max());
  if (value <= -limit)
    return static_cast<std::uint64_t>(std::int64_t{std::numeric_limits<Integer>::min()});
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// `operation` on the two operands in the arithmetic that their dtype computes in.
template <class Operation>
Scalar float_binary(Scalar a, Scalar b, Operation operation) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::f64) return from_f64(operation(f64_of(a), f64_of(b)));
  return from_f32(a.dtype, operation(f32_of(a), f32_of(b)));
}
template <class Operation>
Scalar float_unary(Scalar a, Operation operation) {
  if (a.dtype == DType::f64) return from_f64(operation(f64_of(a)));
  return from_f32(a.dtype, operation(f32_of(a)));
}

template <class T>
bool holds(Compare how, T a, T b) {
  switch (how) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
  }
  return false;
}

}  // namespace

Scalar EvalScalarBuilder::constant(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return from_f32(dtype, static_cast<float>(value));
    case DType::f64:
      return from_f64(value);
    case DType::bf16:
      return from_f32(dtype, bf16_to_f32(f64_to_bf16(value)));
    case DType::f16:
      return from_f32(dtype, f16_to_f32(f64_to_f16(value)));
    case DType::i64:
      return make(dtype, saturated<std::int64_t>(value));
    case DType::i32:
      return make(dtype, saturated<std::int32_t>(value));
    case DType::boolean:
      return from_bool(value != 0);
  }
  return {};
}

Scalar EvalScalarBuilder::constant_bits(DType dtype, std::uint64_t bits) {
  assert(dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::boolean);
  if (is_integer(dtype)) return from_integer(dtype, bits);
  return make(dtype, dtype == DType::f32 ? static_cast<std::uint32_t>(bits) : bits);
}

Scalar EvalScalarBuilder::add(Scalar a, Scalar b) {
  if (a.dtype == DType::boolean) return bit_or(a, b);
  if (is_integer(a.dtype)) return from_integer(a.dtype, word(a) + word(b));
  return float_binary(a, b, [](auto x, auto y) { return x + y; });
}
Scalar EvalScalarBuilder::sub(Scalar a, Scalar b) {
  assert(a.dtype != DType::boolean);
  if (is_integer(a.dtype)) return from_integer(a.dtype, word(a) - word(b));
  return float_binary(a, b, [](auto x, auto y) { return x - y; });
}
Scalar EvalScalarBuilder::mul(Scalar a, Scalar b) {
  if (a.dtype == DType::boolean) return bit_and(a, b);
  if (is_integer(a.dtype)) return from_integer(a.dtype, word(a) * word(b));
  return float_binary(a, b, [](auto x, auto y) { return x * y; });
}
Scalar EvalScalarBuilder::div(Scalar a, Scalar b) {
  assert(a.dtype != DType::boolean);
  if (is_floating(a.dtype)) return float_binary(a, b, [](auto x, auto y) { return x / y; });
  const std::int64_t min = a.dtype == DType::i64
                               ? std::numeric_limits<std::int64_t>::min()
                               : std::int64_t{std::numeric_limits<std::int32_t>::min()};
  if (integer_of(b) == 0 || (integer_of(a) == min && integer_of(b) == -1)) return make(a.dtype, 0);
  return from_integer(a.dtype, static_cast<std::uint64_t>(integer_of(a) / integer_of(b)));
}

Scalar EvalScalarBuilder::neg(Scalar a) {
  assert(a.dtype != DType::boolean);
  if (is_integer(a.dtype)) return from_integer(a.dtype, 0 - word(a));
  return make(a.dtype, word(a) ^ (a.dtype == DType::f64 ? 1ULL << 63 : 1ULL << 31));
}
Scalar EvalScalarBuilder::abs(Scalar a) {
  if (a.dtype == DType::boolean) return a;
  if (is_integer(a.dtype)) return integer_of(a) < 0 ? neg(a) : a;
  return make(a.dtype, word(a) & ~(a.dtype == DType::f64 ? 1ULL << 63 : 1ULL << 31));
}
Scalar EvalScalarBuilder::sqrt(Scalar a) {
  return float_unary(a, [](auto x) { return std::sqrt(x); });
}
Scalar EvalScalarBuilder::floor(Scalar a) {
  if (!is_floating(a.dtype)) return a;
  return float_unary(a, [](auto x) { return std::floor(x); });
}
Scalar EvalScalarBuilder::round_even(Scalar a) {
  if (!is_floating(a.dtype)) return a;
  return float_unary(a, [](auto x) { return std::nearbyint(x); });  // the rounding mode is nearest
}
Scalar EvalScalarBuilder::fma(Scalar a, Scalar b, Scalar c) {
  assert(a.dtype == DType::f32 || a.dtype == DType::f64);
  if (a.dtype == DType::f64) return from_f64(std::fma(f64_of(a), f64_of(b), f64_of(c)));
  return from_f32(a.dtype, std::fma(f32_of(a), f32_of(b), f32_of(c)));
}

Scalar EvalScalarBuilder::compare(Compare how, Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::f64) return from_bool(holds(how, f64_of(a), f64_of(b)));
  if (is_floating(a.dtype)) return from_bool(holds(how, f32_of(a), f32_of(b)));
  return from_bool(holds(how, integer_of(a), integer_of(b)));
}
Scalar EvalScalarBuilder::select(Scalar condition, Scalar a, Scalar b) {
  assert(condition.dtype == DType::boolean && a.dtype == b.dtype);
  return word(condition) != 0 ? a : b;
}

Scalar EvalScalarBuilder::bit_and(Scalar a, Scalar b) { return make(a.dtype, word(a) & word(b)); }
Scalar EvalScalarBuilder::bit_or(Scalar a, Scalar b) { return make(a.dtype, word(a) | word(b)); }
Scalar EvalScalarBuilder::bit_xor(Scalar a, Scalar b) { return make(a.dtype, word(a) ^ word(b)); }
Scalar EvalScalarBuilder::shift_left(Scalar a, int bits) {
  return from_integer(a.dtype, word(a) << bits);
}
Scalar EvalScalarBuilder::shift_right(Scalar a, int bits) {
  const std::uint64_t mask = a.dtype == DType::i32 ? 0xffffffffULL : ~0ULL;
  return from_integer(a.dtype, (word(a) & mask) >> bits);
}
Scalar EvalScalarBuilder::shift_right_arithmetic(Scalar a, int bits) {
  return from_integer(a.dtype, static_cast<std::uint64_t>(integer_of(a) >> bits));
}

Scalar EvalScalarBuilder::cast(Scalar a, DType to) {
  if (a.dtype == to) return a;
  const bool half = to == DType::bf16 || to == DType::f16;
  if (to == DType::boolean)
    return from_bool(a.dtype == DType::f64  ? f64_of(a) != 0
                     : is_floating(a.dtype) ? f32_of(a) != 0
                                            : word(a) != 0);
  if (!is_floating(a.dtype)) {
    if (!is_floating(to)) return from_integer(to, word(a));
    if (to == DType::f32) return from_f32(to, static_cast<float>(integer_of(a)));
    return constant(to, static_cast<double>(integer_of(a)));  // bf16, f16: by way of f64
  }
  if (is_integer(to))
    return constant(to, a.dtype == DType::f64 ? f64_of(a) : static_cast<double>(f32_of(a)));
  if (to == DType::f64) return from_f64(f32_of(a));
  if (a.dtype == DType::f64)
    return half ? constant(to, f64_of(a)) : from_f32(to, static_cast<float>(f64_of(a)));
  return from_f32(to, f32_of(a));
}

Scalar EvalScalarBuilder::bitcast(Scalar a, DType to) {
  assert(size_of(a.dtype) == size_of(to));
  if (to == DType::i32) return from_integer(to, word(a));
  return make(to, to == DType::f32 ? static_cast<std::uint32_t>(word(a)) : word(a));
}

Scalar scalar_from_memory(DType dtype, std::uint64_t bits) noexcept {
  switch (dtype) {
    case DType::f32:
      return make(dtype, static_cast<std::uint32_t>(bits));
    case DType::bf16:
      return from_f32(dtype, bf16_to_f32(static_cast<std::uint16_t>(bits)));
    case DType::f16:
      return from_f32(dtype, f16_to_f32(static_cast<std::uint16_t>(bits)));
    case DType::boolean:
      return from_bool(static_cast<std::uint8_t>(bits) != 0);
    default:
      return from_integer(dtype, bits);
  }
}

std::uint64_t scalar_to_memory(Scalar a) noexcept {
  switch (a.dtype) {
    case DType::bf16:
      return f32_to_bf16(f32_of(a));
    case DType::f16:
      return f32_to_f16(f32_of(a));
    case DType::i32:
      return static_cast<std::uint32_t>(word(a));
    default:
      return word(a);
  }
}

double scalar_value(Scalar a) noexcept {
  if (a.dtype == DType::f64) return f64_of(a);
  if (is_floating(a.dtype)) return f32_of(a);
  return static_cast<double>(integer_of(a));
}

}  // namespace riffle::ir
