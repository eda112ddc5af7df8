// One behaviour, N devices: Buffer, Stream, Event and Module of every device that runs here.
// What a device leaves out is a row of exclusions() with its reason.
#include "runtime/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/cuda/device.h"
#include "runtime/null/device.h"
#include "tests/support/gpu_under_test.h"

// The sanitizers otherwise end the process where an allocation is too large.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace riffle::runtime {
namespace {

using Factory = std::unique_ptr<Device> (*)(const DeviceOptions&);
struct Target {
  std::string name;
  Factory make;
};

/// (device, test) → why the device cannot pass it.
const std::map<std::pair<std::string, std::string>, std::string>& exclusions() {
  static const std::string runs_nothing = "the null device runs no kernels and holds no bytes";
  static const std::string host_code =
      "launches host code; cuda_launch_test.cpp does the same with PTX";
  static const std::map<std::pair<std::string, std::string>, std::string> table = {
      {{"null", "BufferHoldsBytes"}, runs_nothing},
      {{"null", "PartsOfABufferAreWrittenAndRead"}, runs_nothing},
      {{"null", "AWaitOrdersCopiesOfTwoStreams"}, runs_nothing},
      {{"null", "SegmentsRunAsTheirCommandsWould"}, runs_nothing},
      {{"null", "CopyAndFillMoveBytes"}, runs_nothing},
      {{"null", "LaunchRunsEveryTaskOnce"}, runs_nothing},
      {{"null", "AllocationOfAllMemoryIsAnError"}, "fake addresses need no memory"},
      {{"null", "FailingKernelPoisonsItsStream"}, runs_nothing},
      {{"null", "KernelStatusNamesTheIndex"}, runs_nothing},
      {{"null", "KernelsSeeDefaultFloatState"}, runs_nothing},
      {{"null", "ModuleWithoutCodeIsAnError"}, runs_nothing},
      {{"cuda", "LaunchRunsEveryTaskOnce"}, host_code},
      {{"cuda", "ManyStreamsLaunchAtOnce"}, host_code},
      {{"cuda", "FailingKernelPoisonsItsStream"}, host_code},
      {{"cuda", "KernelStatusNamesTheIndex"}, host_code},
      {{"cuda", "KernelsSeeDefaultFloatState"}, "a GPU has no such state"},
  };
  return table;
}

class DeviceTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    test = test.substr(0, test.find('/'));
    if (const auto found = exclusions().find({GetParam().name, test}); found != exclusions().end())
      GTEST_SKIP() << found->second;
    device = make({.threads = 2});
  }
  static std::unique_ptr<Device> make(const DeviceOptions& options) {
    return GetParam().make(options);
  }
  std::unique_ptr<Module> load(HostKernel function, KernelGeometry geometry) {
    ModuleImage image;
    image.name = "module";
    image.kernels.push_back({"kernel", geometry, function, nullptr});
    return device->load(std::move(image));
  }
  std::unique_ptr<Stream> driven() { return device->create_stream({"compute", true, 0}); }
  std::unique_ptr<Stream> threaded() { return device->create_stream({"hooks", false, 0}); }

  std::unique_ptr<Device> device;
};

std::vector<std::byte> bytes_of(Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
  buffer.read(0, bytes);
  return bytes;
}

void nothing(void* const*, std::int64_t, std::int64_t, void*, KernelStatus*) {}

// Buffers

TEST_P(DeviceTest, BufferKnowsItsSizeAndIsAligned) {
  for (const std::int64_t bytes : {0, 1, 63, 64, 4096, 3 << 20}) {
    const auto buffer = device->allocate(bytes, "test");
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_NE(buffer->address(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address()) % 64, 0u);
  }
}

TEST_P(DeviceTest, BufferHoldsBytes) {
  const auto buffer = device->allocate(3 << 20, "test");
  std::vector<std::byte> bytes(3 << 20, std::byte{7});
  bytes[100] = std::byte{1};
  bytes[(3 << 20) - 1] = std::byte{9};
  buffer->write(0, bytes);
  EXPECT_EQ(bytes_of(*buffer), bytes);
  if (buffer->host()) {
    EXPECT_EQ(buffer->host(), buffer->address());
    EXPECT_EQ(buffer->host()[(3 << 20) - 1], std::byte{9});
  }
}

TEST_P(DeviceTest, PartsOfABufferAreWrittenAndRead) {
  const auto buffer = device->allocate(1000, "test");
  buffer->write(0, std::vector<std::byte>(1000, std::byte{1}));
  buffer->write(10, std::vector<std::byte>(5, std::byte{2}));
  buffer->write(1000, {});
  std::vector<std::byte> part(7);
  buffer->read(9, part);
  std::vector<std::byte> expected(7, std::byte{2});
  expected.front() = expected.back() = std::byte{1};
  EXPECT_EQ(part, expected);
}

TEST_P(DeviceTest, AllocationIsAccounted) {
  {
    const auto a = device->allocate(1000, "a");
    const auto b = device->allocate(500, "b");
    EXPECT_EQ(device->allocated_bytes(), 1500);
  }
  EXPECT_EQ(device->allocated_bytes(), 0);
  EXPECT_EQ(device->peak_bytes(), 1500);
}

TEST_P(DeviceTest, MemoryLimitIsAnErrorAndTheDeviceGoesOn) {
  device = make({.threads = 1, .memory_limit = 1000});
  const auto kept = device->allocate(600, "weights");
  try {
    device->allocate(500, "activations");
    FAIL() << "allocated beyond the limit";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.message(),
              "out of memory: activations needs 500 bytes, 600 of the limit of 1000 are in use");
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_EQ(device->allocated_bytes(), 600);
  EXPECT_NO_THROW(device->allocate(400, "rest"));
}

TEST_P(DeviceTest, AllocationOfAllMemoryIsAnError) {
  EXPECT_THROW(device->allocate(std::int64_t{1} << 60, "everything"), DeviceError);
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST_P(DeviceTest, NegativeSizesAreAnError) {
  EXPECT_THROW(device->allocate(-1, "less than nothing"), DeviceError);
}

// Streams

TEST_P(DeviceTest, WorkRunsInOrder) {
  for (const bool drive : {false, true}) {
    const auto stream = drive ? driven() : threaded();
    std::vector<int> seen;
    for (int i = 0; i < 1000; ++i) stream->host_call([&seen, i] { seen.push_back(i); }, nullptr);
    stream->synchronize();
    std::vector<int> expected(1000);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  }
}

TEST_P(DeviceTest, TheWaiterRunsADrivenStreamItself) {
  const auto stream = driven();
  std::thread::id ran_on;
  stream->host_call([&] { ran_on = std::this_thread::get_id(); }, nullptr);
  stream->synchronize();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_P(DeviceTest, AThreadedStreamRunsElsewhereWithoutBeingWaitedFor) {
  const auto stream = threaded();
  std::promise<std::thread::id> ran_on;
  stream->host_call([&] { ran_on.set_value(std::this_thread::get_id()); }, nullptr);
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
  stream->synchronize();
}

TEST_P(DeviceTest, AFlushedStreamRunsWithoutBeingWaitedFor) {
  const auto stream = driven();
  for (int round = 0; round < 3; ++round) {
    std::promise<void> ran;
    stream->host_call([&] { ran.set_value(); }, nullptr);
    stream->flush();
    ran.get_future().get();
    stream->synchronize();
  }
}

TEST_P(DeviceTest, AfterAFlushTheWaiterRunsTheStreamAgain) {
  const auto stream = driven();
  stream->host_call([] {}, nullptr);
  stream->flush();
  stream->synchronize();
  std::thread::id ran_on;
  stream->host_call([&] { ran_on = std::this_thread::get_id(); }, nullptr);
  stream->synchronize();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_P(DeviceTest, WorkMayEnqueueMoreWork) {
  const auto stream = driven();
  int ran = 0;
  stream->host_call([&] { stream->host_call([&] { ++ran; }, nullptr); }, nullptr);
  stream->synchronize();
  EXPECT_EQ(ran, 1);
}

TEST_P(DeviceTest, DestructionDrains) {
  std::atomic<int> ran{0};
  {
    const auto a = driven();
    const auto b = threaded();
    for (int i = 0; i < 10; ++i) {
      a->host_call([&] { ++ran; }, nullptr);
      b->host_call([&] { ++ran; }, nullptr);
    }
  }
  EXPECT_EQ(ran, 20);
}

TEST_P(DeviceTest, CopyAndFillMoveBytes) {
  const auto stream = driven();
  const auto a = device->allocate(100, "a"), b = device->allocate(100, "b");
  stream->fill(a->address(), 3, 100, nullptr);
  stream->copy(b->address() + 10, a->address(), 50, nullptr);
  stream->fill(b->address(), 9, 10, nullptr);
  stream->fill(b->address(), 1, 0, nullptr);
  stream->synchronize();
  std::vector<std::byte> expected(60, std::byte{3});
  std::fill_n(expected.begin(), 10, std::byte{9});
  std::vector<std::byte> seen(60);
  b->read(0, seen);
  EXPECT_EQ(seen, expected);
}

TEST_P(DeviceTest, AWaitOrdersCopiesOfTwoStreams) {
  const auto first = driven();
  const auto second = threaded();
  const auto event = device->create_event();
  const auto a = device->allocate(1 << 16, "a"), b = device->allocate(1 << 16, "b");
  for (int round = 1; round <= 3; ++round) {
    first->fill(a->address(), static_cast<std::uint8_t>(round), 1 << 16, nullptr);
    first->record(*event);
    second->wait(*event);
    second->copy(b->address(), a->address(), 1 << 16, nullptr);
    second->record(*event);
    first->wait(*event);  // before the next round's fill
  }
  first->synchronize();
  second->synchronize();
  EXPECT_EQ(bytes_of(*b), std::vector<std::byte>(1 << 16, std::byte{3}));
}

TEST_P(DeviceTest, SegmentsRunAsTheirCommandsWould) {
  // The same key with the same commands, then with others; behind a host call, and not; records
  // inside reach other streams.
  const auto stream = driven();
  const auto other = threaded();
  const auto event = device->create_event();
  const auto a = device->allocate(64, "a"), b = device->allocate(64, "b"),
             c = device->allocate(64, "c");
  for (const int byte : {1, 1, 2, 2, 1})
    for (const bool behind : {false, true}) {
      if (behind) stream->host_call([] {}, nullptr);
      stream->begin_segment(7);
      stream->fill(a->address(), static_cast<std::uint8_t>(byte), 64, nullptr);
      stream->record(*event);
      stream->copy(b->address(), a->address(), 64, nullptr);
      stream->fill(a->address(), 0, 64, nullptr);
      stream->fill(a->address() + 1, 5, 1, nullptr);
      stream->end_segment();
      other->wait(*event);
      other->copy(c->address(), b->address(), 0, nullptr);
      stream->synchronize();
      other->synchronize();
      EXPECT_TRUE(event->query());
      EXPECT_EQ(bytes_of(*b), std::vector<std::byte>(64, std::byte(byte)));
      EXPECT_EQ(bytes_of(*a)[1], std::byte{5});
    }
}

TEST_P(DeviceTest, AWaitEndsASegment) {
  const auto stream = driven();
  const auto other = threaded();
  const auto event = device->create_event(), inside = device->create_event();
  other->record(*event);
  stream->begin_segment(1);
  stream->record(*inside);
  stream->wait(*event);
  stream->host_call([] {}, nullptr);
  stream->record(*inside);
  stream->end_segment();
  EXPECT_NO_THROW(inside->synchronize());
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_P(DeviceTest, ASegmentOfAFailedStreamIsSkippedAndItsRecordsCarryTheFailure) {
  const auto stream = driven();
  const auto event = device->create_event();
  stream->host_call([] { throw std::runtime_error("before"); }, nullptr);
  stream->begin_segment(1);
  stream->record(*event);
  stream->end_segment();
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  EXPECT_THROW(event->synchronize(), std::runtime_error);
}

TEST_P(DeviceTest, LaunchRunsEveryTaskOnce) {
  // Counts its tasks, and reports scratch memory that is not its own in count 1000.
  const auto kernel = [](void* const* operands, std::int64_t begin, std::int64_t end, void* scratch,
                         KernelStatus*) {
    auto* counts = static_cast<std::atomic<int>*>(operands[0]);
    auto* bytes = static_cast<unsigned char*>(scratch);
    const auto mark = static_cast<unsigned char>(begin);
    if (reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0) ++counts[1000];
    std::memset(bytes, mark, 5000);
    for (std::int64_t i = begin; i < end; ++i) ++counts[i];
    for (int i = 0; i < 5000; ++i)
      if (bytes[i] != mark) ++counts[1000];
  };
  for (const int threads : {1, 2, 3, 7}) {
    device = make({.threads = threads});
    for (const std::int64_t tasks : {0, 1, 2, 5, 64, 1000})
      for (const double work : {0.0, 1e4, 1e7}) {
        const auto module = load(kernel, {.tasks = tasks, .scratch_bytes = 5000, .work_ns = work});
        std::vector<std::atomic<int>> counts(1001);
        const auto a = driven(), b = driven();
        void* operand = counts.data();
        for (int round = 0; round < 3; ++round)
          for (Stream* stream : {a.get(), b.get()})
            stream->launch(*module, 0, {&operand, 1}, nullptr);
        b->flush();  // two streams launch at once
        a->synchronize();
        b->synchronize();
        for (std::int64_t i = 0; i < 1001; ++i) ASSERT_EQ(counts[i], i < tasks ? 6 : 0) << i;
      }
  }
}

TEST_P(DeviceTest, ManyStreamsLaunchAtOnce) {
  // More than the pool has slots for: some run on their own thread alone.
  const auto module = load(nothing, {.tasks = 100, .work_ns = 1e6});
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(threaded());
  for (int round = 0; round < 100; ++round)
    for (const auto& stream : streams) stream->launch(*module, 0, {}, nullptr);
  for (const auto& stream : streams) EXPECT_NO_THROW(stream->synchronize());
}

#if defined(__x86_64__)
TEST_P(DeviceTest, KernelsSeeDefaultFloatState) {
  const auto kernel = [](void* const* operands, std::int64_t begin, std::int64_t end, void*,
                         KernelStatus*) {
    for (std::int64_t i = begin; i < end; ++i)
      static_cast<unsigned*>(operands[0])[i] = __builtin_ia32_stmxcsr();
  };
  const unsigned before = __builtin_ia32_stmxcsr();
  const unsigned flush_to_zero = 0x9fc0;
  __builtin_ia32_ldmxcsr(flush_to_zero);
  for (const double work : {0.0, 1e7}) {
    std::vector<unsigned> seen(100);
    void* operand = seen.data();
    const auto module = load(kernel, {.tasks = 100, .work_ns = work});
    const auto stream = driven();
    stream->launch(*module, 0, {&operand, 1}, nullptr);
    stream->synchronize();
    for (const unsigned state : seen) EXPECT_EQ(state & ~0x3fu, 0x1f80u);
    EXPECT_EQ(__builtin_ia32_stmxcsr() & ~0x3fu, flush_to_zero & ~0x3fu);
  }
  __builtin_ia32_ldmxcsr(before);
}
#endif

// Events

TEST_P(DeviceTest, AnEventThatWasNeverRecordedIsComplete) {
  const auto event = device->create_event();
  EXPECT_TRUE(event->query());
  EXPECT_NO_THROW(event->synchronize());
  const auto stream = driven();
  stream->wait(*event);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_P(DeviceTest, AnEventCompletesWhenItsStreamGetsThere) {
  const auto stream = threaded();
  const auto event = device->create_event();
  std::promise<void> hold;
  stream->host_call([&] { hold.get_future().get(); }, nullptr);
  stream->record(*event);
  EXPECT_FALSE(event->query());
  hold.set_value();
  event->synchronize();
  EXPECT_TRUE(event->query());
}

TEST_P(DeviceTest, SynchronizingAnEventMakesADrivenStreamRun) {
  const auto stream = driven();
  const auto event = device->create_event();
  bool ran = false;
  stream->host_call([&] { ran = true; }, nullptr);
  stream->record(*event);
  event->synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(DeviceTest, AStreamWaitsForAnEventOfAnother) {
  const auto first = driven();
  const auto second = threaded();
  const auto event = device->create_event();
  int value = 0, seen = 0;
  first->host_call([&] { value = 42; }, nullptr);
  first->record(*event);
  second->wait(*event);
  second->host_call([&] { seen = value; }, nullptr);
  second->synchronize();  // nobody drains `first`: the stream that waits sees to it
  EXPECT_EQ(seen, 42);
}

TEST_P(DeviceTest, AWaitMeansTheRecordBeforeItEvenIfRecordedAgain) {
  const auto producer = driven();
  const auto waiter = threaded();
  const auto event = device->create_event();
  std::promise<void> hold, reached;
  producer->record(*event);
  waiter->wait(*event);
  waiter->host_call([&] { reached.set_value(); }, nullptr);
  producer->host_call([&] { hold.get_future().get(); }, nullptr);
  producer->record(*event);  // not the one that `waiter` waits for
  producer->flush();
  reached.get_future().get();
  EXPECT_FALSE(event->query());
  hold.set_value();
  producer->synchronize();
  EXPECT_TRUE(event->query());
}

TEST_P(DeviceTest, PingPongOverEventsKeepsOrder) {
  const auto a = driven();
  const auto b = threaded();
  std::vector<std::unique_ptr<Event>> events;
  int counter = 0;  // unsynchronised on purpose: the events must order it
  for (int i = 0; i < 200; ++i) {
    Stream& from = i % 2 ? *b : *a;
    Stream& to = i % 2 ? *a : *b;
    from.host_call([&counter, i] { EXPECT_EQ(counter++, i); }, nullptr);
    events.push_back(device->create_event());
    from.record(*events.back());
    to.wait(*events.back());
  }
  a->synchronize();
  b->synchronize();
  EXPECT_EQ(counter, 200);
}

// Errors

struct HookError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_P(DeviceTest, AFailureSkipsTheRestAndIsThrownOnce) {
  for (const bool drive : {false, true}) {
    const auto stream = drive ? driven() : threaded();
    bool ran = false;
    stream->host_call([] { throw HookError("first"); }, nullptr);
    stream->host_call([] { throw HookError("second"); }, nullptr);
    stream->host_call([&] { ran = true; }, nullptr);
    try {
      stream->synchronize();
      FAIL();
    } catch (const HookError& error) {
      EXPECT_STREQ(error.what(), "first");
    }
    EXPECT_FALSE(ran);
    stream->host_call([&] { ran = true; }, nullptr);
    EXPECT_NO_THROW(stream->synchronize());
    EXPECT_TRUE(ran);
  }
}

TEST_P(DeviceTest, EventsCarryTheFirstErrorToWaitingStreams) {
  const auto first = driven();
  const auto second = threaded();
  const auto before = device->create_event(), after = device->create_event();
  bool ran = false;
  first->record(*before);
  first->host_call([] { throw HookError("lost"); }, nullptr);
  first->record(*after);
  second->wait(*before);
  second->wait(*after);
  second->host_call([&] { ran = true; }, nullptr);
  EXPECT_THROW(first->synchronize(), HookError);
  EXPECT_THROW(second->synchronize(), HookError);
  EXPECT_FALSE(ran);
  EXPECT_NO_THROW(before->synchronize());
  EXPECT_THROW(after->synchronize(), HookError);
  EXPECT_THROW(after->synchronize(), HookError) << "an event keeps its error until recorded again";
  first->record(*after);
  first->synchronize();
  EXPECT_NO_THROW(after->synchronize());
}

TEST_P(DeviceTest, TheEarlierFailureCanBeTold) {
  const auto a = driven(), b = driven();
  a->host_call([] { throw HookError("a"); }, nullptr);
  b->host_call([] { throw HookError("b"); }, nullptr);
  const Failure of_b = b->drain(nullptr), of_a = a->drain(nullptr);
  ASSERT_TRUE(of_a && of_b);
  EXPECT_LE(of_b.at_ns, of_a.at_ns);
}

TEST_P(DeviceTest, AFailedStreamLetsGoOfWhatItSkips) {
  const auto stream = threaded();
  const auto token = std::make_shared<int>(1);
  stream->host_call([] { throw HookError("x"); }, nullptr);
  stream->host_call([token] {}, nullptr);
  EXPECT_THROW(stream->synchronize(), HookError);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(DeviceTest, CancellationIsSeenBetweenCommands) {
  const auto stream = driven();
  bool cancel = false, ran = false;
  stream->host_call([&] { cancel = true; }, nullptr);
  stream->host_call([&] { ran = true; }, nullptr);
  const std::function<bool()> cancelled = [&] { return cancel; };
  const Failure failure = stream->drain(&cancelled);
  ASSERT_TRUE(failure);
  EXPECT_THROW(std::rethrow_exception(failure.error), Cancelled);
  EXPECT_FALSE(ran);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_P(DeviceTest, CancellationReachesAStreamThatAnotherThreadRuns) {
  const auto stream = threaded();
  std::promise<void> hold;
  bool ran = false;
  stream->host_call([&] { hold.get_future().get(); }, nullptr);
  stream->host_call([&] { ran = true; }, nullptr);
  std::atomic<int> polls{0};
  std::thread release([&] {
    while (polls < 2) std::this_thread::yield();  // by its second poll the first has taken effect
    hold.set_value();
  });
  // After the first `true` the stream has failed and is not polled for again: `fail` from here
  // stands for the second poll.
  const std::function<bool()> cancelled = [&] {
    ++polls;
    stream->fail({std::make_exception_ptr(Cancelled({.what = "stop"})), 0});
    ++polls;
    return true;
  };
  const Failure failure = stream->drain(&cancelled);
  release.join();
  EXPECT_THROW(std::rethrow_exception(failure.error), Cancelled);
  EXPECT_FALSE(ran);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_P(DeviceTest, CancellationIsSeenWhileWaitingForAnEvent) {
  const auto compute = driven();
  const auto hooks = threaded();
  const auto event = device->create_event();
  std::promise<void> hold;
  hooks->host_call([&] { hold.get_future().get(); }, nullptr);
  hooks->record(*event);
  compute->wait(*event);
  int polls = 0;
  const std::function<bool()> cancelled = [&] { return ++polls > 3; };
  const Failure failure = compute->drain(&cancelled);
  ASSERT_TRUE(failure);
  EXPECT_THROW(std::rethrow_exception(failure.error), Cancelled);
  hold.set_value();
  EXPECT_NO_THROW(hooks->synchronize());
}

TEST_P(DeviceTest, FailingKernelPoisonsItsStream) {
  ModuleImage image;
  image.name = "module";
  image.kernels.push_back({"kernel", {}, nullptr, [](void* const*) { throw HookError("kernel"); }});
  const auto module = device->load(std::move(image));
  const auto stream = driven();
  const auto event = device->create_event();
  stream->launch(*module, 0, {}, nullptr);
  stream->record(*event);
  EXPECT_THROW(stream->synchronize(), HookError);
  EXPECT_THROW(event->synchronize(), HookError);
}

TEST_P(DeviceTest, KernelStatusNamesTheIndex) {
  const auto kernel = [](void* const*, std::int64_t begin, std::int64_t end, void*,
                         KernelStatus* status) {
    if (begin <= 40 && 40 < end) *status = {kIndexOutOfRange, 17, 10};
  };
  const auto module = load(kernel, {.tasks = 100, .work_ns = 1e6});
  const auto stream = driven();
  stream->launch(*module, 0, {}, nullptr);
  try {
    stream->synchronize();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.message(), "index 17 is out of range [0, 10) in kernel kernel");
    EXPECT_EQ(error.where(), "module");
  }
  EXPECT_NO_THROW(stream->synchronize());
}

// Modules

TEST_P(DeviceTest, ModulesKeepTheirCodeAlive) {
  auto owner = std::make_shared<int>(1);
  ModuleImage image;
  image.name = "module";
  image.owner = owner;
  image.kernels.push_back({"a", {}, nothing, nullptr});
  image.kernels.push_back({"b", {}, nothing, nullptr});
  auto module = device->load(std::move(image));
  EXPECT_EQ(module->name(), "module");
  EXPECT_EQ(module->kernel_count(), 2u);
  EXPECT_GT(owner.use_count(), 1);
  image = {};
  module.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_P(DeviceTest, ModuleWithoutCodeIsAnError) {
  ModuleImage image;
  image.name = "module";
  image.kernels.push_back({"kernel", {}, nullptr, nullptr});
  EXPECT_THROW(device->load(std::move(image)), DeviceError);
}

std::unique_ptr<Device> make_gpu(const DeviceOptions& options) {
  return make_cuda_device(options, {.emulated = riffle::test::gpu_is_emulated()});
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest,
                         testing::Values(Target{"cpu", make_cpu_device},
                                         Target{"null", make_null_device},
                                         Target{"cuda", make_gpu}),
                         [](const auto& info) { return info.param.name; });

TEST(NullDevice, CountsWhatItWasAskedFor) {
  const auto device = make_null_device({});
  const auto buffer = device->allocate(64, "test");
  ModuleImage image;
  image.kernels.push_back({"kernel", {}, nothing, nullptr});
  const auto module = device->load(std::move(image));
  const auto stream = device->create_stream({"compute", true, 0});
  void* const operands[] = {buffer->address()};
  stream->launch(*module, 0, operands, nullptr);
  stream->fill(buffer->address(), 1, 40, nullptr);
  stream->copy(buffer->address(), buffer->address() + 32, 8, nullptr);
  EXPECT_EQ(null_counts(*device).launches, 0) << "before anybody drains it";
  stream->synchronize();
  const NullCounts counts = null_counts(*device);
  EXPECT_EQ(counts.launches, 1);
  EXPECT_EQ(counts.fills, 1);
  EXPECT_EQ(counts.copies, 1);
  EXPECT_EQ(counts.bytes, 48);
}

TEST(CpuDevice, NegativeThreadsAreAnError) {
  EXPECT_THROW(make_cpu_device({.threads = -1}), UsageError);
}

}  // namespace
}  // namespace riffle::runtime
