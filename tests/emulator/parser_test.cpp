// What a module says of itself, what is refused and with which words, and hostile text.
#include "tests/emulator/machine.h"

namespace emulator::testing {
namespace {

std::string refusal(const std::string& text) {
  try {
    ptx::parse(text);
  } catch (const ptx::SyntaxError& error) {
    return error.what();
  }
  return "accepted";
}
std::string in_kernel(const std::string& body) {
  return ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg "
         ".b32 %r<4>; .reg .f32 %f<4>; .reg .pred %p<2>; .reg .b64 %rd<3>;\n" +
         body + "\nret;\n}\n";
}

TEST(Parser, ModuleInformation) {
  const ptx::Module m = ptx::parse(R"(
.version 7.5
.target sm_80, debug
.address_size 64
.file 1 "a.cu"
.global .align 8 .b8 table[6] = {1, 2, 3};
.visible .const .f32 scale = 0f3F800000;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u32 n, .param .align 8 .b8 by_value[12], .param .u64 .ptr .global .align 4 p)
.maxntid 128, 2, 1
.reqntid 64
.minnctapersm 2
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<5>;
  .shared .align 4 .b8 tile[20];
  .local .align 8 .b8 __local_depot0[24];
  .loc 1 3 4
  mov.u32 %r1, tile;
  mov.u64 %rd1, __local_depot0;
  mov.u32 %r2, dynamic;
  .pragma "nounroll";
  ret;
}
.section .debug_str { .b8 1, 2 }
)");
  EXPECT_EQ(m.version_major, 7);
  EXPECT_EQ(m.version_minor, 5);
  EXPECT_EQ(m.target, "sm_80");
  ASSERT_EQ(m.variables.size(), 2u);
  EXPECT_EQ(m.variables[0].bytes, 6u);
  EXPECT_EQ(m.variables[0].alignment, 8u);
  EXPECT_EQ(m.variables[0].initial[2], std::byte{3});
  EXPECT_EQ(m.variables[0].initial[5], std::byte{0});
  EXPECT_EQ(m.variables[1].initial[3], std::byte{0x3f});
  ASSERT_EQ(m.kernels.size(), 1u);
  const ptx::KernelInfo& k = m.kernels[0];
  EXPECT_EQ(k.name, "k");
  ASSERT_EQ(k.parameters.size(), 3u);
  EXPECT_EQ(k.parameters[1].offset, 8u);
  EXPECT_EQ(k.parameters[1].bytes, 12u);
  EXPECT_EQ(k.parameters[2].offset, 24u);
  EXPECT_EQ(k.parameter_bytes, 32u);
  EXPECT_EQ(k.static_shared_bytes, 32u);  // dynamic memory begins at a multiple of 16
  EXPECT_EQ(k.local_bytes, 32u);
  EXPECT_EQ(k.registers, 20u);
  EXPECT_EQ(k.max_threads, 64u);
  EXPECT_EQ(k.required_threads[0], 64u);
}

TEST(Parser, RefusalsNameMnemonicAndLine) {
  EXPECT_EQ(refusal(in_kernel("wgmma.fence.sync.aligned;")),
            "line 7: wgmma.fence.sync.aligned: unknown or unsupported instruction");
  EXPECT_EQ(refusal(in_kernel("add.f32.wild %f1, %f2, %f3;")),
            "line 7: add.f32.wild: modifier .wild is not supported");
  EXPECT_EQ(refusal(in_kernel("add.f32 %f1, %r2, %rd1;")),
            "line 7: add.f32: register %rd1 of type .b64 where .f32 is expected");
  EXPECT_EQ(refusal(in_kernel("add.f32 %f1, %f2, %f9;")),
            "line 7: register %f9 is not declared, found ';'");
  EXPECT_EQ(refusal(in_kernel("add.f32 %f1, %f2;")), "line 7: add.f32: takes 3 operands, not 2");
  EXPECT_EQ(refusal(in_kernel("bra NOWHERE;")), "line 7: there is no label NOWHERE");
  EXPECT_EQ(refusal(in_kernel("shfl.down.b32 %r1, %r1, 1, 31;")),
            "line 7: shfl.down.b32: shfl without .sync does not exist from sm_70 on");
  EXPECT_EQ(refusal(in_kernel("call missing;")), "line 7: call: there is no function missing");
  EXPECT_EQ(refusal(in_kernel("mul.s32 %r1, %r2, %r3;")),
            "line 7: mul.s32: an integer product needs .lo, .hi or .wide");
  EXPECT_EQ(refusal(in_kernel("ld.global.u32 %r1, [%r2];")),
            "line 7: ld.global.u32: an address in this space has 64 bits");
  EXPECT_EQ(refusal(in_kernel("add.u32 %r1, %r2 %r3;")), "line 7: expected ';', found '%r3'");
  EXPECT_EQ(
      refusal(".version 7.8\n.target sm_80\n.func f() { call f; ret; }\n.entry k() { call f; }"),
      "line 3: call: recursive calls are not supported");
  EXPECT_EQ(refusal(""), "line 1: a module begins with .version");
}

TEST(Parser, WarnsOfProductsThatPtxasMayFuse) {
  EXPECT_EQ(
      ptx::parse(in_kernel("mul.rn.f32 %f1, %f2, %f2; add.f32 %f3, %f1, %f2;")).warnings.size(),
      0u);
  EXPECT_EQ(
      ptx::parse(in_kernel("mul.f32 %f1, %f2, %f2; add.rn.f32 %f3, %f1, %f2;")).warnings.size(),
      0u);
  const auto warnings =
      ptx::parse(in_kernel("mul.f32 %f1, %f2, %f2;\nadd.f32 %f3, %f1, %f2;")).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("line 8: add.f32 adds %f1"), std::string::npos) << warnings[0];
}

TEST(Parser, ScopesHideNames) {
  Machine m(
      in_kernel("ld.param.u64 %rd1, [p]; mov.u32 %r1, 1;\n{ .reg .b32 %r<4>; mov.u32 %r1, 2; bra "
                "L; mov.u32 %r1, 5; L: st.global.u32 [%rd1], %r1; }\n"
                "{ bra L; mov.u32 %r1, 9; L: st.global.u32 [%rd1+4], %r1; }"));
  const auto p = m.allocate(8);
  m.launch({1}, {1}, p);
  EXPECT_EQ(m.download<std::uint32_t>(p, 2), (std::vector<std::uint32_t>{2, 1}));
}

/// Truncated anywhere, or with bytes changed: SyntaxError or a module, nothing else.
TEST(Parser, HostileText) {
  const std::string text = read_data("kernels_sm80.ptx");
  std::uint32_t seed = 1;
  const auto random = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  for (int i = 0; i < 60; ++i) refusal(text.substr(0, random() % text.size()));
  const std::string alphabet = "{}()[]<>;:,.%@!|+-_ \n0123456789abcxrpdfu\"\\/*";
  for (int i = 0; i < 150; ++i) {
    // A piece from anywhere, so that later parts are reached too.
    std::string changed = text;
    for (std::uint32_t n = random() % 4 + 1; n > 0; --n)
      changed[random() % changed.size()] =
          i % 8 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    refusal(changed);
  }
  EXPECT_NE(refusal(".version 7.8\n.target sm_80\n.entry k() {" + std::string(100000, '{')),
            "accepted");
  EXPECT_NE(refusal(".version 7.8\n.global .u32 x = " + std::string(100000, '{')), "accepted");
  EXPECT_NE(refusal(".version 7.8\n.global .u32 x[4000000000][4000000000];"), "accepted");
  EXPECT_NE(refusal(in_kernel("add.u32 %r1, %r1, " + std::string(100000, '(') + ";")), "accepted");
  EXPECT_EQ(refusal(in_kernel(".reg .b64 %many<4000000000>; mov.u64 %many7, 1;")), "accepted");
  // Each function calls the one before twice: 2^30 instructions after inlining.
  std::string nested = ".version 7.8\n.target sm_80\n.func f0() { membar.gl; }\n";
  for (int i = 1; i < 30; ++i)
    nested += ".func f" + std::to_string(i) + "() { call f" + std::to_string(i - 1) + "; call f" +
              std::to_string(i - 1) + "; }\n";
  EXPECT_NE(refusal(nested + ".entry k() { call f29; }"), "accepted");
}

}  // namespace
}  // namespace emulator::testing
