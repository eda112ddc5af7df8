// sin and cos over the whole range of f32 and f64.
//
// x = (n + f)·π/2 with |f| ≤ ½; then a polynomial of r = f·π/2, chosen and signed by n mod 4. Large
// x needs many bits of 2/π (Payne and Hanek 1983). x is y·2^a with y an integer and a a multiple of
// a step, and n + f = y·(2^a·2/π mod 4) up to a multiple of 4: a table row for each a, chosen by
// selects, holds that constant as a sum of f64.
#include <array>
#include <span>

#include "ir/math.h"
#include "ir/math_terms.h"

namespace riffle::ir {

using namespace terms;

namespace {

/// Rows for a = 0, 20, … 100: f32, whose integers below 2^24 times 2^20 leave room for both parts.
constexpr double kTwoOverPiF32[][2] = {
    {0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55}, {0x1.b727220a94fe1p-3, 0x1.d5f47d4d37703p-58},
    {0x1.220a94fe13abfp+1, -0x1.c1596447e493bp-53}, {0x1.4fe13abe8fa9ap+1, 0x1.bb81b6c52b328p-53},
    {0x1.abe8fa9a6ee07p+1, -0x1.275a99b0ef1bfp-54}, {0x1.a9a6ee06db14bp+1, -0x1.9b0ef1bef806cp-54},
};
constexpr int kStepF32 = 20;

/// Rows for a = 0, 64, … 960.
constexpr double kTwoOverPiF64[][4] = {
    {0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55, -0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163},
    {0x1.fc2757d1f534ep+0, -0x1.1f924eb53361ep-55, 0x1.c820ff28b1d5fp-111, -0x1.443a9e48db91cp-168},
    {0x1.b6c52b3278872p-1, 0x1.07f9458eaf7afp-58, -0x1.d4f246dc8e2dfp-115, 0x1.374b801924bbbp-170},
    {0x1.fe5163abdebbcp+0, 0x1.586dc91b8e909p-54, 0x1.ba5c00c925dd4p-109, 0x1.3a32439fc3bd6p-165},
    {0x1.b7246e3a424ddp+0, 0x1.700324977504fp-55, -0x1.cdbc603c429c7p-109, 0x1.894d39f74411bp-163},
    {0x1.924bba8274648p-6, 0x1.cfe1deb1cb12ap-60, -0x1.63045df7282b4p-114, -0x1.44bb7b16638fep-168},
    {0x1.fc3bd63962535p-1, -0x1.822efb9415a29p-57, 0x1.a24274ce38136p-111, -0x1.741037d8cdc54p-165},
    {0x1.74411afa975dap+1, 0x1.213a671c09ad1p-54, 0x1.f7e413991d63ap-108, -0x1.f2b3182d8dee8p-162},
    {0x1.d338e04d68bf0p-1, -0x1.bec66e29c67cbp-56, 0x1.9cfa4e422fc5ep-111, -0x1.036be27003b40p-167},
    {0x1.3991d63983534p+0, -0x1.82d8dee81d108p-54, -0x1.b5f13801da001p-110, 0x1.e05980fef2f12p-164},
    {0x1.3908bf177bf25p-1, 0x1.d8ffc4bffef03p-59, -0x1.9fc04343b9d29p-114, -0x1.f592e092c9813p-168},
    {0x1.8ffc4bffef02dp+1, -0x1.fc04343b9d298p-54, 0x1.4da3eda6cfd9ep-109, 0x1.3e584dba7a320p-163},
    {0x1.f79788c5ad053p+1, 0x1.a3eda6cfd9e50p-53, -0x1.a7b24585ce04dp-107, 0x1.3cbfd45aea4f7p-161},
    {0x1.b69b3f6793e58p+1, 0x1.36e9e8c7ecd3dp-53, -0x1.00ae9456c229cp-107, -0x1.41a0e84c2f8c6p-164},
    {0x1.a7a31fb34f2ffp+1, 0x1.45aea4f758fd8p-53, -0x1.a0e84c2f8c608p-108, -0x1.d6b5b45650128p-162},
    {0x1.7527bac7ebe5fp+0, 0x1.7b3d0739f78a5p-56, 0x1.497535fdafd89p-111, -0x1.ca8bdea7f33eep-170},
};
constexpr int kStepF64 = 64;

/// The row for |x|, and y = x·2^-a.
template <std::size_t Parts>
struct Row {
  std::array<Term, Parts> part;
  Term y;
};
template <std::size_t Rows, std::size_t Parts>
Row<Parts> choose_row(Term x, const double (&table)[Rows][Parts], int step, int precision) {
  Row<Parts> row;
  const Term magnitude = abs(x);
  Term unit = x.like(1.0);
  for (std::size_t p = 0; p < Parts; ++p) row.part[p] = x.like(table[0][p]);
  for (std::size_t r = 1; r < Rows; ++r) {
    const int a = step * static_cast<int>(r);
    const Term here = compare(Compare::ge, magnitude, x.like(power_of_two(a + precision - 1)));
    unit = select(here, x.like(power_of_two(-a)), unit);
    for (std::size_t p = 0; p < Parts; ++p)
      row.part[p] = select(here, x.like(table[r][p]), row.part[p]);
  }
  row.y = x * unit;
  return row;
}

/// r = x − n·π/2 in x's dtype, and an integer of its size that equals n modulo 4.
struct Quadrant {
  Term r, n;
};

Quadrant reduce_f32(Term x) {
  const auto row = choose_row(x.cast(DType::f64), kTwoOverPiF32, kStepF32, 24);
  const Pair product = two_product(row.y, row.part[0]);  // below 2^46
  const Nearest n = nearest(product.high, 1.0);
  const Term f = (product.high - n.value) + fma(row.y, row.part[1], product.low);
  return {(f * 0x1.921fb54442d18p+0).cast(DType::f32), n.integer.cast(DType::i32)};
}

/// p less the nearest multiple of 4: exact.
Term modulo_4(Term p) { return p - round_even(p * 0.25) * 4.0; }

Quadrant reduce_f64(Term x) {
  const auto row = choose_row(x, kTwoOverPiF64, kStepF64, 53);
  // y is below 2^117: up to 2^119, 2^66, 2^13 and 2^-40.
  const Pair p0 = two_product(row.y, row.part[0]), p1 = two_product(row.y, row.part[1]),
             p2 = two_product(row.y, row.part[2]);
  const Term last = fma(row.y, row.part[3], p2.low);
  Pair sum = two_sum(modulo_4(p0.high), modulo_4(p0.low));
  Term low = sum.low + last;
  for (const Term& p : {p1.high, p1.low, p2.high}) {
    sum = two_sum(sum.high, modulo_4(p));
    low = low + sum.low;
  }
  const Nearest n = nearest(sum.high, 1.0);
  const Pair f = two_sum(sum.high - n.value, low);
  const Term r = fma(f.high, 0x1.921fb54442d18p+0,
                     fma(f.high, 0x1.1a62633145c07p-54, f.low * 0x1.921fb54442d18p+0));
  return {r, n.integer};
}

Term sin_polynomial(Term r) {
  const Term z = r * r;
  const Term tail =
      r.wide()
          ? polynomial(z, {-0x1.5555555555549p-3, 0x1.111111110f842p-7, -0x1.a01a019c0a28bp-13,
                           0x1.71de3570fd557p-19, -0x1.ae5e60c47a9bep-26, 0x1.5d915e0ad176bp-33})
          : polynomial(z, {-0x1.555546p-3, 0x1.110756p-7, -0x1.994b40p-13});
  return fma(r * z, tail, r);
}

Term cos_polynomial(Term r) {
  const Term z = r * r;
  const Term tail = r.wide()
                        ? polynomial(z, {-0.5, 0x1.555555555554cp-5, -0x1.6c16c16c15140p-10,
                                         0x1.a01a019cab739p-16, -0x1.27e4f80533509p-22,
                                         0x1.1ee9e890735ccp-29, -0x1.8facd136358f6p-37})
                        : polynomial(z, {-0.5, 0x1.55554ap-5, -0x1.6c0c82p-10, 0x1.99ff40p-16});
  return fma(z, tail, 1.0);
}

/// sin(x + quarter·π/2).
Term shifted_sin(Term x, int quarter) {
  const Quadrant q = x.wide() ? reduce_f64(x) : reduce_f32(x);
  const auto integer = [&](double v) { return Term{q.n.b, q.n.b->constant(q.n.dtype(), v)}; };
  const Term n = q.n + integer(quarter);
  const Term odd = !equal(n & integer(1), integer(0));
  const Term magnitude = select(odd, cos_polynomial(q.r), sin_polynomial(q.r));
  const Term sign = (n & integer(2)) << (x.wide() ? 62 : 30);
  return (magnitude.bits() ^ sign).bitcast(x.dtype());
}

}  // namespace

Scalar math_sin(ScalarBuilder& b, Scalar x) {
  return through_f32(b, x, [](Term t) {
    return select(equal(t, 0.0), t, shifted_sin(t, 0));  // −0
  });
}
Scalar math_cos(ScalarBuilder& b, Scalar x) {
  return through_f32(b, x, [](Term t) { return shifted_sin(t, 1); });
}

}  // namespace riffle::ir
