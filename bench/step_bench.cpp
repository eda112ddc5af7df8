// Training steps, forward + backward + SGD, as JSON: name, threads, median and best milliseconds.
//
//   build/bench/step_bench [--threads N] [--seconds S]
//
// scripts/bench_steps runs it in turn with PyTorch and prints the ratios.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "bench/models.h"

namespace {

using namespace riffle;  // NOLINT: a program's main file

void run(const bench::Model& model, int threads, double seconds) {
  Session session({.threads = threads, .cache_directory = ""});
  Executable step = session.compile(model.graph, {.split = model.split});
  const CompileReport compiled = step.compile();
  step.init(0);
  step.set_optimizer({.name = "sgd", .lr = 0.01});
  for (int i = 0; i < 5; ++i) step.step();
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds)
    times.push_back(step.step().milliseconds);
  std::sort(times.begin(), times.end());
  fmt::print(
      "{{\"system\": \"riffle\", \"model\": \"{}\", \"threads\": {}, \"median_ms\": {:.4f}, "
      "\"best_ms\": {:.4f}, \"compile_ms\": {:.1f}, \"gflop\": {:.4f}}}\n",
      model.name, threads, times[times.size() / 2], times.front(), compiled.milliseconds,
      model.gflop);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  double seconds = 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--seconds")) seconds = std::atof(argv[i + 1]);
  }
  try {
    for (const bench::Model& model : bench::models()) run(model, threads, seconds);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
