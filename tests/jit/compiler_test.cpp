#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "ir/builder.h"
#include "ir/passes.h"
#include "jit/compile_partition.h"
#include "riffle/error.h"
#include "tests/support/resident_memory.h"
#include "tests/support/sanitizer.h"

namespace riffle::jit {
namespace {

namespace fs = std::filesystem;

/// relu(x·wᵀ + bias) of the given width, as primitives; names come from `prefix`.
ir::Graph layer(std::int64_t width, const std::string& prefix = "") {
  ir::Builder b(prefix + "layer");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {4, width}}, prefix + "x");
  const ir::Value w = b.append_source(ir::Op::param, {DType::f32, {width, width}}, prefix + "w");
  const ir::Value bias = b.append_source(ir::Op::param, {DType::f32, {width}}, prefix + "b");
  const ir::Value y = b.append(ir::Op::linear, {x, w, bias});
  return ir::lower_to_primitives(b.finish({b.append(ir::Op::relu, {y})}));
}
/// x + x.
ir::Graph tiny(std::int64_t width) {
  ir::Builder b("tiny");
  const ir::Value x = b.append_source(ir::Op::input, {DType::f32, {width}}, "x");
  return b.finish({b.add(x, x)});
}

class CompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        fs::temp_directory_path() / ("riffle_compiler_" + std::to_string(::getpid()) + "_" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  CompilerOptions options(bool with_disk = false) const {
    CompilerOptions options;
    options.target = codegen::detect_host();
    if (with_disk) options.cache_directory = directory_.string();
    return options;
  }
  /// x of ones doubled by the compiled `tiny`.
  static float run_tiny(const CompiledGraph& compiled, std::int64_t width) {
    EXPECT_LE(width, 64);
    alignas(64) float x[64], out[64] = {};
    std::fill(std::begin(x), std::end(x), 1.0f);
    void* operands[2] = {};
    const codegen::KernelSpec& spec = compiled.program.kernels.at(0);
    for (std::size_t i = 0; i < spec.operands.size(); ++i)
      operands[i] = spec.operands[i].access == codegen::Access::read ? x : out;
    runtime::KernelStatus status;
    const runtime::KernelEntry& entry = compiled.image.kernels.at(0);
    std::vector<std::max_align_t> scratch(
        static_cast<std::size_t>(entry.geometry.scratch_bytes) / sizeof(std::max_align_t) + 8);
    entry.function(operands, 0, entry.geometry.tasks, scratch.data(), &status);
    return out[width - 1];
  }

  fs::path directory_;
};

TEST_F(CompilerTest, EqualGraphsShareCodeAndKeepTheirOwnNames) {
  Compiler compiler(options());
  const auto first = compiler.compile(layer(8, "one_"), "first");
  const auto second = compiler.compile(layer(8, "two_"), "second");
  EXPECT_FALSE(first->from_memory);
  EXPECT_TRUE(second->from_memory);
  EXPECT_EQ(first->image.owner, second->image.owner);
  EXPECT_EQ(first->image.kernels.at(0).function, second->image.kernels.at(0).function);
  EXPECT_EQ(second->image.name, "second");
  auto slot_named = [](const CompiledGraph& compiled, const std::string& name) {
    for (const codegen::Slot& slot : compiled.program.slots)
      if (slot.name == name) return true;
    return false;
  };
  EXPECT_TRUE(slot_named(*first, "one_x"));
  EXPECT_TRUE(slot_named(*second, "two_x"));
  EXPECT_EQ(compiler.statistics().compiles, 1);
  EXPECT_EQ(compiler.live_modules(), 1u);
}

TEST_F(CompilerTest, CodeDiesWithItsLastOwner) {
  Compiler compiler(options());
  auto compiled = compiler.compile(tiny(8), "tiny");
  EXPECT_EQ(run_tiny(*compiled, 8), 2);
  compiler.clear_memory();
  EXPECT_EQ(compiler.live_modules(), 1u);
  EXPECT_TRUE(compiler.compile(tiny(8), "again")->from_memory) << "in use, so not to be compiled";
  compiler.clear_memory();
  const runtime::ModuleImage image = compiled->image;
  compiled.reset();
  EXPECT_EQ(compiler.live_modules(), 1u) << "a module image keeps the code";
  const_cast<runtime::ModuleImage&>(image).owner.reset();
  EXPECT_EQ(compiler.live_modules(), 0u);
  EXPECT_FALSE(compiler.compile(tiny(8), "once more")->from_memory);
}

TEST_F(CompilerTest, OnlyABoundedNumberStaysWithoutOwner) {
  Compiler compiler(options());
  for (std::int64_t width = 1; width <= 80; ++width) compiler.compile(tiny(width), "tiny");
  EXPECT_EQ(compiler.live_modules(), 64u);
  EXPECT_TRUE(compiler.compile(tiny(80), "recent")->from_memory);
  EXPECT_FALSE(compiler.compile(tiny(1), "old")->from_memory);
}

TEST_F(CompilerTest, AskedForAtTheSameTimeItCompilesOnce) {
  Compiler compiler(options());
  std::vector<std::shared_ptr<const CompiledGraph>> results(8);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results)
      threads.emplace_back([&] { result = compiler.compile(layer(16), "layer"); });
  }
  EXPECT_EQ(compiler.statistics().compiles, 1);
  EXPECT_EQ(compiler.statistics().memory_hits, 7);
  for (const auto& result : results) EXPECT_EQ(result->image.owner, results[0]->image.owner);
}

TEST_F(CompilerTest, CompilesAllInOrder) {
  Compiler compiler(options());
  std::vector<ir::Graph> graphs;
  for (std::int64_t width = 1; width <= 6; ++width) graphs.push_back(tiny(width));
  std::vector<const ir::Graph*> pointers;
  std::vector<std::string> names;
  for (const ir::Graph& graph : graphs) {
    pointers.push_back(&graph);
    names.push_back("graph" + std::to_string(names.size()));
  }
  const auto results = compiler.compile_all(pointers, names);
  ASSERT_EQ(results.size(), 6u);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(results[static_cast<std::size_t>(i)]->image.name, "graph" + std::to_string(i));
    EXPECT_EQ(run_tiny(*results[static_cast<std::size_t>(i)], i + 1), 2);
  }
}

TEST_F(CompilerTest, AFailureIsThrownAfterAllEndedAndIsNotRemembered) {
  CompilerOptions bad = options();
  bad.target.cpu = "no-such-cpu";
  Compiler compiler(bad);
  const ir::Graph one = tiny(3), two = tiny(4);
  EXPECT_THROW(compiler.compile_all({&one, &two}, {"one", "two"}), CompileError);
  EXPECT_THROW(compiler.compile(one, "one"), CompileError);
  EXPECT_EQ(compiler.live_modules(), 0u);
}

TEST_F(CompilerTest, AnotherCompilerFindsTheObjectOnDisk) {
  {
    Compiler compiler(options(true));
    compiler.compile(tiny(8), "tiny");
    EXPECT_EQ(compiler.statistics().disk_writes, 1);
  }
  Compiler compiler(options(true));
  const auto compiled = compiler.compile(tiny(8), "tiny");
  EXPECT_TRUE(compiled->from_disk);
  EXPECT_EQ(compiler.statistics().compiles, 0);
  EXPECT_EQ(run_tiny(*compiled, 8), 2);
  EXPECT_FALSE(compiler.compile(tiny(8), "tiny")->from_disk) << "that one came from memory";
}

TEST_F(CompilerTest, ADamagedEntryIsCompiledAgain) {
  Compiler(options(true)).compile(tiny(8), "tiny");
  for (const auto& entry : fs::directory_iterator(directory_))
    fs::resize_file(entry.path(), entry.file_size() / 2);
  Compiler compiler(options(true));
  EXPECT_EQ(run_tiny(*compiler.compile(tiny(8), "tiny"), 8), 2);
  EXPECT_EQ(compiler.statistics().disk_damaged, 1);
  EXPECT_EQ(compiler.statistics().compiles, 1);
  EXPECT_TRUE(Compiler(options(true)).compile(tiny(8), "tiny")->from_disk) << "it was replaced";
}

TEST_F(CompilerTest, AnEntryThatDoesNotLinkIsCompiledAgain) {
  Compiler compiler(options(true));
  const CacheKey key = compiler.compile(tiny(8), "tiny")->key;
  codegen::HostObject object;
  DiskCache disk(directory_.string());
  ASSERT_TRUE(disk.load(key, object));
  object.object.assign(100, std::byte{1});  // with a checksum that holds
  disk.store(key, object);
  Compiler another(options(true));
  EXPECT_EQ(run_tiny(*another.compile(tiny(8), "tiny"), 8), 2);
  EXPECT_EQ(another.statistics().disk_damaged, 1);
}

TEST_F(CompilerTest, FusionIsPartOfTheKey) {
  Compiler fused(options(true));
  const CacheKey key = fused.compile(layer(8), "layer")->key;
  CompilerOptions plain = options(true);
  plain.fusion.fuse = false;
  Compiler unfused(plain);
  const auto compiled = unfused.compile(layer(8), "layer");
  EXPECT_FALSE(compiled->from_disk);
  EXPECT_NE(compiled->key.file_name(), key.file_name());
}

TEST_F(CompilerTest, CompileAndDropStaysFlatInMemory) {
  Compiler compiler(options());
  auto cycle = [&](int i) {
    // Another shape each time, so that nothing is found in the cache; a matmul now and then.
    compiler.compile(i % 10 == 0 ? layer(2 + i / 10) : tiny(2 + i), "cycle");
    compiler.clear_memory();
  };
  for (int i = 0; i < 50; ++i) cycle(i);
  const std::int64_t before = test::resident_kib();
  for (int i = 50; i < (test::kSanitized ? 80 : 550); ++i) cycle(i);
  // What LLVM interns for good and the allocator's caches; a module kept per cycle is 10 MiB more.
  if (!test::kSanitized) {
    EXPECT_LT(test::resident_kib() - before, 4096);
  }
  EXPECT_EQ(compiler.live_modules(), 0u);
}

}  // namespace
}  // namespace riffle::jit
