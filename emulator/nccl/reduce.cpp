#include "emulator/nccl/reduce.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/execute/float16.h"

namespace emulator::nccl {
namespace {

struct Type {
  const char* name;
  std::size_t bytes;
};
constexpr std::array<Type, 10> kTypes = {{{"int8", 1},
                                          {"uint8", 1},
                                          {"int32", 4},
                                          {"uint32", 4},
                                          {"int64", 8},
                                          {"uint64", 8},
                                          {"float16", 2},
                                          {"float32", 4},
                                          {"float64", 8},
                                          {"bfloat16", 2}}};
constexpr std::array<const char*, 5> kOps = {"sum", "prod", "max", "min", "avg"};

/// How elements of a type are read, computed with and written.
template <typename T>
struct Plain {
  using Value = T;
  static Value load(const std::byte* at) {
    Value value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(std::byte* at, Value value) { std::memcpy(at, &value, sizeof value); }
  static Value round(Value value) { return value; }
  static constexpr std::size_t kBytes = sizeof(T);
};
template <float (*Widen)(std::uint16_t), std::uint16_t (*Narrow)(float)>
struct Half {
  using Value = float;
  static Value load(const std::byte* at) { return Widen(Plain<std::uint16_t>::load(at)); }
  static void store(std::byte* at, Value value) { Plain<std::uint16_t>::store(at, Narrow(value)); }
  static Value round(Value value) { return Widen(Narrow(value)); }
  static constexpr std::size_t kBytes = 2;
};

template <typename T>
T combine(T a, T b, ncclRedOp_t op) {
  // Whole numbers wrap around, as on the device.
  const auto wrapped = [](auto f, T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<std::common_type_t<T, int>>;
      return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y)));
    } else {
      return f(x, y);
    }
  };
  switch (op) {
    case ncclProd:
      return wrapped([](auto x, auto y) { return x * y; }, a, b);
    case ncclMax:
      return a != a ? a : b != b ? b : a < b ? b : a;
    case ncclMin:
      return a != a ? a : b != b ? b : b < a ? b : a;
    default:
      return wrapped([](auto x, auto y) { return x + y; }, a, b);
  }
}

template <typename Access>
void reduce_as(std::span<const std::byte* const> in, std::byte* out, std::size_t count,
               ncclRedOp_t op) {
  using Value = typename Access::Value;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * Access::kBytes;
    Value value = Access::load(in[0] + at);
    for (std::size_t rank = 1; rank < in.size(); ++rank)
      value = Access::round(combine(value, Access::load(in[rank] + at), op));
    if (op == ncclAvg) value = static_cast<Value>(value / static_cast<Value>(in.size()));
    Access::store(out + at, value);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) noexcept {
  return type >= 0 && static_cast<std::size_t>(type) < kTypes.size() ? kTypes[type].bytes : 0;
}
const char* name_of(ncclDataType_t type) noexcept {
  return size_of(type) ? kTypes[type].name : "an unknown type";
}
const char* name_of_op(ncclRedOp_t op) noexcept {
  return op >= 0 && static_cast<std::size_t>(op) < kOps.size() ? kOps[op] : "an unknown operation";
}

void reduce(std::span<const std::byte* const> in, std::byte* out, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op) noexcept {
  switch (type) {
    case ncclInt8:
      return reduce_as<Plain<std::int8_t>>(in, out, count, op);
    case ncclUint8:
      return reduce_as<Plain<std::uint8_t>>(in, out, count, op);
    case ncclInt32:
      return reduce_as<Plain<std::int32_t>>(in, out, count, op);
    case ncclUint32:
      return reduce_as<Plain<std::uint32_t>>(in, out, count, op);
    case ncclInt64:
      return reduce_as<Plain<std::int64_t>>(in, out, count, op);
    case ncclUint64:
      return reduce_as<Plain<std::uint64_t>>(in, out, count, op);
    case ncclFloat16:
      return reduce_as<Half<from_float16, to_float16>>(in, out, count, op);
    case ncclFloat32:
      return reduce_as<Plain<float>>(in, out, count, op);
    case ncclFloat64:
      return reduce_as<Plain<double>>(in, out, count, op);
    case ncclBfloat16:
      return reduce_as<Half<from_bfloat16, to_bfloat16>>(in, out, count, op);
    default:
      return;
  }
}

}  // namespace emulator::nccl
