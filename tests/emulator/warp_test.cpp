// Operations across lanes and threads: shuffles, votes, matrix fragments, barriers that reduce,
// branches by index, calls.
#include <bit>
#include <cmath>
#include <functional>

#include "emulator/execute/float16.h"
#include "tests/emulator/machine.h"

namespace emulator::testing {
namespace {

/// Each thread t computes %r2 (b32) from %r1 = t and stores it at p[t].
std::vector<std::uint32_t> run(const std::string& body, std::uint32_t threads = 32,
                               const std::string& before = "") {
  const std::string text = ".version 7.8\n.target sm_90\n.address_size 64\n" + before +
                           "\n.visible .entry k(.param .u64 p)\n{\n.reg .pred %p<8>; .reg .b16 "
                           "%h<8>; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %rd<16>;\n"
                           ".shared .align 16 .b8 tile[4096];\nld.param.u64 %rd1, [p];\nmov.u32 "
                           "%r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n" +
                           body + "\nst.global.u32 [%rd2], %r2;\nret;\n}\n";
  std::vector<std::uint32_t> results[2];
  for (const bool independent : {false, true}) {
    Machine m(text);
    m.options.independent_threads = independent;
    const auto p = m.allocate(threads * 4);
    m.launch({1}, {threads}, p);
    results[independent] = m.download<std::uint32_t>(p, threads);
  }
  EXPECT_EQ(results[0], results[1]) << body;
  return results[0];
}
void expect(const std::string& body, const std::function<std::uint32_t(std::uint32_t)>& value,
            std::uint32_t threads = 32, const std::string& before = "") {
  const auto results = run(body, threads, before);
  for (std::uint32_t t = 0; t < threads; ++t)
    ASSERT_EQ(results[t], value(t)) << body << " thread " << t;
}

TEST(Warp, Shuffles) {
  expect("shfl.sync.up.b32 %r2, %r1, 3, 0, -1;", [](std::uint32_t t) { return t < 3 ? t : t - 3; });
  expect("shfl.sync.down.b32 %r2, %r1, 3, 31, -1;",
         [](std::uint32_t t) { return t > 28 ? t : t + 3; });
  expect("shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;", [](std::uint32_t t) { return t ^ 5; });
  expect("shfl.sync.idx.b32 %r2, %r1, 7, 31, -1;", [](std::uint32_t) { return 7u; });
  // Segments of 8 lanes: c = 0x181f (down), 0x1800 (up)
  expect("shfl.sync.down.b32 %r2, %r1, 2, 0x181f, -1;",
         [](std::uint32_t t) { return t % 8 > 5 ? t : t + 2; });
  expect("shfl.sync.up.b32 %r2, %r1, 2, 0x1800, -1;",
         [](std::uint32_t t) { return t % 8 < 2 ? t : t - 2; });
  expect("shfl.sync.idx.b32 %r2, %r1, 3, 0x181f, -1;",
         [](std::uint32_t t) { return t / 8 * 8 + 3; });
  expect("shfl.sync.down.b32 %r2|%p1, %r1, 1, 31, -1; selp.u32 %r2, 1, 0, %p1;",
         [](std::uint32_t t) { return t < 31 ? 1u : 0u; });
  // Two halves with masks of their own, after a branch.
  expect(
      "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOW;\nshfl.sync.idx.b32 %r2, %r1, 20, 31, "
      "0xffff0000;\nbra END;\nLOW: shfl.sync.idx.b32 %r2, %r1, 4, 31, 0xffff;\nEND:",
      [](std::uint32_t t) { return t < 16 ? 4u : 20u; });
  expect(
      "and.b32 %r3, %r1, 16; mov.u32 %r4, 0xffff; shl.b32 %r4, %r4, %r3; add.u32 %r5, %r3, "
      "2;\nshfl.sync.idx.b32 %r2, %r1, %r5, 31, %r4;",
      [](std::uint32_t t) { return t < 16 ? 2u : 18u; });
}

TEST(Warp, VotesMatchesReductions) {
  const std::string odd = "and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 1;\n";
  expect(odd + "vote.sync.ballot.b32 %r2, %p1, -1;", [](std::uint32_t) { return 0xaaaaaaaau; });
  expect(odd + "vote.sync.ballot.b32 %r2, !%p1, -1;", [](std::uint32_t) { return 0x55555555u; });
  expect(odd + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
         [](std::uint32_t) { return 1u; });
  expect(odd + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
         [](std::uint32_t) { return 0u; });
  expect(odd + "vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
         [](std::uint32_t) { return 0u; });
  expect("shr.u32 %r3, %r1, 3;\nmatch.any.sync.b32 %r2, %r3, -1;",
         [](std::uint32_t t) { return 0xffu << (t / 8 * 8); });
  expect("mov.u64 %rd3, 5;\nmatch.all.sync.b64 %r2|%p1, %rd3, -1;",
         [](std::uint32_t) { return ~0u; });
  expect(odd + "match.all.sync.b32 %r2|%p1, %r3, -1;", [](std::uint32_t) { return 0u; });
  expect("redux.sync.add.u32 %r2, %r1, -1;", [](std::uint32_t) { return 496u; });
  expect("sub.s32 %r3, %r1, 5;\nredux.sync.min.s32 %r2, %r3, -1;",
         [](std::uint32_t) { return 0xfffffffbu; });
  expect("sub.s32 %r3, %r1, 5;\nredux.sync.max.u32 %r2, %r3, -1;",
         [](std::uint32_t) { return ~0u; });
  expect("redux.sync.or.b32 %r2, %r1, -1;", [](std::uint32_t) { return 31u; });
  expect("redux.sync.xor.b32 %r2, %r1, -1;", [](std::uint32_t) { return 0u; });
}

TEST(Warp, BarriersReduce) {
  const std::string few = "setp.lt.u32 %p1, %r1, 37;\n";
  expect(few + "bar.red.popc.u32 %r2, 0, %p1;", [](std::uint32_t) { return 37u; }, 96);
  expect(few + "bar.red.popc.u32 %r2, 0, !%p1;", [](std::uint32_t) { return 59u; }, 96);
  expect(
      few + "bar.red.or.pred %p2, 3, %p1; selp.u32 %r2, 1, 0, %p2;",
      [](std::uint32_t) { return 1u; }, 96);
  expect(
      few + "barrier.red.and.pred %p2, 3, 96, %p1; selp.u32 %r2, 1, 0, %p2;",
      [](std::uint32_t) { return 0u; }, 96);
}

TEST(Warp, BranchesByIndexAndCalls) {
  expect(
      "and.b32 %r3, %r1, 3;\nTABLE: .branchtargets A, B, C, B;\nbrx.idx %r3, TABLE;\nA: mov.u32 "
      "%r2, 10; bra END;\nB: mov.u32 %r2, 20; bra END;\nC: mov.u32 %r2, 30;\nEND:",
      [](std::uint32_t t) { return t % 4 == 0   ? 10u
                                   : t % 4 == 2 ? 30u
                                                : 20u; });
  const std::string functions =
      ".func (.reg .u32 y) twice(.reg .u32 x) { add.u32 y, x, x; ret; }\n"
      ".func (.param .b32 y) square(.param .b32 x) { .reg .b32 %r<3>; .reg .pred %p; ld.param.b32 "
      "%r1, [x]; setp.gt.u32 %p, %r1, 20; @%p bra BIG;\n"
      "call (%r1), twice, (%r1); mul.lo.u32 %r2, %r1, %r1; st.param.b32 [y], %r2; ret; BIG: "
      "st.param.b32 [y], %r1; ret; }\n";
  const std::string call =
      "{ .param .b32 a; .param .b32 b; st.param.b32 [a+0], %r1; call.uni (b), square, (a); "
      "ld.param.b32 %r2, [b+0]; }\n";
  const auto value = [](std::uint32_t t) { return t > 20 ? t : 4 * t * t; };
  expect(call, value, 32, functions);
  expect("mov.u32 %r4, 0;\nLOOP:\n" + call +
             "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3;\n@%p1 bra LOOP;",
         value, 32, functions);
  expect(
      "mov.u32 %r2, 1; setp.lt.u32 %p1, %r1, 9;\n@%p1 call (%r2), twice, (%r1);",
      [](std::uint32_t t) { return t < 9 ? 2 * t : 1u; }, 32, functions);
}

TEST(Warp, SpacesAndWidths) {
  expect(
      "mov.u64 %rd3, tile; cvta.shared.u64 %rd4, %rd3; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd4, "
      "%rd4, %rd5;\nst.u32 [%rd4], %r1; ld.u32 %r2, [%rd4];\n"
      "cvta.to.shared.u64 %rd6, %rd4; ld.shared.u32 %r3, [%rd6]; add.u32 %r2, %r2, %r3;",
      [](std::uint32_t t) { return 2 * t; });
  expect(
      "mov.u64 %rd3, tile; cvta.shared.u64 %rd4, %rd3; isspacep.shared %p1, %rd4; isspacep.global "
      "%p2, %rd4; isspacep.global %p3, %rd1;\n"
      "selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; selp.u32 %r4, 4, 0, %p3; or.b32 %r2, %r2, "
      "%r3; or.b32 %r2, %r2, %r4;",
      [](std::uint32_t) { return 5u; });
  // A byte is kept in a wider register, and extended by its type.
  expect(
      "mov.u32 %r3, tile; add.u32 %r3, %r3, %r1; mov.u32 %r4, 0x1f0; add.u32 %r4, %r4, %r1; "
      "st.shared.u8 [%r3], %r4; ld.shared.s8 %r2, [%r3];",
      [](std::uint32_t t) {
        return static_cast<std::uint32_t>(
            static_cast<std::int32_t>(static_cast<std::int8_t>(0xf0 + t)));
      });
  expect(
      "mov.u32 %r3, tile; shl.b32 %r4, %r1, 3; add.u32 %r3, %r3, %r4; st.shared.v2.u32 [%r3], "
      "{%r1, 7}; ld.shared.v2.b32 {_, %r2}, [%r3]; ld.shared.u64 %rd3, [%r3];\n"
      "shr.u64 %rd3, %rd3, 30; cvt.u32.u64 %r4, %rd3; add.u32 %r2, %r2, %r4;",
      [](std::uint32_t) { return 7u + 28u; });
  expect(
      "ld.const.u32 %r2, [table+4]; mov.u64 %rd3, table; ld.const.u32 %r3, [%rd3+8]; add.u32 %r2, "
      "%r2, %r3;",
      [](std::uint32_t) { return 50u; }, 32, ".const .align 4 .u32 table[3] = {10, 20, 30};");
  expect(
      "mov.u32 %r2, %laneid; mov.u32 %r3, %lanemask_lt; popc.b32 %r3, %r3; mov.u32 %r4, %ntid.x; "
      "mad.lo.u32 %r2, %r3, %r4, %r2; mov.u32 %r5, WARP_SZ; add.u32 %r2, %r2, %r5;",
      [](std::uint32_t t) { return t % 32 * 65 + 32; }, 64);
}

TEST(Warp, Atomics) {
  const std::string zero = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [tile], 0;\nbar.sync 0;\n";
  const std::string read = "bar.sync 0;\nld.shared.u32 %r2, [tile];";
  expect(
      zero + "atom.shared.add.u32 %r3, [tile], %r1;\n" + read, [](std::uint32_t) { return 2016u; },
      64);
  expect(zero + "red.shared.max.s32 [tile], %r1;\n" + read, [](std::uint32_t) { return 63u; }, 64);
  expect(
      zero + "atom.shared.or.b32 %r3, [tile], %r1;\n" + read, [](std::uint32_t) { return 63u; },
      64);
  expect(
      zero + "atom.shared.inc.u32 %r3, [tile], 9;\n" + read, [](std::uint32_t) { return 4u; }, 64);
  expect(
      zero + "atom.shared.dec.u32 %r3, [tile], 9;\n" + read, [](std::uint32_t) { return 6u; }, 64);
  expect(
      zero + "atom.shared.cas.b32 %r3, [tile], 0, 5;\n" + read, [](std::uint32_t) { return 5u; },
      64);
  expect(
      zero + "atom.shared.exch.b32 %r3, [tile], 8;\n" + read, [](std::uint32_t) { return 8u; }, 64);
  expect(
      zero + "atom.shared.add.f32 %f1, [tile], 0f3F000000;\n" + read,
      [](std::uint32_t) { return std::bit_cast<std::uint32_t>(32.0f); }, 64);
  expect(
      zero + "mov.b32 %r4, 0x3c003800; atom.shared.add.noftz.f16x2 %r3, [tile], %r4;\n" + read,
      [](std::uint32_t) { return 0x54005000u; }, 64);
  expect(
      zero +
          "mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3; red.relaxed.cta.add.u32 [%rd3], 2;\n" +
          read,
      [](std::uint32_t) { return 128u; }, 64);
}

/// Every shape against a product computed here from the fragment layouts of the PTX ISA.
TEST(Warp, MatrixProducts) {
  struct Shape {
    const char* suffix;
    int k, a, b, c;  ///< registers of each operand
    enum Kind { f16, bf16, tf32, s8 } kind;
    bool half_sum;
  };
  const Shape shapes[] = {
      {"m16n8k8.row.col.f32.f16.f16.f32", 8, 2, 1, 4, Shape::f16, false},
      {"m16n8k16.row.col.f32.f16.f16.f32", 16, 4, 2, 4, Shape::f16, false},
      {"m16n8k16.row.col.f16.f16.f16.f16", 16, 4, 2, 2, Shape::f16, true},
      {"m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, 1, 4, Shape::bf16, false},
      {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 4, 2, 4, Shape::bf16, false},
      {"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1, 4, Shape::tf32, false},
      {"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, 4, Shape::tf32, false},
      {"m16n8k32.row.col.s32.s8.s8.s32", 32, 4, 2, 4, Shape::s8, false},
  };
  for (const Shape& s : shapes) {
    std::string text =
        ".version 7.8\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{\n.reg .b32 "
        "%a<4>, %b<2>, %c<4>; .reg .b32 %t; .reg .b64 %p, %o;\n"
        "ld.param.u64 %p, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 64; add.s64 %p, %p, %o;\n";
    const auto list = [](const char* name, int count) {
      std::string l = "{";
      for (int i = 0; i < count; ++i) l += std::string(i ? ", %" : "%") + name + std::to_string(i);
      return l + "}";
    };
    for (int i = 0; i < s.a; ++i)
      text += "ld.global.b32 %a" + std::to_string(i) + ", [%p+" + std::to_string(4 * i) + "];\n";
    for (int i = 0; i < s.b; ++i)
      text +=
          "ld.global.b32 %b" + std::to_string(i) + ", [%p+" + std::to_string(16 + 4 * i) + "];\n";
    for (int i = 0; i < s.c; ++i)
      text +=
          "ld.global.b32 %c" + std::to_string(i) + ", [%p+" + std::to_string(32 + 4 * i) + "];\n";
    text += "mma.sync.aligned." + std::string(s.suffix) + " " + list("c", s.c) + ", " +
            list("a", s.a) + ", " + list("b", s.b) + ", " + list("c", s.c) + ";\n";
    for (int i = 0; i < s.c; ++i)
      text +=
          "st.global.b32 [%p+" + std::to_string(32 + 4 * i) + "], %c" + std::to_string(i) + ";\n";
    text += "ret;\n}\n";
    // Small integers: every sum is exact.
    int a[16][32], b[32][8], c[16][8];
    std::uint32_t seed = 5;
    const auto small = [&] {
      return seed = seed * 1664525u + 1013904223u, static_cast<int>(seed >> 28) - 8;
    };
    for (auto& row : a)
      for (int& v : row) v = small();
    for (auto& row : b)
      for (int& v : row) v = small();
    for (auto& row : c)
      for (int& v : row) v = small();
    const auto encode = [&](int v) -> std::uint32_t {
      const auto f = static_cast<float>(v);
      if (s.kind == Shape::f16) return to_float16(f);
      if (s.kind == Shape::bf16) return to_bfloat16(f);
      return s.kind == Shape::s8 ? static_cast<std::uint8_t>(v) : std::bit_cast<std::uint32_t>(f);
    };
    const int in_register = s.kind == Shape::tf32 ? 1
                            : s.kind == Shape::s8 ? 4
                                                  : 2,
              bits = 32 / in_register;
    std::vector<std::uint32_t> words(32 * 16);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < s.a; ++r)
        for (int e = 0; e < in_register; ++e)
          words[lane * 16 + r] |=
              encode(a[g + r % 2 * 8][t * in_register + e + r / 2 * 4 * in_register]) << (e * bits);
      for (int r = 0; r < s.b; ++r)
        for (int e = 0; e < in_register; ++e)
          words[lane * 16 + 4 + r] |= encode(b[t * in_register + e + r * 4 * in_register][g])
                                      << (e * bits);
      for (int r = 0; r < s.c; ++r) {
        if (s.half_sum)
          words[lane * 16 + 8 + r] =
              to_float16(static_cast<float>(c[g + r * 8][2 * t])) |
              static_cast<std::uint32_t>(to_float16(static_cast<float>(c[g + r * 8][2 * t + 1])))
                  << 16;
        else
          words[lane * 16 + 8 + r] =
              s.kind == Shape::s8 ? static_cast<std::uint32_t>(c[g + r / 2 * 8][2 * t + r % 2])
                                  : std::bit_cast<std::uint32_t>(
                                        static_cast<float>(c[g + r / 2 * 8][2 * t + r % 2]));
      }
    }
    Machine m(text);
    const auto p = m.upload(words);
    m.launch({1}, {32}, p);
    words = m.download<std::uint32_t>(p, words.size());
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        int expected = c[i][j];
        for (int k = 0; k < s.k; ++k) expected += a[i][k] * b[k][j];
        const int lane = i % 8 * 4 + j / 2;
        float got = 0;
        if (s.half_sum) {
          got = from_float16(
              static_cast<std::uint16_t>(words[lane * 16 + 8 + i / 8] >> (j % 2 * 16)));
        } else {
          const std::uint32_t word = words[lane * 16 + 8 + i / 8 * 2 + j % 2];
          got = s.kind == Shape::s8 ? static_cast<float>(static_cast<std::int32_t>(word))
                                    : std::bit_cast<float>(word);
        }
        ASSERT_EQ(got, static_cast<float>(expected)) << s.suffix << ' ' << i << ' ' << j;
      }
  }
}

TEST(Warp, MatricesThroughSharedMemory) {
  // Each row of 8 halves is 16 bytes; stmatrix then ldmatrix gives the same, transposed twice too.
  const std::string rows =
      "mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r3, %r3, %r4; add.u32 %r5, %r1, 100; "
      "add.u32 %r6, %r1, 200; add.u32 %r7, %r1, 300;\n";
  const std::string sum =
      "mad.lo.u32 %r2, %r9, 3, %r8; mad.lo.u32 %r2, %r10, 5, %r2; mad.lo.u32 %r2, %r11, 7, %r2;";
  const auto value = [](std::uint32_t t) {
    return t + 3 * (t + 100) + 5 * (t + 200) + 7 * (t + 300);
  };
  for (const char* way : {"", ".trans"})
    expect(rows + "stmatrix.sync.aligned.m8n8.x4" + way +
               ".shared.b16 [%r3], {%r1, %r5, %r6, %r7};\nbar.warp.sync "
               "-1;\nldmatrix.sync.aligned.m8n8.x4" +
               way + ".shared.b16 {%r8, %r9, %r10, %r11}, [%r3];\n" + sum,
           value);
  // Transposed once: lane l has element (row 2 (l % 4), column l / 4) in its low half.
  expect(
      "mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r3, %r3, %r4; mov.b32 {%h1, %h2}, "
      "%r1;\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};\nbar.warp.sync -1;\n"
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r2}, [%r3];",
      [](std::uint32_t l) {
        const auto element = [](std::uint32_t row, std::uint32_t column) {
          return column % 2 ? 0u : row * 4 + column / 2;
        };
        return element(2 * (l % 4), l / 4) | element(2 * (l % 4) + 1, l / 4) << 16;
      });
}

}  // namespace
}  // namespace emulator::testing
