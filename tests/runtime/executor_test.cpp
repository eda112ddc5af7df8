#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/schedule_builder.h"

namespace riffle::runtime {
namespace {

struct HookError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A device, a module whose kernels are functions, and the bindings of one schedule.
struct Rig {
  explicit Rig(const ScheduleBuilder& builder, ExecutorOptions options = {})
      : device(make_cpu_device({.threads = 2})),
        executor(*device, options),
        schedule(std::make_shared<const Schedule>(builder.schedule)) {
    for (const BufferInfo& info : schedule->buffers) {
      buffers.push_back(device->allocate(info.bytes, info.name));
      std::memset(buffers.back()->host(), 0, static_cast<std::size_t>(info.bytes));
      bindings.buffers.push_back(buffers.back().get());
    }
    bindings.hooks.resize(schedule->hooks.size());
  }
  void kernel(std::function<void(void* const*)> function) {
    image.kernels.push_back(
        {"kernel" + std::to_string(image.kernels.size()), {}, nullptr, std::move(function)});
  }
  void prepare() {
    image.name = "module";
    module = device->load(std::move(image));
    bindings.modules = {module.get()};
    executor.prepare(schedule);
  }
  void run() { executor.run(bindings); }

  std::unique_ptr<Device> device;
  Executor executor;
  std::shared_ptr<const Schedule> schedule;
  std::vector<std::unique_ptr<Buffer>> buffers;
  ModuleImage image;
  std::unique_ptr<Module> module;
  Bindings bindings;
};

/// backward of two partitions on compute: k0 writes gradient 0, k1 gradient 1; a hook for each.
struct TwoPartitions {
  ScheduleBuilder builder;
  BufferId gradients = builder.buffer("gradients", 128, false, true);
  EventId ready0 = builder.event(), ready1 = builder.event();
  TwoPartitions() {
    builder.launch(0, {writes(gradients, 0, 64)}, "k0", 0);
    builder.record(0, ready0);
    builder.launch(0, {writes(gradients, 64, 128)}, "k1", 1);
    builder.record(0, ready1);
    builder.wait(1, ready0);
    builder.hook(1, "net1.bias", {reads(gradients, 0, 64)});
    builder.wait(1, ready1);
    builder.hook(1, "net0.bias", {reads(gradients, 64, 128)});
  }
};

void set_bytes(void* bytes, int value) { std::memset(bytes, value, 64); }

TEST(Executor, HooksSeeTheirGradientsInOrder) {
  const TwoPartitions two;
  Rig rig(two.builder);
  rig.kernel([](void* const* operands) { set_bytes(operands[0], 1); });
  rig.kernel([](void* const* operands) { set_bytes(operands[0], 2); });
  std::vector<std::string> seen;
  for (HookFunction& hook : rig.bindings.hooks)
    hook.function = [&](const HookCall& call) {
      EXPECT_EQ(call.gradient.size(), 64u);
      EXPECT_EQ(call.stream, nullptr);
      seen.push_back(call.command->label + "=" +
                     std::to_string(static_cast<int>(call.gradient[63])));
    };
  rig.prepare();
  for (int step = 0; step < 3; ++step) {
    seen.clear();
    rig.run();
    EXPECT_EQ(seen, (std::vector<std::string>{"net1.bias=1", "net0.bias=2"}));
  }
}

TEST(Executor, AHookRunsWhileALaterBackwardIsHeldOpen) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::promise<void> hook_ran;
  rig.kernel([](void* const* operands) { set_bytes(operands[0], 1); });
  // The later partition's backward is over only after the hook of the earlier gradient has run.
  rig.kernel([&](void* const*) { hook_ran.get_future().get(); });
  rig.bindings.hooks[0].function = [&](const HookCall&) { hook_ran.set_value(); };
  rig.prepare();
  rig.run();
}

TEST(Executor, EnqueueAloneMakesProgress) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::promise<void> last;
  rig.kernel([](void* const*) {});
  rig.kernel([](void* const*) {});
  rig.bindings.hooks[1].function = [&](const HookCall&) { last.set_value(); };
  rig.prepare();
  rig.executor.enqueue(rig.bindings);
  last.get_future().get();
  rig.executor.wait();
  rig.executor.wait();  // nothing to wait for any more
}

TEST(Executor, EnqueueDoesNotBlockOnCompute) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::promise<void> enqueued;
  rig.kernel([&](void* const*) { enqueued.get_future().get(); });
  rig.kernel([](void* const*) {});
  rig.prepare();
  rig.executor.enqueue(rig.bindings);
  enqueued.set_value();
  rig.executor.wait();
}

TEST(Executor, RunLeavesComputeToTheCaller) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::thread::id compute, hooks;
  rig.kernel([&](void* const*) { compute = std::this_thread::get_id(); });
  rig.kernel([](void* const*) {});
  rig.bindings.hooks[1].function = [&](const HookCall&) { hooks = std::this_thread::get_id(); };
  rig.prepare();
  rig.run();
  EXPECT_EQ(compute, std::this_thread::get_id());
  EXPECT_NE(hooks, std::this_thread::get_id());
}

TEST(Executor, AThrowingHookFailsTheStepWithItsOwnException) {
  const TwoPartitions two;
  Rig rig(two.builder);
  rig.kernel([](void* const*) {});
  bool compute_finished = false, second = false, fail = true;
  rig.kernel([&](void* const*) { compute_finished = true; });
  rig.bindings.hooks[0].function = [&](const HookCall&) {
    if (fail) throw HookError("no luck");
  };
  rig.bindings.hooks[1].function = [&](const HookCall&) { second = true; };
  rig.prepare();
  try {
    rig.run();
    FAIL() << "the hook's exception got lost";
  } catch (const HookError& error) {
    EXPECT_STREQ(error.what(), "no luck");
  }
  EXPECT_TRUE(compute_finished) << "thrown before the streams drained";
  EXPECT_FALSE(second) << "the rest of the hook's stream is skipped";
  fail = false;
  EXPECT_NO_THROW(rig.run());
  EXPECT_TRUE(second);
}

TEST(Executor, AFailingKernelPoisonsWhoeverWaitsForIt) {
  const TwoPartitions two;
  Rig rig(two.builder);
  bool first = false, second = false, fail = true;
  rig.kernel([](void* const*) {});
  rig.kernel([&](void* const*) {
    if (fail) throw HookError("kernel");
  });
  rig.bindings.hooks[0].function = [&](const HookCall&) { first = true; };
  rig.bindings.hooks[1].function = [&](const HookCall&) { second = true; };
  rig.prepare();
  EXPECT_THROW(rig.run(), HookError);
  EXPECT_TRUE(first) << "its gradient was complete before the failure";
  EXPECT_FALSE(second);
  fail = false;
  EXPECT_NO_THROW(rig.run());
  EXPECT_TRUE(second);
}

TEST(Executor, TheFirstErrorWinsWhicheverStreamItIsOn) {
  const TwoPartitions two;
  Rig rig(two.builder);
  struct First {};
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> watch = token;
  // What follows a failure is let go of unrun, so the token tells when the hooks' stream has
  // failed.
  rig.bindings.hooks[0] = {true, [&](const HookCall& call) {
                             call.stream->host_call([] { throw First{}; }, nullptr);
                             call.stream->host_call([token] {}, nullptr);
                             token.reset();
                           }};
  rig.kernel([](void* const*) {});
  rig.kernel([&](void* const*) {
    while (!watch.expired()) std::this_thread::yield();
    throw HookError("later, on the stream that is drained first");
  });
  rig.prepare();
  EXPECT_THROW(rig.run(), First);
}

TEST(Executor, CancellationDrainsAndThrowsCancelled) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::atomic<bool> cancel{false};
  bool second = false;
  rig.kernel([&](void* const*) { cancel = true; });
  rig.kernel([&](void* const*) { second = true; });
  rig.bindings.cancelled = [&] { return cancel.load(); };
  rig.prepare();
  EXPECT_THROW(rig.run(), Cancelled);
  EXPECT_FALSE(second);
  rig.bindings.cancelled = nullptr;
  EXPECT_NO_THROW(rig.run());
  EXPECT_TRUE(second);
}

TEST(Executor, CancellationLetsABegunOptimizerFinish) {
  ScheduleBuilder builder;
  const BufferId parameters = builder.buffer("parameters", 128, true, true);
  for (const std::int32_t kernel : {0, 1}) {
    const std::int64_t begin = 64 * kernel;
    builder.launch(0, {writes(parameters, begin, begin + 64)}, "update", kernel);
    builder.schedule.commands.back().phase = Phase::optimizer;
  }
  Rig rig(builder);
  std::atomic<bool> cancel{false};
  bool second = false;
  rig.kernel([&](void* const*) { cancel = true; });
  rig.kernel([&](void* const*) { second = true; });
  rig.bindings.cancelled = [&] { return cancel.load(); };
  rig.prepare();
  EXPECT_NO_THROW(rig.run());
  EXPECT_TRUE(second);
}

TEST(Executor, CancellationIsSeenWhileOnlyHooksRun) {
  ScheduleBuilder builder;
  const BufferId buffer = builder.buffer("gradients", 64, true);
  builder.hook(1, "slow", {reads(buffer, 0, 64)});
  Rig rig(builder);
  std::promise<void> polled;
  rig.bindings.hooks[0].function = [&](const HookCall&) { polled.get_future().get(); };
  rig.bindings.cancelled = [&] {
    polled.set_value();
    return true;  // not asked again
  };
  rig.prepare();
  EXPECT_THROW(rig.run(), Cancelled);
}

TEST(Executor, StreamHooksEnqueueOnTheirStream) {
  const TwoPartitions two;
  Rig rig(two.builder);
  rig.kernel([](void* const* operands) { set_bytes(operands[0], 5); });
  rig.kernel([](void* const*) {});
  std::thread::id called_on;
  int seen = 0;
  rig.bindings.hooks[0] = {
      true, [&](const HookCall& call) {
        called_on = std::this_thread::get_id();
        ASSERT_NE(call.stream, nullptr);
        call.stream->host_call(
            [&seen, gradient = call.gradient] { seen = static_cast<int>(gradient[0]); },
            call.command);
      }};
  rig.prepare();
  rig.run();
  EXPECT_EQ(called_on, std::this_thread::get_id());
  EXPECT_EQ(seen, 5) << "ran before its gradient was ready";
}

TEST(Executor, AThrowingStreamHookFailsTheStepAfterTheStreamsDrained) {
  const TwoPartitions two;
  Rig rig(two.builder);
  int ran = 0;
  rig.kernel([&](void* const*) { ++ran; });
  rig.kernel([&](void* const*) { ++ran; });
  rig.bindings.hooks[0] = {true, [](const HookCall&) { throw HookError("stream hook"); }};
  rig.prepare();
  EXPECT_THROW(rig.run(), HookError);
  EXPECT_EQ(ran, 2);
}

TEST(Executor, ACollectiveIsOverWhenItsEventIs) {
  ScheduleBuilder builder;
  const BufferId gradients = builder.buffer("gradients", 64, false, true);
  const EventId ready = builder.event(), done = builder.event();
  builder.launch(0, {writes(gradients, 0, 64)}, "backward", 0);
  builder.record(0, ready);
  builder.wait(1, ready);
  builder.collective(1, "all_reduce", changes(gradients, 0, 64), done);
  builder.wait(0, done);
  builder.add(0, Launch{0, 1}, {reads(gradients, 0, 64)}, "optimizer", Phase::optimizer);
  Rig rig(builder);
  int seen = 0;
  rig.kernel([](void* const* operands) { set_bytes(operands[0], 1); });
  rig.kernel([&](void* const* operands) { seen = static_cast<char*>(operands[0])[63]; });
  rig.bindings.hooks[0].function = [](const HookCall& call) {
    for (std::byte& byte : call.gradient) byte = std::byte(static_cast<int>(byte) * 7);
  };
  rig.prepare();
  rig.run();
  EXPECT_EQ(seen, 7);
}

TEST(Executor, ZeroByteOperandsAreFine) {
  ScheduleBuilder builder;
  const BufferId empty = builder.buffer("empty", 0);
  builder.launch(0, {writes(empty, 0, 0)}, "k", 0);
  builder.add(0, Fill{1}, {writes(empty, 0, 0)});
  builder.add(0, Copy{}, {reads(empty, 0, 0), writes(empty, 0, 0)});
  builder.hook(1, "h", {reads(empty, 0, 0)});
  Rig rig(builder, {.poison_freed = true, .check_hook_writes = true});
  rig.kernel([](void* const* operands) { EXPECT_NE(operands[0], nullptr); });
  rig.bindings.hooks[0].function = [](const HookCall& call) { EXPECT_TRUE(call.gradient.empty()); };
  rig.prepare();
  rig.run();
}

// Bindings and states that do not fit

TEST(Executor, BindingsMustFit) {
  const TwoPartitions two;
  Rig rig(two.builder);
  EXPECT_THROW(rig.run(), UsageError) << "nothing is prepared";
  rig.kernel([](void* const*) {});
  rig.kernel([](void* const*) {});
  rig.prepare();
  const Bindings good = rig.bindings;

  const auto small = rig.device->allocate(64, "small");
  rig.bindings.buffers = {small.get()};
  EXPECT_THROW(rig.run(), UsageError);
  rig.bindings.buffers = {nullptr};
  EXPECT_THROW(rig.run(), UsageError);
  rig.bindings.buffers.clear();
  EXPECT_THROW(rig.run(), UsageError);
  rig.bindings = good;
  rig.bindings.modules = {nullptr};
  EXPECT_THROW(rig.run(), UsageError);
  rig.bindings = good;
  rig.bindings.hooks.clear();
  EXPECT_THROW(rig.run(), UsageError);
  rig.bindings = good;
  EXPECT_NO_THROW(rig.run());
}

TEST(Executor, OneRunAtATime) {
  const TwoPartitions two;
  Rig rig(two.builder);
  std::promise<void> hold;
  rig.kernel([&](void* const*) { hold.get_future().get(); });
  rig.kernel([](void* const*) {});
  rig.prepare();
  rig.executor.enqueue(rig.bindings);
  EXPECT_THROW(rig.executor.enqueue(rig.bindings), UsageError);
  EXPECT_THROW(rig.executor.prepare(rig.schedule), UsageError);
  hold.set_value();
  rig.executor.wait();
}

TEST(Executor, RefusesAScheduleWithFaults) {
  ScheduleBuilder builder;
  const BufferId buffer = builder.buffer("x", 64);
  builder.launch(0, {writes(buffer, 0, 64)});
  builder.launch(1, {writes(buffer, 0, 64)});
  Rig rig(builder);
  EXPECT_THROW(rig.prepare(), DeviceError);
}

TEST(Executor, ChangesBetweenSchedules) {
  const TwoPartitions two;
  Rig rig(two.builder);
  rig.kernel([](void* const*) {});
  rig.kernel([](void* const*) {});
  rig.prepare();
  rig.run();
  ScheduleBuilder other;
  other.schedule.streams.push_back({"communication", false, 0});
  const BufferId buffer = other.buffer("x", 64, true);
  other.hook(2, "h", {reads(buffer, 0, 64)});
  bool ran = false;
  Bindings bindings;
  bindings.buffers = {rig.buffers[0].get()};
  bindings.modules = rig.bindings.modules;
  bindings.hooks = {{false, [&](const HookCall&) { ran = true; }}};
  rig.executor.prepare(std::make_shared<const Schedule>(other.schedule));
  rig.executor.run(bindings);
  EXPECT_TRUE(ran);
  rig.executor.prepare(rig.schedule);
  rig.run();
}

TEST(Executor, DestructionWaitsForTheRun) {
  const TwoPartitions two;
  std::atomic<int> ran{0};
  {
    Rig rig(two.builder);
    rig.kernel([&](void* const*) { ++ran; });
    rig.kernel([&](void* const*) { ++ran; });
    rig.prepare();
    rig.executor.enqueue(rig.bindings);
    // The executor goes before the module and the buffers that the run uses.
    Executor moved(*rig.device);
    moved.prepare(rig.schedule);
    moved.enqueue(rig.bindings);
    rig.executor.wait();
  }
  EXPECT_EQ(ran, 4);
}

// Checks

TEST(Executor, FreedBytesArePoisoned) {
  ScheduleBuilder builder;
  const BufferId arena = builder.buffer("arena", 64);
  const BufferId out = builder.buffer("out", 64, false, true);
  builder.launch(0, {writes(arena, 0, 64)}, "produce", 0);
  builder.launch(0, {reads(arena, 0, 64), writes(out, 0, 64)}, "consume", 1);
  builder.add(0, Free{}, {reads(arena, 0, 64)});
  for (const bool poison : {false, true}) {
    Rig rig(builder, {.poison_freed = poison});
    rig.kernel([&](void* const* operands) {
      EXPECT_EQ(std::isnan(*static_cast<float*>(operands[0])), poison) << "unwritten bytes";
      set_bytes(operands[0], 0);
    });
    rig.kernel([](void* const* operands) { std::memcpy(operands[1], operands[0], 64); });
    rig.prepare();
    rig.run();
    float value = 0;
    std::memcpy(&value, rig.buffers[0]->host(), sizeof value);
    EXPECT_EQ(std::isnan(value), poison);
    std::memcpy(&value, rig.buffers[1]->host(), sizeof value);
    EXPECT_EQ(value, 0.0f);
  }
}

TEST(Executor, AnUndeclaredWriteOfAHookIsCaught) {
  const TwoPartitions two;
  for (const bool check : {false, true}) {
    Rig rig(two.builder, {.check_hook_writes = check});
    rig.kernel([](void* const* operands) { set_bytes(operands[0], 1); });
    rig.kernel([](void* const* operands) { set_bytes(operands[0], 2); });
    rig.bindings.hooks[1].function = [](const HookCall& call) { call.gradient[3] = std::byte(9); };
    rig.prepare();
    if (!check) {
      EXPECT_NO_THROW(rig.run());
      continue;
    }
    try {
      rig.run();
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.message(),
                "hook net0.bias wrote to gradients[0, 128), which it does not declare");
    }
  }
}

TEST(Executor, AWriteBesideTheDeclaredGradientIsCaught) {
  ScheduleBuilder builder;
  const BufferId gradients = builder.buffer("gradients", 128, true, true);
  builder.hook(1, "own", {changes(gradients, 0, 64)});
  Rig rig(builder, {.check_hook_writes = true});
  bool beside = false;
  rig.bindings.hooks[0].function = [&](const HookCall& call) {
    call.gradient[0] = std::byte(1);
    if (beside) call.gradient.data()[64] = std::byte(1);
  };
  rig.prepare();
  EXPECT_NO_THROW(rig.run());
  beside = true;
  EXPECT_THROW(rig.run(), DeviceError);
}

TEST(Executor, WritesOfOthersAreNotBlamedOnAHook) {
  const TwoPartitions two;
  Rig rig(two.builder, {.check_hook_writes = true});
  std::promise<void> in_hook, written;
  rig.kernel([](void* const*) {});
  rig.kernel([&](void* const* operands) {
    in_hook.get_future().get();
    set_bytes(operands[0], 3);
    written.set_value();
  });
  rig.bindings.hooks[0].function = [&](const HookCall&) {
    in_hook.set_value();
    written.get_future().get();
  };
  rig.prepare();
  EXPECT_NO_THROW(rig.run());
}

// The null device

TEST(Executor, HooksRunOnTheNullDevice) {
  const TwoPartitions two;
  const auto device = make_null_device({});
  Executor executor(*device);
  const auto buffer = device->allocate(128, "gradients");
  ModuleImage image;
  image.kernels.resize(2);
  const auto module = device->load(std::move(image));
  std::vector<std::string> seen;
  Bindings bindings;
  bindings.buffers = {buffer.get()};
  bindings.modules = {module.get()};
  for (int i = 0; i < 2; ++i)
    bindings.hooks.push_back({false, [&](const HookCall& call) {
                                EXPECT_TRUE(call.gradient.empty());
                                seen.push_back(call.command->label);
                              }});
  executor.prepare(std::make_shared<const Schedule>(two.builder.schedule));
  executor.run(bindings);
  EXPECT_EQ(seen, (std::vector<std::string>{"net1.bias", "net0.bias"}));
}

}  // namespace
}  // namespace riffle::runtime
