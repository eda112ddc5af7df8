// Included by lanes_*.cpp inside namespace emulator::EMULATOR_LEVEL. No standard library template
// is used here: one compiled for AVX2 could be the copy that the linker keeps for everybody.
// Start reading at select_lanes, at the end.

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using ptx::Type;

#if defined(__clang__)
#define EMULATOR_LANES  // it compares the addresses first
#else
// A destination is a source's row or another: never one shifted by a lane.
#define EMULATOR_LANES _Pragma("GCC ivdep")
#endif

namespace {

// clang-format off: each needs those before it
#include "emulator/execute/lanes_loops.inl"
#include "emulator/execute/lanes_integer.inl"
#include "emulator/execute/lanes_float.inl"
#include "emulator/execute/lanes_compare.inl"
// clang-format on

template <class F>
Handler by_bits(Type type) {
  switch (size_of(type)) {
    case 2:
      return op2<F, u16, u16, u16>;
    case 4:
      return op2<F, u32, u32, u32>;
    case 8:
      return op2<F, u64, u64, u64>;
    default:
      return nullptr;
  }
}
template <class F>
Handler by_bits1(Type type) {
  switch (size_of(type)) {
    case 2:
      return op1<F, u16, u16>;
    case 4:
      return op1<F, u32, u32>;
    case 8:
      return op1<F, u64, u64>;
    default:
      return nullptr;
  }
}
template <class F>
Handler by_integer(Type type) {
  switch (type) {
    case Type::u16:
      return op2<F, u16, u16, u16>;
    case Type::s16:
      return op2<F, s16, s16, s16>;
    case Type::u32:
      return op2<F, u32, u32, u32>;
    case Type::s32:
      return op2<F, s32, s32, s32>;
    case Type::u64:
      return op2<F, u64, u64, u64>;
    case Type::s64:
      return op2<F, s64, s64, s64>;
    case Type::u16x2:
      return op2<F, u16, u16, u16, 64>;
    case Type::s16x2:
      return op2<F, s16, s16, s16, 64>;
    default:
      return nullptr;
  }
}
template <class F>
Handler by_integer3(Type type) {
  switch (type) {
    case Type::u16:
      return op3<F, u16, u16, u16, u16>;
    case Type::s16:
      return op3<F, s16, s16, s16, s16>;
    case Type::u32:
      return op3<F, u32, u32, u32, u32>;
    case Type::s32:
      return op3<F, s32, s32, s32, s32>;
    case Type::u64:
      return op3<F, u64, u64, u64, u64>;
    case Type::s64:
      return op3<F, s64, s64, s64, s64>;
    default:
      return nullptr;
  }
}
template <class F>
Handler wide2(Type type) {
  switch (type) {
    case Type::u16:
      return op2<F, u32, u16, u16>;
    case Type::s16:
      return op2<F, s32, s16, s16>;
    case Type::u32:
      return op2<F, u64, u32, u32>;
    case Type::s32:
      return op2<F, s64, s32, s32>;
    default:
      return nullptr;
  }
}
template <class F>
Handler wide3(Type type) {
  switch (type) {
    case Type::u16:
      return op3<F, u32, u16, u16, u32>;
    case Type::s16:
      return op3<F, s32, s16, s16, s32>;
    case Type::u32:
      return op3<F, u64, u32, u32, u64>;
    case Type::s32:
      return op3<F, s64, s32, s32, s64>;
    default:
      return nullptr;
  }
}
template <template <bool, bool> class F>
Handler by_float1(const LaneForm& form) {
  if (form.type == Type::f64) return op1<F<false, false>, double, double>;
  if (form.type != Type::f32 || form.saturate) return nullptr;
  return form.ftz ? op1<F<true, false>, float, float> : op1<F<false, false>, float, float>;
}
template <template <bool, bool> class F>
Handler by_float2(const LaneForm& form) {
  switch (form.type) {
    case Type::f64:
      return op2<F<false, false>, double, double, double>;
    case Type::f32:
      if (form.saturate)
        return form.ftz ? op2<F<true, true>, float, float, float>
                        : op2<F<false, true>, float, float, float>;
      return form.ftz ? op2<F<true, false>, float, float, float>
                      : op2<F<false, false>, float, float, float>;
    case Type::f16:
    case Type::f16x2: {
      const bool two = form.type == Type::f16x2;
      if (form.saturate) {
        using S = Half2<Float16, F<false, true>>;
        return form.ftz ? nullptr : two ? op2<S, u16, u16, u16, 64> : op2<S, u16, u16, u16>;
      }
      using P = Half2<Float16, F<false, false>>;
      using Q = Half2Flushed<Float16, F<false, false>>;
      if (form.ftz) return two ? op2<Q, u16, u16, u16, 64> : op2<Q, u16, u16, u16>;
      return two ? op2<P, u16, u16, u16, 64> : op2<P, u16, u16, u16>;
    }
    case Type::bf16:
    case Type::bf16x2: {
      using P = Half2<Bfloat16, F<false, false>>;
      if (form.ftz || form.saturate) return nullptr;
      return form.type == Type::bf16x2 ? op2<P, u16, u16, u16, 64> : op2<P, u16, u16, u16>;
    }
    default:
      return nullptr;
  }
}
template <class P, bool ftz, bool saturate, bool relu>
Handler half_fma(bool two) {
  using F = HalfFma<P, ftz, saturate, relu>;
  return two ? op3<F, u16, u16, u16, u16, 64> : op3<F, u16, u16, u16, u16>;
}
Handler select_fma(const LaneForm& form) {
  switch (form.type) {
    case Type::f64:
      return op3<FloatFma<false, false>, double, double, double, double>;
    case Type::f32:
      if (form.saturate)
        return form.ftz ? op3<FloatFma<true, true>, float, float, float, float>
                        : op3<FloatFma<false, true>, float, float, float, float>;
      return form.ftz ? op3<FloatFma<true, false>, float, float, float, float>
                      : op3<FloatFma<false, false>, float, float, float, float>;
    case Type::f16:
    case Type::f16x2: {
      const bool two = form.type == Type::f16x2;
      if (form.saturate)
        return form.ftz ? half_fma<Float16, true, true, false>(two)
                        : half_fma<Float16, false, true, false>(two);
      if (form.relu)
        return form.ftz ? half_fma<Float16, true, false, true>(two)
                        : half_fma<Float16, false, false, true>(two);
      return form.ftz ? half_fma<Float16, true, false, false>(two)
                      : half_fma<Float16, false, false, false>(two);
    }
    case Type::bf16:
    case Type::bf16x2: {
      const bool two = form.type == Type::bf16x2;
      if (form.ftz || form.saturate) return nullptr;
      return form.relu ? half_fma<Bfloat16, false, false, true>(two)
                       : half_fma<Bfloat16, false, false, false>(two);
    }
    default:
      return nullptr;
  }
}
template <u16 flip_and, u16 flip_xor>
Handler half_sign(Type type) {
  using F = HalfSign<flip_and, flip_xor>;
  return is_packed(type) ? op1<F, u16, u16, 64> : op1<F, u16, u16>;
}
bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
template <LaneOp op, class F>
Handler logic(Type type) {
  return type == Type::pred ? predicates<op> : by_bits<F>(type);
}
template <class F, class T>
constexpr Handler shift = op2<F, T, T, u32>;

}  // namespace

Handler select_lanes(const LaneForm& form) {
  const Type type = form.type;
  const bool real = is_float(type);
  switch (form.op) {
    case LaneOp::move:
      switch (type == Type::pred ? 0 : size_of(type)) {
        case 0:
          return predicates<LaneOp::move>;
        case 1:
          return move<u8>;
        case 2:
          return move<u16>;
        case 4:
          return move<u32>;
        case 8:
          return move<u64>;
        default:
          return nullptr;
      }
    case LaneOp::select:
      switch (size_of(type)) {
        case 2:
          return select<u16>;
        case 4:
          return select<u32>;
        case 8:
          return select<u64>;
        default:
          return nullptr;
      }
    case LaneOp::add:
      if (real) return by_float2<FloatAdd>(form);
      return is_packed(type) ? op2<IntAdd, u16, u16, u16, 64> : by_bits<IntAdd>(type);
    case LaneOp::sub:
      return real ? by_float2<FloatSub>(form) : by_bits<IntSub>(type);
    case LaneOp::mul:
      return real ? by_float2<FloatMul>(form) : by_bits<IntMul>(type);
    case LaneOp::add_sat:
      return op2<IntAddSat, s32, s32, s32>;
    case LaneOp::sub_sat:
      return op2<IntSubSat, s32, s32, s32>;
    case LaneOp::mul_high:
      return is_packed(type) ? nullptr : by_integer<IntMulHigh>(type);
    case LaneOp::mul_wide:
      return wide2<IntMulWide>(type);
    case LaneOp::mad:
      switch (size_of(type)) {
        case 2:
          return op3<IntMad, u16, u16, u16, u16>;
        case 4:
          return op3<IntMad, u32, u32, u32, u32>;
        case 8:
          return op3<IntMad, u64, u64, u64, u64>;
        default:
          return nullptr;
      }
    case LaneOp::mad_high:
      return by_integer3<IntMadHigh>(type);
    case LaneOp::mad_wide:
      return wide3<IntMadWide>(type);
    case LaneOp::div:
      if (real) return type == Type::f32 || type == Type::f64 ? by_float2<FloatDiv>(form) : nullptr;
      return is_packed(type) ? nullptr : by_integer<IntDiv>(type);
    case LaneOp::rem:
      return real || is_packed(type) ? nullptr : by_integer<IntRem>(type);
    case LaneOp::neg:
      if (is_half(type)) return form.ftz ? nullptr : half_sign<0xffff, 0x8000>(type);
      return real ? by_float1<FloatNeg>(form) : is_signed(type) ? by_bits1<IntNeg>(type) : nullptr;
    case LaneOp::abs:
      if (is_half(type)) return form.ftz ? nullptr : half_sign<0x7fff, 0>(type);
      if (real) return by_float1<FloatAbs>(form);
      switch (type) {
        case Type::s16:
          return op1<IntAbs, s16, s16>;
        case Type::s32:
          return op1<IntAbs, s32, s32>;
        case Type::s64:
          return op1<IntAbs, s64, s64>;
        default:
          return nullptr;
      }
    case LaneOp::min:
      return real ? by_float2<FloatMin>(form) : by_integer<IntMin>(type);
    case LaneOp::max:
      return real ? by_float2<FloatMax>(form) : by_integer<IntMax>(type);
    case LaneOp::min_nan:
      return real && type != Type::f64 ? by_float2<FloatMinNan>(form) : nullptr;
    case LaneOp::max_nan:
      return real && type != Type::f64 ? by_float2<FloatMaxNan>(form) : nullptr;
    case LaneOp::fma:
      return select_fma(form);
    case LaneOp::sqrt:
      return by_float1<FloatSqrt>(form);
    case LaneOp::copysign:
      if (type == Type::f64) return op2<FloatCopysign, double, double, double>;
      return type == Type::f32 ? op2<FloatCopysign, float, float, float> : nullptr;
    case LaneOp::bit_and:
      return logic<LaneOp::bit_and, IntAnd>(type);
    case LaneOp::bit_or:
      return logic<LaneOp::bit_or, IntOr>(type);
    case LaneOp::bit_xor:
      return logic<LaneOp::bit_xor, IntXor>(type);
    case LaneOp::bit_not:
      return type == Type::pred ? predicates<LaneOp::bit_not> : by_bits1<IntNot>(type);
    case LaneOp::cnot:
      return by_bits1<IntCnot>(type);
    case LaneOp::shl:
      switch (size_of(type)) {
        case 2:
          return shift<IntShl, u16>;
        case 4:
          return shift<IntShl, u32>;
        case 8:
          return shift<IntShl, u64>;
        default:
          return nullptr;
      }
    case LaneOp::shr:
      switch (type) {
        case Type::s16:
          return shift<IntShr, s16>;
        case Type::s32:
          return shift<IntShr, s32>;
        case Type::s64:
          return shift<IntShr, s64>;
        case Type::u16:
        case Type::b16:
          return shift<IntShr, u16>;
        case Type::u32:
        case Type::b32:
          return shift<IntShr, u32>;
        case Type::u64:
        case Type::b64:
          return shift<IntShr, u64>;
        default:
          return nullptr;
      }
    case LaneOp::popc:
      return type == Type::b32   ? op1<IntPopc, u32, u32>
             : type == Type::b64 ? op1<IntPopc, u32, u64>
                                 : nullptr;
    case LaneOp::clz:
      return type == Type::b32   ? op1<IntClz, u32, u32>
             : type == Type::b64 ? op1<IntClz, u32, u64>
                                 : nullptr;
    case LaneOp::brev:
      return type == Type::b32   ? op1<IntBrev, u32, u32>
             : type == Type::b64 ? op1<IntBrev, u64, u64>
                                 : nullptr;
    case LaneOp::sad:
      return by_integer3<IntSad>(type);
    case LaneOp::mul24:
      return type == Type::u32   ? op2<IntMul24, u32, u32, u32>
             : type == Type::s32 ? op2<IntMul24, s32, s32, s32>
                                 : nullptr;
    case LaneOp::mul24_high:
      return type == Type::u32   ? op2<IntMul24High, u32, u32, u32>
             : type == Type::s32 ? op2<IntMul24High, s32, s32, s32>
                                 : nullptr;
    case LaneOp::mad24:
      return type == Type::u32   ? op3<IntMad24<IntMul24>, u32, u32, u32, u32>
             : type == Type::s32 ? op3<IntMad24<IntMul24>, s32, s32, s32, s32>
                                 : nullptr;
    case LaneOp::mad24_high:
      return type == Type::u32   ? op3<IntMad24<IntMul24High>, u32, u32, u32, u32>
             : type == Type::s32 ? op3<IntMad24<IntMul24High>, s32, s32, s32, s32>
                                 : nullptr;
    case LaneOp::funnel_left:
      return op3<Funnel<true, false>, u32, u32, u32, u32>;
    case LaneOp::funnel_right:
      return op3<Funnel<false, false>, u32, u32, u32, u32>;
    case LaneOp::funnel_left_clamp:
      return op3<Funnel<true, true>, u32, u32, u32, u32>;
    case LaneOp::funnel_right_clamp:
      return op3<Funnel<false, true>, u32, u32, u32, u32>;
  }
  return nullptr;
}

Handler select_compare(Compare c, Type type, bool ftz) {
  switch (type) {
    case Type::u16:
      return compare_of<u16>(c);
    case Type::s16:
      return compare_of<s16>(c);
    case Type::u32:
      return compare_of<u32>(c);
    case Type::s32:
      return compare_of<s32>(c);
    case Type::u64:
      return compare_of<u64>(c);
    case Type::s64:
      return compare_of<s64>(c);
    case Type::b16:
      return c <= Compare::ne ? compare_of<u16>(c) : nullptr;
    case Type::b32:
      return c <= Compare::ne ? compare_of<u32>(c) : nullptr;
    case Type::b64:
      return c <= Compare::ne ? compare_of<u64>(c) : nullptr;
    case Type::f32:
      return ftz ? compare_of<float, Flushed>(c) : compare_of<float>(c);
    case Type::f64:
      return compare_of<double>(c);
    case Type::f16:
      return compare_of<u16, Float16>(c);
    case Type::bf16:
      return compare_of<u16, Bfloat16>(c);
    default:
      return nullptr;
  }
}
