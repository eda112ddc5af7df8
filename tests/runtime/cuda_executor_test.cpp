// Schedules on the CUDA device: graphs, hooks that come and go, failures in mid-step, races.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/executor.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/runtime/ptx_kernels.h"
#include "tests/runtime/schedule_builder.h"

namespace riffle::runtime {
namespace {

using namespace test;
constexpr std::int64_t kBytes = kThreads * 4;

/// One backward partition with two gradients, each incremented twice and then given to a hook; the
/// optimizer then increments the parameters.
class CudaExecutor : public testing::Test {
 protected:
  explicit CudaExecutor(PtxKernel last = kIncrement) {
    builder.schedule.streams = {{"compute", true, 0}, {"hooks", false, 1}};
    gradients = builder.buffer("gradients", 2 * kBytes, true, true);
    parameters = builder.buffer("parameters", kBytes, true, true);
    const EventId ready[] = {builder.event(), builder.event()}, done = builder.event();
    for (const int g : {0, 1}) {
      for (int i = 0; i < 2; ++i)
        builder.launch(0, {changes(gradients, g * kBytes, (g + 1) * kBytes)}, "k", kIncrement);
      builder.record(0, ready[g]);
    }
    if (last == kReportIndex) builder.launch(0, {}, "report", kReportIndex);
    for (const int g : {0, 1}) {
      builder.wait(1, ready[g]);
      builder.hook(1, "hook" + std::to_string(g),
                   {changes(gradients, g * kBytes, (g + 1) * kBytes)});
    }
    builder.record(1, done);
    builder.wait(0, done);
    builder.add(0, Launch{0, kIncrement}, {changes(parameters, 0, kBytes)}, "update",
                Phase::optimizer);
  }
  void prepare() {
    schedule = std::make_shared<const Schedule>(builder.schedule);
    for (const BufferInfo& info : schedule->buffers) {
      buffers.push_back(device->allocate(info.bytes, info.name));
      buffers.back()->write(0, std::vector<std::byte>(static_cast<std::size_t>(info.bytes)));
      bindings.buffers.push_back(buffers.back().get());
    }
    module = device->load(ptx_image("module"));
    bindings.modules = {module.get()};
    bindings.hooks.resize(schedule->hooks.size());
    bindings.cancelled = [] { return false; };
    executor->prepare(schedule);
  }
  static std::uint32_t first(std::span<const std::byte> bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::uint32_t first(BufferId buffer, std::int64_t offset = 0) const {
    std::vector<std::byte> bytes(4);
    buffers[static_cast<std::size_t>(buffer)]->read(offset, bytes);
    return first(bytes);
  }

  Emulator emulator;
  std::unique_ptr<Device> device = make_cuda_device({}, {.emulated = true});
  std::unique_ptr<Executor> executor = std::make_unique<Executor>(*device);
  ScheduleBuilder builder;
  BufferId gradients{}, parameters{};
  std::shared_ptr<const Schedule> schedule;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::unique_ptr<Module> module;
  Bindings bindings;
};

TEST_F(CudaExecutor, HooksComeAndGoWithoutANewCapture) {
  prepare();
  std::vector<std::uint32_t> seen;
  for (int step = 0; step < 6; ++step) {
    for (HookFunction& hook : bindings.hooks) hook.function = nullptr;
    if (step % 2 == 1)
      for (HookFunction& hook : bindings.hooks)
        hook.function = [&](const HookCall& call) {
          ASSERT_EQ(call.gradient.size(), static_cast<std::size_t>(kBytes));
          seen.push_back(first(call.gradient));
        };
    executor->run(bindings);
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{4, 4, 8, 8, 12, 12}));
  EXPECT_EQ(first(gradients), 12U);
  EXPECT_EQ(first(parameters), 6U);
  EXPECT_EQ(cuda_counts(*device).graphs_captured, 1);
  EXPECT_EQ(cuda_counts(*device).graphs_launched, 6);
  EXPECT_EQ(emulator.problems(), "");
}

TEST_F(CudaExecutor, AHookChangesItsGradientBeforeTheUpdate) {
  prepare();
  bindings.hooks[1].function = [&](const HookCall& call) {
    std::ranges::fill(call.gradient, std::byte{7});
  };
  executor->run(bindings);
  EXPECT_EQ(first(gradients), 2U);
  EXPECT_EQ(first(gradients, kBytes), 0x07070707U);
}

TEST_F(CudaExecutor, AStreamHookEnqueuesOnTheDevicesStream) {
  prepare();
  bindings.hooks[0] = {.is_stream_hook = true, .function = [](const HookCall& call) {
                         call.stream->fill(call.address, 9, kBytes, nullptr);
                       }};
  for (int step = 0; step < 2; ++step) executor->run(bindings);
  EXPECT_EQ(first(gradients), 0x09090909U);
  EXPECT_EQ(emulator.problems(), "");
}

TEST_F(CudaExecutor, AHookThatThrowsFailsTheStepAndTheNextOneRuns) {
  prepare();
  bindings.hooks[0].function = [](const HookCall&) { throw std::runtime_error("mine"); };
  EXPECT_THROW(executor->run(bindings), std::runtime_error);
  EXPECT_EQ(first(parameters), 0U);
  bindings.hooks[0].function = nullptr;
  EXPECT_NO_THROW(executor->run(bindings));
  EXPECT_EQ(first(parameters), 1U);
}

TEST_F(CudaExecutor, ACancelledStepUpdatesNothing) {
  prepare();
  bool cancel = true;
  bindings.cancelled = [&] { return cancel; };
  EXPECT_THROW(executor->run(bindings), Cancelled);
  EXPECT_EQ(first(parameters), 0U);
  cancel = false;
  EXPECT_NO_THROW(executor->run(bindings));
  EXPECT_EQ(first(parameters), 1U);
}

TEST_F(CudaExecutor, EnqueueAloneMakesProgress) {
  prepare();
  std::atomic<bool> ran{false};
  bindings.hooks[1].function = [&](const HookCall&) { ran = true; };
  executor->enqueue(bindings);
  while (!ran) std::this_thread::yield();
  executor->wait();
  EXPECT_EQ(first(parameters), 1U);
}

class CudaExecutorReport : public CudaExecutor {
 protected:
  CudaExecutorReport() : CudaExecutor(kReportIndex) {}
};

TEST_F(CudaExecutorReport, AKernelsReportFailsTheStepBeforeTheUpdate) {
  prepare();
  for (int step = 0; step < 2; ++step) {
    EXPECT_THROW(executor->run(bindings), DeviceError);
    EXPECT_EQ(first(parameters), 0U);
  }
}

TEST_F(CudaExecutor, LaunchFailuresFailTheStepAndTheNextOneRuns) {
  prepare();
  executor->run(bindings);
  for (const char* call :
       {"cuGraphLaunch", "cuStreamWaitEvent", "cuLaunchKernel", "cuEventRecord", "cuEventQuery"}) {
    const std::uint32_t before = first(parameters);
    emulator.set("fail", std::string(call) + ":1:304");
    try {
      executor->run(bindings);
      FAIL() << call;
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find(call), std::string::npos) << error.what();
    }
    emulator.set("fail", "");
    EXPECT_LE(first(parameters), before + 1);
    EXPECT_NO_THROW(executor->run(bindings)) << call;
  }
}

TEST_F(CudaExecutor, AWaitLeftOutIsARaceToTheEmulator) {
  const auto first_stream = device->create_stream({"compute", true, 0}, 0);
  const auto second_stream = device->create_stream({"hooks", false, 0}, 1);
  const auto ready = device->create_event();
  const auto a = device->allocate(kBytes, "a"), b = device->allocate(kBytes, "b");
  for (const bool waits : {true, false}) {
    first_stream->fill(a->address(), 1, kBytes, nullptr);
    first_stream->record(*ready);
    if (waits) second_stream->wait(*ready);
    second_stream->copy(b->address(), a->address(), kBytes, nullptr);
    first_stream->synchronize();
    second_stream->synchronize();
    EXPECT_EQ(emulator.problems().find("race") == std::string::npos, waits) << emulator.problems();
  }
}

}  // namespace
}  // namespace riffle::runtime
