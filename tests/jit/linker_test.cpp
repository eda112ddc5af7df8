#include <gtest/gtest.h>

#include <thread>

#include "jit/compile_partition.h"
#include "riffle/error.h"
#include "tests/support/resident_memory.h"
#include "tests/support/sanitizer.h"

namespace riffle::jit {
namespace {

/// out[i] = x[i] + x[i], eight elements.
codegen::KernelProgram doubling() {
  codegen::KernelProgram program;
  program.slots = {{{DType::f32, {8}}, "x"}, {{DType::f32, {8}}, "out"}};
  codegen::LoopBody body;
  body.space = {8};
  codegen::Expr load;
  load.kind = codegen::Expr::Kind::load;
  load.operand = 0;
  load.address = {0, {1}};
  codegen::Expr sum;
  sum.kind = codegen::Expr::Kind::op;
  sum.op = ir::Op::add;
  sum.arguments = {0, 0};
  body.exprs = {load, sum};
  body.stores = {{1, {0, {1}}, 1}};
  codegen::KernelSpec spec;
  spec.name = "k0_add";
  spec.operands = {{0, codegen::Access::read}, {1, codegen::Access::write}};
  spec.body = body;
  program.kernels = {spec};
  program.input_slots = {0};
  program.output_slots = {1};
  return program;
}

codegen::HostObject doubling_object() {
  return codegen::compile_host(doubling(), codegen::detect_host(), "t_");
}

float run(const Linker::Linked& linked, const codegen::HostObject& object) {
  alignas(64) float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(64) float out[8] = {};
  void* operands[] = {x, out};
  runtime::KernelStatus status;
  linked.functions.at(0)(operands, 0, object.entries.at(0).geometry.tasks, nullptr, &status);
  return out[7];
}

TEST(Linker, CodeRunsAndOutlivesItsLinker) {
  const codegen::HostObject object = doubling_object();
  Linker::Linked linked;
  {
    Linker linker;
    linked = linker.link(object, "doubling");
    EXPECT_EQ(linker.live_modules(), 1u);
    EXPECT_EQ(run(linked, object), 16);
  }
  EXPECT_EQ(run(linked, object), 16);
}

TEST(Linker, EqualNamesAndSymbolsDoNotMeet) {
  const codegen::HostObject object = doubling_object();
  Linker linker;
  Linker::Linked first = linker.link(object, "same");
  const Linker::Linked second = linker.link(object, "same");
  EXPECT_NE(first.functions[0], second.functions[0]);
  first = {};
  EXPECT_EQ(linker.live_modules(), 1u);
  EXPECT_EQ(run(second, object), 16);
}

TEST(Linker, BadObjectsAreTypedErrorsAndLeaveTheLinkerUsable) {
  Linker linker;
  codegen::HostObject garbage = doubling_object();
  garbage.object.assign(100, std::byte{0x5a});
  EXPECT_THROW(linker.link(garbage, "garbage"), CompileError);
  codegen::HostObject truncated = doubling_object();
  truncated.object.resize(truncated.object.size() / 2);
  EXPECT_THROW(linker.link(truncated, "truncated"), CompileError);
  codegen::HostObject missing = doubling_object();
  missing.entries[0].symbol = "not_there";
  try {
    linker.link(missing, "missing");
    FAIL() << "linked a symbol that is not there";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.where(), "missing");
    EXPECT_NE(std::string(error.what()).find("not_there"), std::string::npos) << error.what();
  }
  EXPECT_EQ(linker.live_modules(), 0u);
  const codegen::HostObject good = doubling_object();
  EXPECT_EQ(run(linker.link(good, "good"), good), 16);
}

TEST(Linker, TenThousandCyclesStayFlatInMemory) {
  const codegen::HostObject object = doubling_object();
  Linker linker;
  for (int i = 0; i < 1000; ++i) linker.link(object, "cycle");
  const std::int64_t before = test::resident_kib();
  for (int i = 0; i < (test::kSanitized ? 500 : 10000); ++i) {
    const Linker::Linked linked = linker.link(object, "cycle");
    if (i % 1000 == 0) {
      EXPECT_EQ(run(linked, object), 16);
    }
  }
  // A page kept per cycle would be 40 MiB; the allocator's own caches move by less than 4.
  if (!test::kSanitized) {
    EXPECT_LT(test::resident_kib() - before, 4096);
  }
  EXPECT_EQ(linker.live_modules(), 0u);
}

TEST(Linker, ManyThreadsLinkAndDrop) {
  const codegen::HostObject object = doubling_object();
  Linker linker;
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i)
          if (run(linker.link(object, "shared"), object) != 16) ++wrong;
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(linker.live_modules(), 0u);
}

}  // namespace
}  // namespace riffle::jit
