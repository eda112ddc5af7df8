// What code generation refuses, and that refusing leaves the process and later compiles well.
#include <gtest/gtest.h>

#include <thread>

#include "codegen/host/target.h"
#include "host_run.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "refused.h"
#include "tests/support/leaks.h"

namespace riffle::codegen {
namespace {

using testing::refused;

KernelProgram small_program() {
  ir::Builder b("small");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {8, 33}}, "x");
  return build_kernels(
      ir::lower_to_primitives(b.finish({b.append(ir::Op::softmax, {b.append(ir::Op::exp, {x})})})));
}

void expect_compiles() {
  EXPECT_FALSE(compile_host(small_program(), detect_host(), "p_").object.empty());
}

TEST(HostCompile, RefusesUnknownTargets) {
  const auto with = [](auto change) {
    HostTarget target = detect_host();
    change(target);
    return refused([&] { compile_host(small_program(), target, "p_"); });
  };
  EXPECT_NE(with([](HostTarget& t) { t.cpu = "pentium9"; }).find("unknown CPU 'pentium9'"),
            std::string::npos);
  // LLVM knows it; kernels need fma.
  EXPECT_NE(with([](HostTarget& t) { t.cpu = "core2"; }).find("unknown CPU"), std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.features = "+avx9"; }).find("unknown CPU feature 'avx9'"),
            std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.features = "avx2"; }).find("no sign"), std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.features = "-fma"; }).find("lacks fma"), std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.triple = "sparc-sun-solaris"; }).find("sparc"),
            std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.vector_bytes = 48; }).find("48"), std::string::npos);
  EXPECT_NE(with([](HostTarget& t) { t.sanitizer = "memory"; }).find("memory"), std::string::npos);
  expect_compiles();
}

TEST(HostCompile, RefusesIrThatKernelsDoNotHave) {
  const HostTarget target = detect_host();
  const auto message = [&](const std::string& body, const std::string& declarations = "") {
    return refused([&] {
      compile_text(code_target(target),
                   "define float @f(float %x, float %y) {\n" + body + "\n}\n" + declarations, {});
    });
  };
  EXPECT_NE(message("%r = frem float %x, %y\nret float %r").find("frem"), std::string::npos);
  EXPECT_NE(message("%r = fadd fast float %x, %y\nret float %r").find("fast-math"),
            std::string::npos);
  EXPECT_NE(message("%r = call float @expf(float %x)\nret float %r", "declare float @expf(float)")
                .find("expf"),
            std::string::npos);
  EXPECT_NE(message("%r = call float @llvm.sin.f32(float %x)\nret float %r",
                    "declare float @llvm.sin.f32(float)")
                .find("llvm.sin"),
            std::string::npos);
  EXPECT_NE(message("%b = fptrunc float %x to bfloat\n%r = fpext bfloat %b to float\nret float %r")
                .find("type"),
            std::string::npos);
  EXPECT_NE(message("call void asm \"nop\", \"\"()\nret float %x").find("assembly"),
            std::string::npos);
  expect_compiles();
}

TEST(HostCompile, RefusesObjectsWithUndefinedSymbols) {
  const std::string text =
      "define float @f(float %x, float %y) {\n%r = frem float %x, %y\nret float %r\n}\n";
  const std::string message =
      refused([&] { compile_text(code_target(detect_host()), text, {.rules = IrRules::any}); });
  EXPECT_NE(message.find("fmodf"), std::string::npos) << message;
}

/// LLVM ends the process on this, were it not for our handler: no instruction of this CPU does it.
TEST(HostCompile, SurvivesWhatLlvmCannotSelect) {
  if (detect_host().triple.find("x86_64") == std::string::npos)
    GTEST_SKIP() << "the module is for x86-64";
  const std::string text =
      "define <8 x i64> @f(<8 x i64> %x) {\n"
      "%r = call <8 x i64> @llvm.x86.avx512.vpermi2var.q.512(<8 x i64> %x, <8 x i64> %x, <8 x i64> "
      "%x)\n"
      "ret <8 x i64> %r\n}\n"
      "declare <8 x i64> @llvm.x86.avx512.vpermi2var.q.512(<8 x i64>, <8 x i64>, <8 x i64>)\n";
  HostTarget target = detect_host();
  target.cpu = "haswell";
  target.features.clear();
  target.vector_bytes = 32;
  const std::size_t before = llvm_fatal_errors();
  for (std::size_t k = 1; k <= 3; ++k) {
    const std::string message = [&] {
      const test::LeaksAllowed abandoned;  // what LLVM was in the middle of cannot be destroyed
      return refused([&] { compile_text(code_target(target), text, {.rules = IrRules::any}); });
    }();
    EXPECT_NE(message.find("LLVM gave up"), std::string::npos) << message;
    EXPECT_EQ(llvm_fatal_errors(), before + k);
    expect_compiles();
  }
}

TEST(HostCompile, CompilesOnManyThreadsAtOnce) {
  const KernelProgram program = small_program();
  const HostTarget target = detect_host();
  const HostObject expected = compile_host(program, target, "p_");
  std::vector<std::thread> threads;
  std::atomic<int> different = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 4; ++k)
        if (compile_host(program, target, "p_").object != expected.object) ++different;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST(HostCompile, InstrumentsKernelsForSanitizers) {
  HostTarget target = detect_host();
  target.sanitizer = "address";
  EXPECT_NE(host_text(small_program(), target, "p_").assembly.find("__asan_report_load"),
            std::string::npos);
  target.sanitizer = "thread";
  target.vector_bytes = 16;
  EXPECT_NE(host_text(small_program(), target, "p_").assembly.find("__tsan_read"),
            std::string::npos);
  // Calls into the sanitizer's runtime are the one thing that an object may leave undefined.
  EXPECT_FALSE(compile_host(small_program(), target, "p_").object.empty());
}

TEST(HostCompile, ShowsIrAndAssembly) {
  const HostText text = host_text(small_program(), detect_host(), "p_");
  EXPECT_NE(text.llvm_ir.find("@p_k0"), std::string::npos);
  EXPECT_NE(text.assembly.find("p_k0"), std::string::npos);
}

TEST(HostCompile, EntriesNameTheirSymbols) {
  const KernelProgram program = small_program();
  const HostObject object = compile_host(program, detect_host(), "prefix_");
  ASSERT_EQ(object.entries.size(), program.kernels.size());
  for (std::size_t k = 0; k < object.entries.size(); ++k) {
    EXPECT_EQ(object.entries[k].symbol, "prefix_" + program.kernels[k].name);
    EXPECT_GT(object.entries[k].geometry.tasks, 0);
    EXPECT_GT(object.entries[k].geometry.work_ns, 0);
  }
}

TEST(HostCompile, DescribesTheTargetInOneLine) {
  const std::string line = to_string(detect_host());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  HostTarget other = detect_host();
  other.vector_bytes = 16;
  EXPECT_NE(to_string(other), line);
}

}  // namespace
}  // namespace riffle::codegen
