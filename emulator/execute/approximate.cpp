// The approximate functions. Computed in double and rounded, so better than the hardware; with a
// seed, moved by a fraction of the documented bound that follows from seed and argument alone, as
// on a device, where one argument always gives one result.
//
// Bounds (PTX ISA 8.5, 9.7.3 and 9.7.4): relative 2^-22 ex2, 2^-23 sqrt, 2^-22.9 rsqrt, 2^-11 tanh,
// 1 ulp rcp, 2 ulp div; absolute 2^-22 lg2, 2^-20.5 sin and cos; f16 2^-9.9 ex2, 2^-10.987 tanh;
// bf16 2^-7 ex2, 2^-8 tanh.
#include <bit>
#include <cmath>

#include "emulator/execute/handlers.h"

namespace emulator {
namespace {

using ptx::Type;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

float flush(float a, bool ftz) {
  return ftz && std::fabs(a) < 0x1p-126f ? std::copysign(0.0f, a) : a;
}

/// In (-0.95, 0.95), from seed and argument.
double noise(u64 seed, u64 argument) {
  u64 x = seed ^ (argument * 0x9e3779b97f4a7c15u);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (static_cast<double>(x >> 11) * 0x1p-52 - 1.0) * 0.95;
}

double exact(Function function, double a, double b) {
  switch (function) {
    case Function::ex2:
      return std::exp2(a);
    case Function::lg2:
      return std::log2(a);
    case Function::sin:
      return std::sin(a);
    case Function::cos:
      return std::cos(a);
    case Function::tanh:
      return std::tanh(a);
    case Function::rcp:
      return 1.0 / a;
    case Function::rsqrt:
      return 1.0 / std::sqrt(a);
    case Function::sqrt:
      return std::sqrt(a);
    case Function::div:
      return a / b;
  }
  return 0;
}

double bound(Function function, Type type) {
  if (type == Type::f16) return function == Function::tanh ? 0x1p-12 : 0x1p-11;
  if (type == Type::bf16) return function == Function::tanh ? 0x1p-9 : 0x1p-8;
  switch (function) {
    case Function::ex2:
      return 0x1p-23;  // half of the bound: rounding takes its part
    case Function::lg2:
      return 0x1p-23;
    case Function::sin:
    case Function::cos:
      return 0x1p-21;
    case Function::tanh:
      return 0x1.8p-12;
    case Function::rcp:
      return 0x1p-25;
    case Function::rsqrt:
      return 0x1p-24;
    case Function::sqrt:
      return 0x1p-25;
    case Function::div:
      return 0x1p-24;
  }
  return 0;
}

double perturbed(Function function, Type type, double result, u64 seed, u64 argument) {
  if (seed == 0 || !std::isfinite(result) || result == 0) return result;
  const bool absolute =
      function == Function::lg2 || function == Function::sin || function == Function::cos;
  // Exact where the result is exact: powers of two in, powers of two out.
  if (function == Function::ex2 && result == std::exp2(std::rint(std::log2(result)))) return result;
  if (function == Function::lg2 && result == std::rint(result)) return result;
  const double move =
      noise(seed, argument ^ static_cast<u64>(function) << 56) * bound(function, type);
  double moved = absolute ? result + move : result * (1 + move);
  if (function == Function::tanh) moved = std::fmin(1.0, std::fmax(-1.0, moved));
  if (function == Function::sin || function == Function::cos)
    moved = std::fmin(1.0, std::fmax(-1.0, moved));
  return moved;
}

template <Function function>
void single(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  if (function == Function::div) check(w, in, in.b, mask);
  const bool ftz = in.flags & 1;
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const float a = flush(row<float>(w, in.a)[l], ftz);
    const float b = function == Function::div ? flush(row<float>(w, in.b)[l], ftz) : 0;
    double result = exact(function, a, b);
    if (w.seed)
      result = perturbed(function, Type::f32, result, w.seed,
                         static_cast<u64>(std::bit_cast<u32>(b)) << 32 ^ std::bit_cast<u32>(a));
    const float d = flush(static_cast<float>(result), ftz);
    row<float>(w, in.dst)[l] = d == d ? d : std::bit_cast<float>(0x7fffffffu);
  }
  written(w, in.dst, mask);
}

/// rcp and rsqrt .approx.ftz.f64: the upper half of the result, its lower half zero.
template <Function function>
void upper_half(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    double a = std::bit_cast<double>(row<u64>(w, in.a)[l] & 0xffffffff00000000u);
    if (std::fabs(a) < 0x1p-1022) a = std::copysign(0.0, a);
    double d = exact(function, a, 0);
    if (std::fabs(d) < 0x1p-1022) d = std::copysign(0.0, d);
    row<u64>(w, in.dst)[l] =
        d == d ? std::bit_cast<u64>(d) & 0xffffffff00000000u : 0x7fffffff00000000u;
  }
  written(w, in.dst, mask);
}

template <Function function, Type type, int elements>
void half(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  constexpr bool bfloat = type == Type::bf16;
  for (int e = 0; e < 32 * elements; ++e) {
    if (!(mask >> (e / elements) & 1)) continue;
    std::uint16_t bits = row<std::uint16_t>(w, in.a)[e];
    if ((in.flags & 1) && (bits & 0x7f80) == 0 && bfloat) bits &= 0x8000;
    const float a = bfloat ? from_bfloat16(bits) : from_float16(bits);
    const double result = perturbed(function, type, exact(function, a, 0), w.seed, bits);
    row<std::uint16_t>(w, in.dst)[e] =
        bfloat ? to_bfloat16(static_cast<float>(result)) : to_float16(static_cast<float>(result));
  }
  written(w, in.dst, mask);
}

template <Function function>
Handler halves(Type type) {
  switch (type) {
    case Type::f32:
      return single<function>;
    case Type::f16:
      return half<function, Type::f16, 1>;
    case Type::f16x2:
      return half<function, Type::f16, 2>;
    case Type::bf16:
      return half<function, Type::bf16, 1>;
    case Type::bf16x2:
      return half<function, Type::bf16, 2>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_approximate(Function function, Type type) {
  switch (function) {
    case Function::ex2:
      return halves<Function::ex2>(type);
    case Function::tanh:
      return halves<Function::tanh>(type);
    case Function::rcp:
      if (type == Type::f64) return upper_half<Function::rcp>;
      return type == Type::f32 ? single<Function::rcp> : nullptr;
    case Function::rsqrt:
      if (type == Type::f64) return upper_half<Function::rsqrt>;
      return type == Type::f32 ? single<Function::rsqrt> : nullptr;
    default:
      break;
  }
  if (type != Type::f32) return nullptr;
  switch (function) {
    case Function::lg2:
      return single<Function::lg2>;
    case Function::sin:
      return single<Function::sin>;
    case Function::cos:
      return single<Function::cos>;
    case Function::sqrt:
      return single<Function::sqrt>;
    default:
      return single<Function::div>;
  }
}

}  // namespace emulator
