// Compile time of one linear + relu partition, forward and backward: cold, from the memory cache
// and from the disk cache.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "ir/autodiff.h"
#include "ir/split.h"
#include "jit/compile_partition.h"
#include "riffle/riffle.h"

namespace {

using namespace riffle;  // NOLINT: a program's main file

ir::DifferentiatedGraph linear_relu(std::int64_t batch, std::int64_t width) {
  const Graph graph = trace("layer", [&](Tracer& t) {
    Tensor x = t.input("x", {DType::f32, {batch, width}}, true);
    Tensor w = t.param("w", {DType::f32, {width, width}});
    Tensor b = t.param("b", {DType::f32, {width}});
    return sum(relu(linear(x, w, b)));
  });
  return ir::differentiate(ir::split(graph.ir(), *ir::split_none()));
}

jit::CompilerOptions options(const std::string& directory) {
  return {
      .target = codegen::detect_host(), .fusion = {}, .cache_directory = directory, .threads = 0};
}

void compile_both(jit::Compiler& compiler, const ir::DifferentiatedGraph& graph) {
  const ir::PartitionGradient& partition = graph.partitions.front();
  benchmark::DoNotOptimize(
      compiler.compile_all({&partition.forward, &partition.backward}, {"forward", "backward"}));
}

void cold(benchmark::State& state) {
  const ir::DifferentiatedGraph graph = linear_relu(64, 1024);
  for (auto _ : state) {
    jit::Compiler compiler(options(""));
    compile_both(compiler, graph);
  }
}

void from_memory(benchmark::State& state) {
  const ir::DifferentiatedGraph graph = linear_relu(64, 1024);
  jit::Compiler compiler(options(""));
  compile_both(compiler, graph);
  for (auto _ : state) compile_both(compiler, graph);
}

void from_disk(benchmark::State& state) {
  const ir::DifferentiatedGraph graph = linear_relu(64, 1024);
  const auto directory = std::filesystem::temp_directory_path() / "riffle_compile_bench";
  {
    jit::Compiler compiler(options(directory.string()));
    compile_both(compiler, graph);
  }
  for (auto _ : state) {
    jit::Compiler compiler(options(directory.string()));
    compile_both(compiler, graph);
  }
  std::filesystem::remove_all(directory);
}

BENCHMARK(cold)->Name("Compile/cold")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(from_memory)->Name("Compile/memory")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(from_disk)->Name("Compile/disk")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
