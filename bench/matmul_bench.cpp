// Matmul kernels in GFLOP/s and as a part of this machine's peak, measured in the same run.
//
//   build/bench/matmul_bench [FILTER] [--seconds S]
//
// Each row is the best of many calls, beside the peak as measured right before it: on a shared
// machine only the two together mean something. One thread's time is its CPU time. Threads draw
// tasks one at a time, as the runtime's pool does at its finest.
#include <fmt/format.h>

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "jit/compile_partition.h"

namespace riffle {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of the calling thread: what compiling and one thread's rows cost whoever else runs.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Twelve independent chains: enough to hide the latency of a multiply-add.
typedef float V16 __attribute__((vector_size(64)));
typedef float V8 __attribute__((vector_size(32)));

__attribute__((target("avx512f"))) float peak_avx512(std::int64_t n) {
  V16 s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};
  V16 a = V16{} + 1.0f, b = V16{} + 1e-9f;
  for (std::int64_t i = 0; i < n; ++i)
    asm volatile(
        "vfmadd231ps %12, %13, %0\nvfmadd231ps %12, %13, %1\nvfmadd231ps %12, %13, %2\n"
        "vfmadd231ps %12, %13, %3\nvfmadd231ps %12, %13, %4\nvfmadd231ps %12, %13, %5\n"
        "vfmadd231ps %12, %13, %6\nvfmadd231ps %12, %13, %7\nvfmadd231ps %12, %13, %8\n"
        "vfmadd231ps %12, %13, %9\nvfmadd231ps %12, %13, %10\nvfmadd231ps %12, %13, %11\n"
        : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8),
          "+v"(s9), "+v"(s10), "+v"(s11)
        : "v"(a), "v"(b));
  return (s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11)[0];
}
__attribute__((target("avx2,fma"))) float peak_avx2(std::int64_t n) {
  V8 s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};
  V8 a = V8{} + 1.0f, b = V8{} + 1e-9f;
  for (std::int64_t i = 0; i < n; ++i)
    asm volatile(
        "vfmadd231ps %12, %13, %0\nvfmadd231ps %12, %13, %1\nvfmadd231ps %12, %13, %2\n"
        "vfmadd231ps %12, %13, %3\nvfmadd231ps %12, %13, %4\nvfmadd231ps %12, %13, %5\n"
        "vfmadd231ps %12, %13, %6\nvfmadd231ps %12, %13, %7\nvfmadd231ps %12, %13, %8\n"
        "vfmadd231ps %12, %13, %9\nvfmadd231ps %12, %13, %10\nvfmadd231ps %12, %13, %11\n"
        : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3), "+x"(s4), "+x"(s5), "+x"(s6), "+x"(s7), "+x"(s8),
          "+x"(s9), "+x"(s10), "+x"(s11)
        : "x"(a), "x"(b));
  return (s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11)[0];
}

/// f32 multiply-adds of one core, GFLOP/s: the best of some short runs.
double measure_peak(int vector_bytes) {
  constexpr std::int64_t kSteps = 200000;
  volatile float sink = 0;
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const double begin = cpu_seconds();
    sink = sink + (vector_bytes == 64 ? peak_avx512(kSteps) : peak_avx2(kSteps));
    const double flops = 12.0 * kSteps * 2 * (vector_bytes == 64 ? 16 : 8);
    best = std::max(best, flops / (cpu_seconds() - begin) * 1e-9);
  }
  return best;
}

struct Aligned {
  explicit Aligned(std::int64_t bytes)
      : size(static_cast<std::size_t>((bytes + 4095) / 4096 * 4096 + 4096)),
        data(std::aligned_alloc(4096, size)) {
    std::memset(data, 0, size);
  }
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::size_t size;
  void* data;
};

/// Two threads that draw tasks from one counter; the second spins between launches.
class TwoThreads {
 public:
  TwoThreads() : second_([this](std::stop_token stop) { serve(stop); }) {}

  void run(runtime::HostKernel kernel, void* const* operands, std::int64_t tasks, void* scratch0,
           void* scratch1) {
    kernel_ = kernel;
    operands_ = operands;
    tasks_ = tasks;
    scratch_ = scratch1;
    next_ = 0;
    const int epoch = ++epoch_;
    draw(scratch0);
    while (done_.load(std::memory_order_acquire) != epoch) __builtin_ia32_pause();
  }

 private:
  void draw(void* scratch) {
    runtime::KernelStatus status;
    for (std::int64_t t; (t = next_.fetch_add(1)) < tasks_;)
      kernel_(operands_, t, t + 1, scratch, &status);
  }
  void serve(std::stop_token stop) {
    for (int seen = 0; !stop.stop_requested();) {
      const int epoch = epoch_.load(std::memory_order_acquire);
      if (epoch == seen) {
        __builtin_ia32_pause();
        continue;
      }
      draw(scratch_);
      seen = epoch;
      done_.store(epoch, std::memory_order_release);
    }
  }
  runtime::HostKernel kernel_ = nullptr;
  void* const* operands_ = nullptr;
  std::int64_t tasks_ = 0;
  void* scratch_ = nullptr;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> epoch_{0}, done_{0};
  std::jthread second_;
};

struct Shape3 {
  const char* name;
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::f32;
};

codegen::KernelProgram program_of(const Shape3& s) {
  codegen::KernelProgram program;
  program.slots = {
      {{s.dtype, {s.m * s.k}}, "a"}, {{s.dtype, {s.k * s.n}}, "b"}, {{s.dtype, {s.m, s.n}}, "c"}};
  codegen::MatmulBody body;
  body.dtype = s.dtype;
  body.m = s.m;
  body.n = s.n;
  body.k = s.k;
  body.a = {0, 0, {}, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1};
  body.b = {1, 0, {}, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1};
  codegen::Expr product;
  product.kind = codegen::Expr::Kind::carried;
  product.dtype = s.dtype;
  product.carried = 0;
  body.epilogue = {product};
  body.stores = {{2, {0, {s.n, 1}}, 0}};
  codegen::KernelSpec spec;
  spec.name = "matmul";
  spec.operands = {
      {0, codegen::Access::read}, {1, codegen::Access::read}, {2, codegen::Access::write}};
  spec.body = body;
  program.kernels = {spec};
  program.input_slots = {0, 1};
  program.output_slots = {2};
  return program;
}

/// Best seconds of one call of `f` within `budget` seconds; `now` is the clock.
template <class F, class Now>
double best_time(double budget, Now now, F f) {
  double best = 1e30;
  f();
  const auto begin = Clock::now();
  do {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  } while (seconds_since(begin) < budget);
  return best;
}

int run(const std::string& filter, double budget) {
  const codegen::HostTarget target = codegen::detect_host();
  jit::Linker linker;
  TwoThreads two;
  const Shape3 shapes[] = {
      {"cube 32", 32, 32, 32},
      {"cube 64", 64, 64, 64},
      {"cube 128", 128, 128, 128},
      {"cube 256", 256, 256, 256},
      {"cube 512", 512, 512, 512},
      {"cube 1024", 1024, 1024, 1024},
      {"cube 1024 A·Bt", 1024, 1024, 1024, false, true},
      {"cube 1024 At·B", 1024, 1024, 1024, true, false},
      {"cube 2048", 2048, 2048, 2048},
      {"batch 64 forward", 64, 1024, 1024, false, true},
      {"batch 64 dX", 64, 1024, 1024, false, false},
      {"batch 64 dW", 1024, 1024, 64, true, false},
      {"batch 128 784 forward", 128, 1024, 784, false, true},
      {"batch 128 10 forward", 128, 10, 1024, false, true},
      {"batch 128 10 dX", 128, 1024, 10, false, false},
      {"batch 128 10 dW", 10, 1024, 128, true, false},
      {"batch 512 768-3072 forward", 512, 3072, 768, false, true},
      {"batch 512 768-3072 dX", 512, 768, 3072, false, false},
      {"batch 512 768-3072 dW", 3072, 768, 512, true, false},
      {"batch 8 32 forward", 8, 32, 32, false, true},
      {"bf16 cube 1024", 1024, 1024, 1024, false, false, DType::bf16},
      {"f64 cube 512 (of f64 peak x2)", 512, 512, 512, false, false, DType::f64},
  };
  fmt::print("{:30} {:>6} {:>6} {:>8}  {:>9} {:>5}  {:>9} {:>5}  {:>6}\n", "matmul", "tasks", "KiB",
             "compile", "1 thread", "peak", "2 threads", "peak", "peak");
  fmt::print("{:30} {:>6} {:>6} {:>8}  {:>9} {:>5}  {:>9} {:>5}  {:>6}\n", "", "", "scr", "ms",
             "GFLOP/s", "%", "GFLOP/s", "%", "1T");
  for (const Shape3& s : shapes) {
    if (std::string(s.name).find(filter) == std::string::npos) continue;
    const codegen::KernelProgram program = program_of(s);
    const double begin = cpu_seconds();
    const codegen::HostObject object = codegen::compile_host(program, target, "b_");
    const double compile_ms = (cpu_seconds() - begin) * 1e3;
    const jit::Linker::Linked linked = linker.link(object, s.name);
    const runtime::KernelGeometry geometry = object.entries[0].geometry;
    const std::int64_t element = size_of(s.dtype);
    const Aligned a(s.m * s.k * element), b(s.k * s.n * element), c(s.m * s.n * element);
    const Aligned scratch0(geometry.scratch_bytes), scratch1(geometry.scratch_bytes);
    void* operands[] = {a.data, b.data, c.data};
    runtime::KernelStatus status;
    const double peak = measure_peak(target.vector_bytes);
    const double flops =
        2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const double one = best_time(budget, cpu_seconds, [&] {
      linked.functions[0](operands, 0, geometry.tasks, scratch0.data, &status);
    });
    const auto wall = [] {
      return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    };
    const double both = best_time(budget, wall, [&] {
      two.run(linked.functions[0], operands, geometry.tasks, scratch0.data, scratch1.data);
    });
    fmt::print("{:30} {:6} {:6} {:8.1f}  {:9.1f} {:5.1f}  {:9.1f} {:5.1f}  {:6.1f}\n", s.name,
               geometry.tasks, geometry.scratch_bytes >> 10, compile_ms, flops / one * 1e-9,
               flops / one * 1e-7 / peak, flops / both * 1e-9, flops / both * 1e-7 / (2 * peak),
               peak);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace riffle

int main(int argc, char** argv) {
  std::string filter;
  double budget = 0.3;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--seconds" && i + 1 < argc)
      budget = std::atof(argv[++i]);
    else
      filter = argv[i];
  }
  try {
    return riffle::run(filter, budget);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "matmul_bench: %s\n", error.what());
    return 1;
  }
}
