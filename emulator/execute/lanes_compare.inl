// Part of lanes.inl: setp.

template <Compare c, class T>
[[gnu::always_inline]] inline bool compare(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (c) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b && !unordered;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return a == b || unordered;
    case Compare::neu:
      return a != b;
    case Compare::ltu:
      return !(a >= b);
    case Compare::leu:
      return !(a > b);
    case Compare::gtu:
      return !(a <= b);
    case Compare::geu:
      return !(a < b);
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
  }
  return false;
}
struct Plain {
  template <class T>
  [[gnu::always_inline]] static T load(T a) {
    return a;
  }
};
struct Flushed {
  [[gnu::always_inline]] static float load(float a) { return flush<true>(a); }
};

template <Compare c, class T, class Load = Plain>
void set_predicates(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  check(w, in, in.b, mask);
  const T* a = row<T>(w, in.a);
  const T* b = row<T>(w, in.b);
  u32 p = 0;
  EMULATOR_LANES
  for (u32 l = 0; l < 32; ++l)
    p |= static_cast<u32>(compare<c>(Load::load(a[l]), Load::load(b[l]))) << l;
  u32 q = ~p;
  if (in.flags & kCombineMask) {
    check(w, in, in.c, mask);
    const u32 other = predicate(w, in.c) ^ (in.flags & kCombineNegated ? ~0u : 0u);
    switch (in.flags & kCombineMask) {
      case kCombineAnd:
        p &= other, q &= other;
        break;
      case kCombineOr:
        p |= other, q |= other;
        break;
      default:
        p ^= other, q ^= other;
    }
  }
  set_predicate(w, in.dst, p, mask);
  if (in.flags & kSecondResult) set_predicate(w, extra_row(w, in, 0), q, mask);
}

template <class T, class Load = Plain>
Handler compare_of(Compare c) {
  switch (c) {
    case Compare::eq:
      return set_predicates<Compare::eq, T, Load>;
    case Compare::ne:
      return set_predicates<Compare::ne, T, Load>;
    case Compare::lt:
      return set_predicates<Compare::lt, T, Load>;
    case Compare::le:
      return set_predicates<Compare::le, T, Load>;
    case Compare::gt:
      return set_predicates<Compare::gt, T, Load>;
    case Compare::ge:
      return set_predicates<Compare::ge, T, Load>;
    default:
      break;
  }
  if constexpr (!std::is_same_v<Load, Plain> || std::is_floating_point_v<T>) {
    switch (c) {
      case Compare::equ:
        return set_predicates<Compare::equ, T, Load>;
      case Compare::neu:
        return set_predicates<Compare::neu, T, Load>;
      case Compare::ltu:
        return set_predicates<Compare::ltu, T, Load>;
      case Compare::leu:
        return set_predicates<Compare::leu, T, Load>;
      case Compare::gtu:
        return set_predicates<Compare::gtu, T, Load>;
      case Compare::geu:
        return set_predicates<Compare::geu, T, Load>;
      case Compare::num:
        return set_predicates<Compare::num, T, Load>;
      case Compare::nan:
        return set_predicates<Compare::nan, T, Load>;
      default:
        break;
    }
  }
  return nullptr;
}
