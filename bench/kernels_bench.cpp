// Fused kernels on one thread, in GB/s of memory that they must move, beside a copy and a triad
// of the same size measured in the same run; and what compiling them takes.
//
//     build/bench/kernels_bench --benchmark_filter=softmax
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "jit/compile_partition.h"

namespace {

using namespace riffle;
using Build = ir::Value (*)(ir::Builder&, std::int64_t rows, std::int64_t columns);

struct Free {
  void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes) + 64;
  Memory memory(static_cast<std::byte*>(::operator new(size, std::align_val_t{64})));
  // Small positive floats, whatever the dtype reads them as.
  for (std::size_t k = 0; k + 4 <= size; k += 4) {
    const float value = 0.25F + static_cast<float>(k % 4096) * 1e-4F;
    std::memcpy(memory.get() + k, &value, 4);
  }
  return memory;
}

codegen::KernelProgram program_of(Build build, std::int64_t rows, std::int64_t columns) {
  ir::Builder builder("bench");
  const ir::Value result = build(builder, rows, columns);
  return codegen::build_kernels(ir::lower_to_primitives(builder.finish({result})));
}

void run_kernels(benchmark::State& state, Build build) {
  const codegen::KernelProgram program = program_of(build, state.range(0), state.range(1));
  const codegen::HostObject object = codegen::compile_host(program, codegen::detect_host(), "b_");
  jit::Linker linker;
  const jit::Linker::Linked linked = linker.link(object, "bench");
  std::vector<Memory> slots;
  for (const codegen::Slot& slot : program.slots) slots.push_back(allocate(slot.type.bytes()));
  // What has to move if every intermediate result stayed in the cache.
  double bytes = 0;
  for (const auto* list : {&program.input_slots, &program.output_slots})
    for (std::int32_t slot : *list)
      bytes += static_cast<double>(program.slots[static_cast<std::size_t>(slot)].type.bytes());
  std::vector<std::vector<void*>> operands;
  std::int64_t scratch_bytes = 0;
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    operands.emplace_back();
    for (const codegen::KernelOperand& operand : program.kernels[k].operands)
      operands.back().push_back(slots[static_cast<std::size_t>(operand.slot)].get());
    scratch_bytes = std::max(scratch_bytes, object.entries[k].geometry.scratch_bytes);
  }
  const Memory scratch = allocate(scratch_bytes);
  for (auto _ : state)
    for (std::size_t k = 0; k < operands.size(); ++k) {
      runtime::KernelStatus status;
      linked.functions[k](operands[k].data(), 0, object.entries[k].geometry.tasks, scratch.get(),
                          &status);
    }
  state.counters["GB/s"] =
      benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["kernels"] = static_cast<double>(operands.size());
  double modelled = 0;
  for (const codegen::HostEntry& entry : object.entries) modelled += entry.geometry.work_ns;
  state.counters["work_us"] = modelled * 1e-3;
}

void compile_kernels(benchmark::State& state, Build build) {
  const codegen::KernelProgram program = program_of(build, state.range(0), state.range(1));
  const codegen::HostTarget target = codegen::detect_host();
  for (auto _ : state) benchmark::DoNotOptimize(codegen::compile_host(program, target, "b_"));
}

ir::Value source(ir::Builder& b, const Shape& shape, const char* name, DType dtype = DType::f32) {
  return b.append_source(ir::Op::input, {dtype, shape}, name);
}
ir::Value matrix(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return source(b, {rows, columns}, "x");
}

ir::Value add(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  const ir::Value x = matrix(b, rows, columns);
  return b.add(x, source(b, {rows, columns}, "y"));
}
template <ir::Op op>
ir::Value unary(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return b.append(op, {matrix(b, rows, columns)});
}
ir::Value bias_relu(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  const ir::Value x = matrix(b, rows, columns);
  return b.append(ir::Op::relu, {b.add(x, source(b, {columns}, "bias"))});
}
ir::Value layer_norm(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  const ir::Value x = matrix(b, rows, columns);
  const ir::Value w = source(b, {columns}, "w"), c = source(b, {columns}, "b");
  return b.append(ir::Op::layer_norm, {x, w, c}, {{"normalized_shape", ir::Ints{columns}}});
}
ir::Value row_sum(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return b.sum(matrix(b, rows, columns), {1});
}
ir::Value column_sum(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return b.sum(matrix(b, rows, columns), {0});
}
ir::Value transpose(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return b.transpose_last_two(matrix(b, rows, columns));
}
ir::Value to_bf16(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  return b.cast(matrix(b, rows, columns), DType::bf16);
}
ir::Value embedding(ir::Builder& b, std::int64_t rows, std::int64_t columns) {
  const ir::Value index = source(b, {rows}, "index", DType::i32);
  const ir::Value wrapped = b.mul(b.cast(index, DType::i64), b.scalar(0, DType::i64));
  return b.append(ir::Op::embedding, {wrapped, source(b, {1000, columns}, "w")});
}

/// The peers: what this machine does with as many bytes.
void machine_copy(benchmark::State& state) {
  const std::int64_t bytes = state.range(0) * state.range(1) * 4;
  const Memory from = allocate(bytes), to = allocate(bytes);
  for (auto _ : state) {
    std::memcpy(to.get(), from.get(), static_cast<std::size_t>(bytes));
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(2e-9 * static_cast<double>(bytes),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
__attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3"))) void triad(
    float* out, const float* x, const float* y, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) out[k] = x[k] + 2.0F * y[k];
}
void machine_triad(benchmark::State& state) {
  const std::int64_t n = state.range(0) * state.range(1);
  const Memory x = allocate(n * 4), y = allocate(n * 4), out = allocate(n * 4);
  for (auto _ : state) {
    triad(reinterpret_cast<float*>(out.get()), reinterpret_cast<const float*>(x.get()),
          reinterpret_cast<const float*>(y.get()), n);
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(12e-9 * static_cast<double>(n),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

/// 256 KiB stays in L2; 64 MiB does not stay anywhere.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "columns"})
      ->Args({64, 1024})
      ->Args({16384, 1024})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(machine_copy)->Apply(sizes);
BENCHMARK(machine_triad)->Apply(sizes);

#define RIFFLE_KERNEL(name, build)                           \
  BENCHMARK_CAPTURE(run_kernels, name, build)->Apply(sizes); \
  BENCHMARK_CAPTURE(compile_kernels, name, build)->Args({64, 1024})->Unit(benchmark::kMillisecond)
RIFFLE_KERNEL(add, add);
RIFFLE_KERNEL(bias_relu, bias_relu);
RIFFLE_KERNEL(exp, unary<ir::Op::exp>);
RIFFLE_KERNEL(tanh, unary<ir::Op::tanh>);
RIFFLE_KERNEL(gelu, unary<ir::Op::gelu>);
RIFFLE_KERNEL(softmax, unary<ir::Op::softmax>);
RIFFLE_KERNEL(layer_norm, layer_norm);
RIFFLE_KERNEL(row_sum, row_sum);
RIFFLE_KERNEL(column_sum, column_sum);
RIFFLE_KERNEL(transpose, transpose);
RIFFLE_KERNEL(to_bf16, to_bf16);
RIFFLE_KERNEL(embedding, embedding);
#undef RIFFLE_KERNEL

}  // namespace

BENCHMARK_MAIN();
