// Part of lanes.inl: arithmetic of f32, f64 and the 16-bit floats.

// --- f32 and f64

template <bool ftz>
[[gnu::always_inline]] inline float flush(float a) {
  if (!ftz) return a;
  const u32 bits = __builtin_bit_cast(u32, a);
  return (bits & 0x7f800000u) == 0 ? __builtin_bit_cast(float, bits & 0x80000000u) : a;
}
template <bool ftz>
[[gnu::always_inline]] inline double flush(double a) {
  return a;
}
/// Flush, clamp to [0, 1] (NaN → 0), canonical NaN.
template <bool ftz, bool saturate>
[[gnu::always_inline]] inline float finish(float a) {
  a = flush<ftz>(a);
  if (saturate) return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f;
  return a == a ? a : __builtin_bit_cast(float, 0x7fffffffu);
}
template <bool ftz, bool saturate>
[[gnu::always_inline]] inline double finish(double a) {
  if (saturate) return a > 0 ? (a < 1 ? a : 1.0) : 0.0;
  return a;
}

#define EMULATOR_FLOAT2(name, expression)         \
  template <bool ftz, bool saturate>              \
  struct name {                                   \
    template <class T>                            \
    [[gnu::always_inline]] static T f(T a, T b) { \
      a = flush<ftz>(a), b = flush<ftz>(b);       \
      return finish<ftz, saturate>(expression);   \
    }                                             \
  };
EMULATOR_FLOAT2(FloatAdd, a + b)
EMULATOR_FLOAT2(FloatSub, a - b)
EMULATOR_FLOAT2(FloatMul, a* b)
EMULATOR_FLOAT2(FloatDiv, a / b)

[[gnu::always_inline]] inline bool sign(float a) { return __builtin_bit_cast(u32, a) >> 31; }
[[gnu::always_inline]] inline bool sign(double a) { return __builtin_bit_cast(u64, a) >> 63; }
template <class T>
[[gnu::always_inline]] inline bool less(T a, T b) {
  return a < b || (a == b && sign(a) > sign(b));
}
EMULATOR_FLOAT2(FloatMin, a != a ? b : b != b ? a : less(a, b) ? a : b)
EMULATOR_FLOAT2(FloatMax, a != a ? b : b != b ? a : less(a, b) ? b : a)
EMULATOR_FLOAT2(FloatMinNan, a != a ? a : b != b ? b : less(a, b) ? a : b)
EMULATOR_FLOAT2(FloatMaxNan, a != a ? a : b != b ? b : less(a, b) ? b : a)

[[gnu::always_inline]] inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
[[gnu::always_inline]] inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
template <bool ftz, bool saturate>
struct FloatFma {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b, T c) {
    return finish<ftz, saturate>(fused(flush<ftz>(a), flush<ftz>(b), flush<ftz>(c)));
  }
};
template <bool ftz, bool saturate>
struct FloatSqrt {
  [[gnu::always_inline]] static float f(float a) {
    return finish<ftz, false>(__builtin_sqrtf(flush<ftz>(a)));
  }
  [[gnu::always_inline]] static double f(double a) { return __builtin_sqrt(a); }
};
// neg and abs of a NaN change nothing but the sign bit, as the hardware does.
template <bool ftz, bool saturate>
struct FloatNeg {
  [[gnu::always_inline]] static float f(float a) { return -flush<ftz>(a); }
  [[gnu::always_inline]] static double f(double a) { return -a; }
};
template <bool ftz, bool saturate>
struct FloatAbs {
  [[gnu::always_inline]] static float f(float a) { return __builtin_fabsf(flush<ftz>(a)); }
  [[gnu::always_inline]] static double f(double a) { return __builtin_fabs(a); }
};
struct FloatCopysign {  // sign of a, magnitude of b
  [[gnu::always_inline]] static float f(float a, float b) { return __builtin_copysignf(b, a); }
  [[gnu::always_inline]] static double f(double a, double b) { return __builtin_copysign(b, a); }
};

// --- f16 and bf16: one operation in f32 and one rounding is exact for + - × min max; fma goes
// through double, rounded to odd

struct Float16 {
  [[gnu::always_inline]] static float load(u16 a) { return from_float16(a); }
  [[gnu::always_inline]] static u16 store(float a) { return to_float16(a); }
  static u16 store_odd(double a) {
    const float f = narrow_to_odd(a);
    return to_float16(f);
  }
  /// double → f32 rounded to odd, which a second rounding to 11 bits or fewer cannot notice.
  static float narrow_to_odd(double a) {
    float f = static_cast<float>(a);
    u32 bits = __builtin_bit_cast(u32, f);
    if (!(a - a == 0)) return f;
    const bool infinite = (bits & 0x7fffffffu) == 0x7f800000u;
    if (infinite) return f;
    const double back = f;
    if (back != a && (bits & 1) == 0) {
      if (bits << 1 == 0) return __builtin_bit_cast(float, (a < 0 ? 0x80000001u : 1u));
      bits += (__builtin_fabs(a) > __builtin_fabs(back)) ? 1 : -1;
    }
    return __builtin_bit_cast(float, bits);
  }
};
struct Bfloat16 {
  [[gnu::always_inline]] static float load(u16 a) { return from_bfloat16(a); }
  [[gnu::always_inline]] static u16 store(float a) { return to_bfloat16(a); }
  static u16 store_odd(double a) { return to_bfloat16(Float16::narrow_to_odd(a)); }
};
template <class P, class F>
struct Half1 {
  [[gnu::always_inline]] static u16 f(u16 a) { return P::store(F::f(P::load(a))); }
};
template <class P, class F>
struct Half2 {
  [[gnu::always_inline]] static u16 f(u16 a, u16 b) {
    return P::store(F::f(P::load(a), P::load(b)));
  }
};
/// .ftz of an f16 operation flushes denormals of f16.
template <class P, bool ftz>
[[gnu::always_inline]] inline u16 flush_half(u16 a) {
  return ftz && (a & 0x7c00) == 0 ? static_cast<u16>(a & 0x8000) : a;
}
template <class P, class F>
struct Half2Flushed {
  [[gnu::always_inline]] static u16 f(u16 a, u16 b) {
    return flush_half<P, true>(
        P::store(F::f(P::load(flush_half<P, true>(a)), P::load(flush_half<P, true>(b)))));
  }
};
template <class P, bool ftz, bool saturate, bool relu>
struct HalfFma {
  [[gnu::always_inline]] static u16 f(u16 a, u16 b, u16 c) {
    a = flush_half<P, ftz>(a), b = flush_half<P, ftz>(b), c = flush_half<P, ftz>(c);
    const double product = static_cast<double>(P::load(a)) * P::load(b);
    double sum = add_to_odd(product, P::load(c));
    if (sum != sum) return saturate ? 0 : 0x7fff;
    if (saturate) sum = sum > 0 ? (sum < 1 ? sum : 1.0) : 0.0;
    if (relu) sum = sum > 0 ? sum : 0.0;
    return flush_half<P, ftz>(P::store_odd(sum));
  }
};
template <u16 flip_and, u16 flip_xor>
struct HalfSign {
  [[gnu::always_inline]] static u16 f(u16 a) { return static_cast<u16>((a & flip_and) ^ flip_xor); }
};
