// Part of lanes.inl: the loops over lanes, moves, and predicates.

template <class F, class D, class A, int N = 32>
void op1(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const A* a = row<A>(w, in.a);
  D* d = row<D>(w, in.dst);
  if (mask == kAllLanes) {
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = F::f(a[l]);
  } else {
    D r[N];
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) r[l] = F::f(a[l]);
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = (mask >> (l * 32 / N) & 1) ? r[l] : d[l];
  }
  written(w, in.dst, mask);
}

template <class F, class D, class A, class B, int N = 32>
void op2(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  check(w, in, in.b, mask);
  const A* a = row<A>(w, in.a);
  const B* b = row<B>(w, in.b);
  D* d = row<D>(w, in.dst);
  if (mask == kAllLanes) {
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = F::f(a[l], b[l]);
  } else {
    D r[N];
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) r[l] = F::f(a[l], b[l]);
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = (mask >> (l * 32 / N) & 1) ? r[l] : d[l];
  }
  written(w, in.dst, mask);
}

template <class F, class D, class A, class B, class C, int N = 32>
void op3(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  check(w, in, in.b, mask);
  check(w, in, in.c, mask);
  const A* a = row<A>(w, in.a);
  const B* b = row<B>(w, in.b);
  const C* c = row<C>(w, in.c);
  D* d = row<D>(w, in.dst);
  if (mask == kAllLanes) {
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = F::f(a[l], b[l], c[l]);
  } else {
    D r[N];
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) r[l] = F::f(a[l], b[l], c[l]);
    EMULATOR_LANES
    for (int l = 0; l < N; ++l) d[l] = (mask >> (l * 32 / N) & 1) ? r[l] : d[l];
  }
  written(w, in.dst, mask);
}

template <class T>
void move(Warp& w, const Instruction& in, u32 mask) {
  const T* a = row<T>(w, in.a);
  T* d = row<T>(w, in.dst);
  EMULATOR_LANES
  for (int l = 0; l < 32; ++l) d[l] = (mask >> l & 1) ? a[l] : d[l];
  written_as(w, in.dst, w.init[in.a.slot], mask);  // undefined values may be copied
}

/// dst = c ? a : b; c is a predicate.
template <class T>
void select(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.c, mask);
  const u32 p = predicate(w, in.c);
  const T* a = row<T>(w, in.a);
  const T* b = row<T>(w, in.b);
  T* d = row<T>(w, in.dst);
  if (mask == kAllLanes) {
    EMULATOR_LANES
    for (int l = 0; l < 32; ++l) d[l] = (p >> l & 1) ? a[l] : b[l];
  } else {
    EMULATOR_LANES
    for (int l = 0; l < 32; ++l) {
      const T r = (p >> l & 1) ? a[l] : b[l];
      d[l] = (mask >> l & 1) ? r : d[l];
    }
  }
  written_as(w, in.dst, (w.init[in.a.slot] & p) | (w.init[in.b.slot] & ~p), mask);
}

// --- predicates

template <LaneOp op>
void predicates(Warp& w, const Instruction& in, u32 mask) {
  if (op != LaneOp::move) check(w, in, in.a, mask);
  const u32 a = predicate(w, in.a);
  if (op == LaneOp::move) {
    set_predicate(w, in.dst, a, mask);
    written_as(w, in.dst, w.init[in.a.slot], mask);
    return;
  }
  if (op == LaneOp::bit_not) return set_predicate(w, in.dst, ~a, mask);
  check(w, in, in.b, mask);
  const u32 b = predicate(w, in.b);
  set_predicate(w, in.dst,
                op == LaneOp::bit_and  ? a & b
                : op == LaneOp::bit_or ? a | b
                                       : a ^ b,
                mask);
}
