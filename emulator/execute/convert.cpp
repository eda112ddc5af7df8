// cvt. A few frequent pairs have loops of their own; all others go through one of three carriers
// (s64, u64, double, each exact for what it carries). Start reading at select_convert.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/execute/handlers.h"

namespace emulator {
namespace {

using ptx::Type;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

Conversion decode(const Instruction& in) {
  Conversion c;
  const auto bits = static_cast<u64>(in.imm);
  c.to = static_cast<Type>(bits & 0xff);
  c.from = static_cast<Type>(bits >> 8 & 0xff);
  c.to_width = static_cast<u8>(bits >> 16 & 0xff);
  c.from_width = static_cast<u8>(bits >> 24 & 0xff);
  c.rounding = static_cast<Rounding>(bits >> 32 & 0xff);
  c.integer_rounding = bits >> 40 & 1;
  c.ftz = bits >> 41 & 1;
  c.saturate = bits >> 42 & 1;
  c.relu = bits >> 43 & 1;
  return c;
}

u64 load_bits(Warp& w, Row r, u32 width, u32 l) {
  switch (width) {
    case 1:
      return row<u8>(w, r)[l];
    case 2:
      return row<u16>(w, r)[l];
    case 4:
      return row<u32>(w, r)[l];
    default:
      return row<u64>(w, r)[l];
  }
}
void store_bits(Warp& w, Row r, u32 width, u32 l, u64 value) {
  switch (width) {
    case 1:
      row<u8>(w, r)[l] = static_cast<u8>(value);
      break;
    case 2:
      row<u16>(w, r)[l] = static_cast<u16>(value);
      break;
    case 4:
      row<u32>(w, r)[l] = static_cast<u32>(value);
      break;
    default:
      row<u64>(w, r)[l] = value;
  }
}

/// The low bits of `value` that belong to the type, extended as the type says.
u64 narrow(Type type, u64 value) {
  switch (type) {
    case Type::u8:
    case Type::b8:
      return static_cast<u8>(value);
    case Type::s8:
      return static_cast<u64>(static_cast<s64>(static_cast<std::int8_t>(value)));
    case Type::u16:
    case Type::b16:
      return static_cast<u16>(value);
    case Type::s16:
      return static_cast<u64>(static_cast<s64>(static_cast<std::int16_t>(value)));
    case Type::u32:
    case Type::b32:
      return static_cast<u32>(value);
    case Type::s32:
      return static_cast<u64>(static_cast<s64>(static_cast<s32>(value)));
    default:
      return value;
  }
}

double load_real(Type type, u64 bits, bool ftz) {
  switch (type) {
    case Type::f16:
      return from_float16(static_cast<u16>(bits));
    case Type::bf16:
      return from_bfloat16(static_cast<u16>(bits));
    case Type::f64:
      return std::bit_cast<double>(bits);
    default: {
      const float f = std::bit_cast<float>(static_cast<u32>(bits));
      return ftz && std::fabs(f) < 0x1p-126f ? std::copysign(0.0f, f) : f;
    }
  }
}

u64 half_bits(double value, FloatFormat format, bool bfloat, Rounding rounding) {
  const double rounded = round_to(value, format, rounding);
  return bfloat ? to_bfloat16(static_cast<float>(rounded))
                : to_float16(static_cast<float>(rounded));
}

u64 store_real(const Conversion& c, double value) {
  if (c.saturate) value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  if (c.relu) value = value > 0 ? value : value == value ? 0.0 : value;
  switch (c.to) {
    case Type::f16:
      return half_bits(value, kFloat16, false, c.rounding);
    case Type::bf16:
      return half_bits(value, kBfloat16, true, c.rounding);
    case Type::tf32:
      return std::bit_cast<u32>(value == value
                                    ? static_cast<float>(round_to(value, kTf32, c.rounding))
                                    : std::bit_cast<float>(0x7fffffffu));
    case Type::f64:
      return std::bit_cast<u64>(value);
    default: {
      // round_to overflows by mode, and keeps denormals: FloatFormat of f32.
      const FloatFormat single{24, -126, 0x1.fffffep127};
      float f = static_cast<float>(
          c.rounding == Rounding::nearest ? value : round_to(value, single, c.rounding));
      if (c.ftz && std::fabs(f) < 0x1p-126f) f = std::copysign(0.0f, f);
      return f == f ? std::bit_cast<u32>(f) : 0x7fffffffu;
    }
  }
}

double to_integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    default:
      return std::rint(value);
  }
}

/// Saturates. NaN gives 0, but the top bit alone where f64 or 64-bit integers are concerned (PTX
/// ISA, cvt: "1 << (BitWidth(dst) - 1)").
u64 to_integer(Type type, Type from, double value) {
  const u32 bits = size_of(type) * 8;
  if (value != value) return from == Type::f64 || bits == 64 ? u64{1} << (bits - 1) : 0;
  if (is_signed(type)) {
    const double limit = std::ldexp(1.0, static_cast<int>(bits - 1));
    if (value >= limit) return (u64{1} << (bits - 1)) - 1;
    if (value < -limit)
      return static_cast<u64>(-(static_cast<s64>((u64{1} << (bits - 1)) - 1)) - 1);
    return static_cast<u64>(static_cast<s64>(value));
  }
  if (value <= 0) return 0;
  if (value >= std::ldexp(1.0, static_cast<int>(bits)))
    return bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  return static_cast<u64>(value);
}

u64 saturate_integer(const Conversion& c, u64 value) {
  const u32 bits = size_of(c.to) * 8;
  if (is_signed(c.from)) {
    const auto v = static_cast<s64>(value);
    if (is_signed(c.to)) {
      const s64 most = static_cast<s64>((u64{1} << (bits - 1)) - 1);
      return static_cast<u64>(v > most ? most : v < -most - 1 ? -most - 1 : v);
    }
    if (v < 0) return 0;
    return bits < 64 && value > (u64{1} << bits) - 1 ? (u64{1} << bits) - 1 : value;
  }
  const u64 most = (is_signed(c.to) ? u64{1} << (bits - 1) : bits < 64 ? u64{1} << bits : 0) - 1;
  return value > most ? most : value;
}

u64 integer_to_real(const Conversion& c, u64 value) {
  if (c.to == Type::f32 || c.to == Type::f64) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(c.rounding)]);
    volatile double d = 0;
    volatile float f = 0;
    const bool negative = is_signed(c.from);
    if (c.to == Type::f32)
      f = negative ? static_cast<float>(static_cast<s64>(value)) : static_cast<float>(value);
    else
      d = negative ? static_cast<double>(static_cast<s64>(value)) : static_cast<double>(value);
    std::fesetround(FE_TONEAREST);
    return c.to == Type::f32 ? store_real(c, f) : store_real(c, d);
  }
  // To 16 bits: a double rounded to odd, then the format.
  const bool negative = is_signed(c.from) && static_cast<s64>(value) < 0;
  const u64 magnitude = negative ? ~value + 1 : value;
  const u64 high = magnitude >> 32 << 32, low = magnitude & 0xffffffffu;
  const double sum = add_to_odd(static_cast<double>(high), static_cast<double>(low));
  return store_real(c, negative ? -sum : sum);
}

void convert(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const Conversion c = decode(in);
  for (u32 m = mask; m; m &= m - 1) {
    const auto l = static_cast<u32>(std::countr_zero(m));
    const u64 bits = load_bits(w, in.a, c.from_width, l);
    u64 result = 0;
    if (is_float(c.from)) {
      double value = load_real(c.from, bits, c.ftz);
      if (is_float(c.to)) {
        if (c.integer_rounding) value = to_integral(value, c.rounding);
        result = store_real(c, value);
      } else {
        result = narrow(c.to, to_integer(c.to, c.from, to_integral(value, c.rounding)));
      }
    } else {
      const u64 value = narrow(c.from, bits);
      if (is_float(c.to))
        result = integer_to_real(c, value);
      else
        result = narrow(c.to, c.saturate ? saturate_integer(c, value) : value);
    }
    store_bits(w, in.dst, c.to_width, l, result);
  }
  written(w, in.dst, mask);
}

template <class D, class S, class F>
void quick(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const S* a = row<S>(w, in.a);
  D* d = row<D>(w, in.dst);
  D r[32];
  for (int l = 0; l < 32; ++l) r[l] = F::f(a[l]);
  for (int l = 0; l < 32; ++l) d[l] = (mask >> l & 1) ? r[l] : d[l];
  written(w, in.dst, mask);
}
template <class D>
struct Cast {
  template <class S>
  static D f(S a) {
    return static_cast<D>(a);
  }
};
struct ToHalf {
  static u16 f(float a) { return to_float16(a); }
};
struct ToBfloat {
  static u16 f(float a) { return to_bfloat16(a); }
};
struct FromHalf {
  static float f(u16 a) {
    const float v = from_float16(a);
    return v == v ? v : std::bit_cast<float>(0x7fffffffu);
  }
};
struct FromBfloat {
  static float f(u16 a) {
    const float v = from_bfloat16(a);
    return v == v ? v : std::bit_cast<float>(0x7fffffffu);
  }
};

Handler select_quick(const Conversion& c) {
  if (c.saturate || c.relu || c.integer_rounding || c.ftz) return nullptr;
  if (c.to_width != size_of(c.to) || c.from_width != size_of(c.from)) return nullptr;
  const auto pair = [](Type to, Type from) {
    return static_cast<int>(to) * 64 + static_cast<int>(from);
  };
  if (c.rounding == Rounding::nearest) {
    const int p = pair(c.to, c.from);
    if (p == pair(Type::f32, Type::s32)) return quick<float, s32, Cast<float>>;
    if (p == pair(Type::f32, Type::u32)) return quick<float, u32, Cast<float>>;
    if (p == pair(Type::f64, Type::s32)) return quick<double, s32, Cast<double>>;
    if (p == pair(Type::f64, Type::f32)) return quick<double, float, Cast<double>>;
    if (p == pair(Type::f16, Type::f32)) return quick<u16, float, ToHalf>;
    if (p == pair(Type::bf16, Type::f32)) return quick<u16, float, ToBfloat>;
    if (p == pair(Type::f32, Type::f16)) return quick<float, u16, FromHalf>;
    if (p == pair(Type::f32, Type::bf16)) return quick<float, u16, FromBfloat>;
  }
  if (is_float(c.to) || is_float(c.from)) return nullptr;
  const bool sign = is_signed(c.from);
  switch (c.to_width * 16 + c.from_width) {
    case 0x84:
      return sign ? quick<u64, s32, Cast<u64>> : quick<u64, u32, Cast<u64>>;
    case 0x82:
      return sign ? quick<u64, std::int16_t, Cast<u64>> : quick<u64, u16, Cast<u64>>;
    case 0x42:
      return sign ? quick<u32, std::int16_t, Cast<u32>> : quick<u32, u16, Cast<u32>>;
    case 0x48:
      return quick<u32, u64, Cast<u32>>;
    case 0x28:
      return quick<u16, u64, Cast<u16>>;
    case 0x24:
      return quick<u16, u32, Cast<u16>>;
    default:
      return nullptr;
  }
}

template <Type to>
void convert_pair(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask);
  Conversion c = decode(in);
  c.to = to;
  for (u32 m = mask; m; m &= m - 1) {
    const auto l = static_cast<u32>(std::countr_zero(m));
    const u64 high = store_real(c, row<float>(w, in.a)[l]),
              low = store_real(c, row<float>(w, in.b)[l]);
    row<u32>(w, in.dst)[l] = static_cast<u32>(high << 16 | low);
  }
  written(w, in.dst, mask);
}

}  // namespace

void encode(const Conversion& c, Instruction& in) {
  in.imm = static_cast<s64>(
      static_cast<u64>(c.to) | static_cast<u64>(c.from) << 8 | static_cast<u64>(c.to_width) << 16 |
      static_cast<u64>(c.from_width) << 24 | static_cast<u64>(c.rounding) << 32 |
      static_cast<u64>(c.integer_rounding) << 40 | static_cast<u64>(c.ftz) << 41 |
      static_cast<u64>(c.saturate) << 42 | static_cast<u64>(c.relu) << 43);
}

Handler select_convert(const Conversion& c) {
  if (const Handler handler = select_quick(c)) return handler;
  return convert;
}

Handler select_convert_pair(Type to) {
  return to == Type::f16x2    ? convert_pair<Type::f16>
         : to == Type::bf16x2 ? convert_pair<Type::bf16>
                              : nullptr;
}

}  // namespace emulator
