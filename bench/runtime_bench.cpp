// What the runtime costs around kernels: build/bench/runtime_bench
//   Launch        gap between two dependent empty kernels on a hot stream
//   LaunchPool    the same with tasks shared among the pool's threads
//   EventWait     a record and a wait for it on one hot stream
//   Hook          a host hook's cost over its (empty) callback: wait, call, record
//   EnqueueNull   enqueueing a schedule of 1,000 commands on the null device, without running it
//   RunNull       the same, enqueued and run
//   Verify        find_faults of 5,000 commands
#include <benchmark/benchmark.h>

#include <memory>

#include "runtime/executor.h"

namespace riffle::runtime {
namespace {

void nothing(void* const*, std::int64_t, std::int64_t, void*, KernelStatus*) {}

std::unique_ptr<Module> one_kernel(Device& device, KernelGeometry geometry) {
  ModuleImage image;
  image.name = "module";
  image.kernels.push_back({"empty", geometry, nothing, nullptr});
  return device.load(std::move(image));
}

constexpr int kBatch = 1000;

void launch(benchmark::State& state, KernelGeometry geometry) {
  const auto device = make_cpu_device({});
  const auto module = one_kernel(*device, geometry);
  const auto stream = device->create_stream({"compute", true, 0});
  alignas(64) std::byte bytes[64];
  void* operands[] = {bytes, bytes, bytes};
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) stream->launch(*module, 0, operands, nullptr);
    stream->synchronize();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK_CAPTURE(launch, Launch, KernelGeometry{.tasks = 1});
BENCHMARK_CAPTURE(launch, LaunchPool, KernelGeometry{.tasks = 64, .work_ns = 1e5})->UseRealTime();

void event_wait(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream({"compute", true, 0});
  const auto event = device->create_event();
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      stream->record(*event);
      stream->wait(*event);
    }
    stream->synchronize();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(event_wait)->Name("EventWait");

/// `hooks` gradients, each a launch, a record, and a wait and a hook on the other stream, which has
/// no dependency back: its thread is hot from the second hook on.
std::shared_ptr<const Schedule> schedule_with_hooks(int launches, int hooks, bool kept) {
  auto schedule = std::make_shared<Schedule>();
  schedule->streams = {{"compute", true, 0}, {"hooks", false, 0}};
  schedule->modules = {{"module"}};
  schedule->buffers = {{"gradients", std::int64_t{64} * (launches + hooks), false, kept}};
  std::int64_t at = 0;
  const auto operand = [&](Access access) { return Operand{{0, at, at + 64}, access}; };
  for (int i = 0; i < launches; ++i, at += 64)
    schedule->commands.push_back({Launch{0, 0}, 0, {operand(Access::write)}, "k"});
  for (int i = 0; i < hooks; ++i, at += 64) {
    const EventId event = schedule->events++;
    schedule->commands.push_back({Launch{0, 0}, 0, {operand(Access::write)}, "k"});
    schedule->commands.push_back({Record{event}, 0, {}, "ready"});
    schedule->commands.push_back({Wait{event}, 1, {}, "ready"});
    schedule->commands.push_back({Hook{i, false}, 1, {operand(Access::read)}, "hook"});
    schedule->hooks.push_back("hook");
  }
  return schedule;
}

struct Run {
  Run(std::unique_ptr<Device> made, std::shared_ptr<const Schedule> schedule)
      : device(std::move(made)), executor(*device) {
    for (const BufferInfo& info : schedule->buffers) {
      buffers.push_back(device->allocate(info.bytes, info.name));
      bindings.buffers.push_back(buffers.back().get());
    }
    module = one_kernel(*device, {});
    bindings.modules = {module.get()};
    bindings.hooks.resize(schedule->hooks.size(), {false, [](const HookCall&) {}});
    executor.prepare(std::move(schedule));
  }
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::unique_ptr<Module> module;
  Bindings bindings;
  Executor executor;
};

void hook(benchmark::State& state) {
  constexpr int kHooks = 1000;
  Run run(make_cpu_device({}), schedule_with_hooks(0, kHooks, true));
  for (auto _ : state) run.executor.run(run.bindings);
  state.SetItemsProcessed(state.iterations() * kHooks);
}
BENCHMARK(hook)->Name("Hook")->UseRealTime();

void enqueue_null(benchmark::State& state) {
  Run run(make_null_device({}), schedule_with_hooks(900, 25, true));  // 1,000 commands
  for (auto _ : state) {
    run.executor.enqueue(run.bindings);
    state.PauseTiming();
    run.executor.wait();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(enqueue_null)->Name("EnqueueNull")->UseRealTime();

void run_null(benchmark::State& state) {
  Run run(make_null_device({}), schedule_with_hooks(900, 25, true));
  for (auto _ : state) run.executor.run(run.bindings);
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(run_null)->Name("RunNull")->UseRealTime();

void verify_schedule(benchmark::State& state) {
  const auto schedule = schedule_with_hooks(3000, 500, true);
  for (auto _ : state) benchmark::DoNotOptimize(find_faults(*schedule));
}
BENCHMARK(verify_schedule)->Name("Verify")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace riffle::runtime

BENCHMARK_MAIN();
