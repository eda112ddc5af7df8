// Part of lanes.inl: integer arithmetic. F::f takes the type that decides (u32 or s32); overflow
// wraps.

#define EMULATOR_OP1(name, expression)       \
  struct name {                              \
    template <class T>                       \
    [[gnu::always_inline]] static T f(T a) { \
      return static_cast<T>(expression);     \
    }                                        \
  };
#define EMULATOR_OP2(name, expression)            \
  struct name {                                   \
    template <class T>                            \
    [[gnu::always_inline]] static T f(T a, T b) { \
      return static_cast<T>(expression);          \
    }                                             \
  };

template <class T>
struct Wider;
template <>
struct Wider<u16> {
  using type = u32;
};
template <>
struct Wider<s16> {
  using type = s32;
};
template <>
struct Wider<u32> {
  using type = u64;
};
template <>
struct Wider<s32> {
  using type = s64;
};
template <>
struct Wider<u64> {
  using type = unsigned __int128;
};
template <>
struct Wider<s64> {
  using type = __int128;
};

EMULATOR_OP2(IntAdd, a + b)
EMULATOR_OP2(IntSub, a - b)
EMULATOR_OP2(IntAnd, a& b)
EMULATOR_OP2(IntOr, a | b)
EMULATOR_OP2(IntXor, a ^ b)
EMULATOR_OP2(IntMin, a < b ? a : b)
EMULATOR_OP2(IntMax, a > b ? a : b)
EMULATOR_OP1(IntNot, ~a)
EMULATOR_OP1(IntNeg, T(0) - a)
EMULATOR_OP1(IntCnot, a == 0)
struct IntMul {  // u16 × u16 is int × int, which may overflow
  [[gnu::always_inline]] static u16 f(u16 a, u16 b) { return static_cast<u16>(u32{a} * b); }
  [[gnu::always_inline]] static u32 f(u32 a, u32 b) { return a * b; }
  [[gnu::always_inline]] static u64 f(u64 a, u64 b) { return a * b; }
};
struct IntAbs {
  template <class T>
  [[gnu::always_inline]] static T f(T a) {
    using U = std::make_unsigned_t<T>;
    return a < 0 ? static_cast<T>(U(0) - static_cast<U>(a)) : a;
  }
};
struct IntMulHigh {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b) {
    using W = typename Wider<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b) >> (sizeof(T) * 8));
  }
};
struct IntMulWide {
  template <class T>
  [[gnu::always_inline]] static typename Wider<T>::type f(T a, T b) {
    using W = typename Wider<T>::type;
    return static_cast<W>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct IntMad {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b, T c) {
    return static_cast<T>(IntMul::f(a, b) + c);
  }
};
struct IntMadHigh {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b, T c) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(IntMulHigh::f(a, b)) + static_cast<U>(c));
  }
};
struct IntMadWide {
  template <class T, class W>
  [[gnu::always_inline]] static W f(T a, T b, W c) {
    return static_cast<W>(static_cast<std::make_unsigned_t<W>>(IntMulWide::f(a, b)) +
                          static_cast<std::make_unsigned_t<W>>(c));
  }
};
// Division by zero is unspecified in PTX; the hardware's answer. The least number / -1 wraps.
struct IntDiv {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b) {
    if (b == 0) return static_cast<T>(~T(0));
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return IntNegWrap(a);
    return static_cast<T>(a / b);
  }
  template <class T>
  [[gnu::always_inline]] static T IntNegWrap(T a) {
    return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
  }
};
struct IntRem {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct IntShl {
  template <class T>
  [[gnu::always_inline]] static T f(T a, u32 b) {
    constexpr u32 bits = sizeof(T) * 8;
    return b >= bits ? T(0) : static_cast<T>(a << (b & (bits - 1)));
  }
};
struct IntShr {
  template <class T>
  [[gnu::always_inline]] static T f(T a, u32 b) {
    constexpr u32 bits = sizeof(T) * 8;
    return static_cast<T>(a >> (b >= bits ? bits - 1 : b)) >>
           static_cast<int>(b >= bits && !std::is_signed_v<T>);
  }
};
struct IntPopc {
  [[gnu::always_inline]] static u32 f(u32 a) { return static_cast<u32>(__builtin_popcount(a)); }
  [[gnu::always_inline]] static u32 f(u64 a) { return static_cast<u32>(__builtin_popcountll(a)); }
};
struct IntClz {
  [[gnu::always_inline]] static u32 f(u32 a) {
    return a == 0 ? 32 : static_cast<u32>(__builtin_clz(a));
  }
  [[gnu::always_inline]] static u32 f(u64 a) {
    return a == 0 ? 64 : static_cast<u32>(__builtin_clzll(a));
  }
};
struct IntBrev {
  [[gnu::always_inline]] static u32 f(u32 a) {
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(a);
  }
  [[gnu::always_inline]] static u64 f(u64 a) {
    return static_cast<u64>(f(static_cast<u32>(a))) << 32 | f(static_cast<u32>(a >> 32));
  }
};
struct IntSad {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b, T c) {
    using U = std::make_unsigned_t<T>;
    const U difference = static_cast<U>(a < b ? static_cast<U>(b) - static_cast<U>(a)
                                              : static_cast<U>(a) - static_cast<U>(b));
    return static_cast<T>(static_cast<U>(c) + difference);
  }
};
[[gnu::always_inline]] inline s64 low24(s32 a) {
  return static_cast<s32>(static_cast<u32>(a) << 8) >> 8;
}
[[gnu::always_inline]] inline u64 low24(u32 a) { return a & 0xffffffu; }
struct IntMul24 {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b) {
    return static_cast<T>(low24(a) * low24(b));
  }
};
struct IntMul24High {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b) {
    return static_cast<T>(low24(a) * low24(b) >> 16);
  }
};
template <class M>
struct IntMad24 {
  template <class T>
  [[gnu::always_inline]] static T f(T a, T b, T c) {
    return static_cast<T>(static_cast<u32>(M::f(a, b)) + static_cast<u32>(c));
  }
};
struct IntAddSat {
  [[gnu::always_inline]] static s32 f(s32 a, s32 b) {
    const s64 sum = s64{a} + b;
    return static_cast<s32>(sum > 0x7fffffff      ? 0x7fffffff
                            : sum < -0x80000000LL ? -0x80000000LL
                                                  : sum);
  }
};
struct IntSubSat {
  [[gnu::always_inline]] static s32 f(s32 a, s32 b) {
    const s64 sum = s64{a} - b;
    return static_cast<s32>(sum > 0x7fffffff      ? 0x7fffffff
                            : sum < -0x80000000LL ? -0x80000000LL
                                                  : sum);
  }
};
template <bool left, bool clamp>
struct Funnel {  // the 64 bits b:a, shifted by c
  [[gnu::always_inline]] static u32 f(u32 a, u32 b, u32 c) {
    const u64 both = static_cast<u64>(b) << 32 | a;
    const u32 n = clamp ? (c > 32 ? 32 : c) : (c & 31);
    return left ? static_cast<u32>(both << n >> 32) : static_cast<u32>(both >> n);
  }
};
