// Arithmetic rounded toward zero, down or up: the host's rounding mode around each operation. And
// rcp.rn, which rounds to nearest but has no loop of its own.
#include <bit>
#include <cfenv>
#include <cmath>

#include "emulator/execute/handlers.h"

namespace emulator {
namespace {

using u32 = std::uint32_t;

class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[static_cast<int>(rounding)]);
  }
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

template <class T>
[[gnu::noinline]] T apply(Rounded operation, T a, T b, T c) {
  switch (operation) {
    case Rounded::add:
      return a + b;
    case Rounded::sub:
      return a - b;
    case Rounded::mul:
      return a * b;
    case Rounded::fma:
      return std::fma(a, b, c);
    case Rounded::div:
      return a / b;
    case Rounded::rcp:
      return T(1) / a;
    case Rounded::sqrt:
      return std::sqrt(a);
  }
  return a;
}

template <class T>
void rounded(Warp& w, const Instruction& in, u32 mask) {
  const auto operation = static_cast<Rounded>(in.flags & 0xff);
  const bool ftz = in.flags & kRoundedFtz;
  const bool binary = operation != Rounded::rcp && operation != Rounded::sqrt;
  check(w, in, in.a, mask);
  if (binary) check(w, in, in.b, mask);
  if (operation == Rounded::fma) check(w, in, in.c, mask);
  const auto flush = [&](T a) {
    return ftz && std::fabs(a) < T(0x1p-126) ? std::copysign(T(0), a) : a;
  };
  const RoundingScope scope(static_cast<Rounding>(in.imm));
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const T a = flush(row<T>(w, in.a)[l]);
    const T b = binary ? flush(row<T>(w, in.b)[l]) : T(0);
    const T c = operation == Rounded::fma ? flush(row<T>(w, in.c)[l]) : T(0);
    T d = flush(apply(operation, a, b, c));
    if (in.flags & kRoundedSaturate) d = d > 0 ? (d < 1 ? d : T(1)) : T(0);
    if constexpr (sizeof(T) == 4)
      if (d != d) d = std::bit_cast<float>(0x7fffffffu);
    row<T>(w, in.dst)[l] = d;
  }
  written(w, in.dst, mask);
}

}  // namespace

Handler select_rounded(ptx::Type type) {
  return type == ptx::Type::f32   ? rounded<float>
         : type == ptx::Type::f64 ? rounded<double>
                                  : nullptr;
}

double round_to(double value, FloatFormat format, Rounding rounding) {
  if (!(value - value == 0) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // value = 0.1… × 2^exponent
  const int unit = std::max(exponent, format.least + 1) - format.precision;
  const double scaled = std::ldexp(value, -unit);  // exact: at most 53 bits stay
  double whole = std::trunc(scaled);
  const double rest = std::fabs(scaled - whole);
  const double away = value > 0 ? 1 : -1;
  bool up = false;
  switch (rounding) {
    case Rounding::nearest:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0);
      break;
    case Rounding::nearest_away:
      up = rest >= 0.5;
      break;
    case Rounding::zero:
      break;
    case Rounding::down:
      up = rest > 0 && value < 0;
      break;
    case Rounding::up:
      up = rest > 0 && value > 0;
      break;
  }
  if (up) whole += away;
  const double result = std::ldexp(whole, unit);
  if (std::fabs(result) <= format.largest) return whole == 0 ? std::copysign(0.0, value) : result;
  const bool to_infinity = rounding == Rounding::nearest || rounding == Rounding::nearest_away ||
                           (rounding == Rounding::up && value > 0) ||
                           (rounding == Rounding::down && value < 0);
  return std::copysign(to_infinity ? HUGE_VAL : format.largest, value);
}

}  // namespace emulator
