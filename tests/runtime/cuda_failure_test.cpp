// The CUDA device in a failing world: every driver call fails once, memory runs out, the device is
// lost, the process forks, things are destroyed in any order, the driver is gone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/trace.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/runtime/ptx_kernels.h"

namespace riffle::runtime {
namespace {

using namespace test;

std::unique_ptr<Device> emulated(const DeviceOptions& options = {}, CudaOptions cuda = {}) {
  cuda.emulated = true;
  return make_cuda_device(options, cuda);
}

void launch(Stream& stream, Module& module, PtxKernel kernel, Buffer& buffer,
            const Command* command = nullptr) {
  void* address = buffer.address();
  stream.launch(module, kernel, {&address, 1}, command);
}

/// Uses every call of the driver that the device knows, and gives everything back. Throws the
/// first error after the streams have drained.
void use_everything(Device& device) {
  const auto module = device.load(ptx_image("module"));
  const auto compute = device.create_stream({"compute", true, 0}, 0);
  const auto hooks = device.create_stream({"hooks", false, 1}, 1);
  const auto ready = device.create_event();
  const auto a = device.allocate(kThreads * 4, "a"), b = device.allocate(kThreads * 4, "b");
  const std::vector<std::byte> zeros(kThreads * 4);
  a->write(0, zeros);
  Failure first;
  const auto drain = [&] {
    for (Stream* stream : {compute.get(), hooks.get()})
      if (const Failure failure = stream->drain(nullptr); failure && !first) first = failure;
  };
  const std::function<bool()> never = [] { return false; };
  try {
    compute->fill(b->address(), 0, kThreads * 4, nullptr);
    launch(*compute, *module, kCopyScratch, *a);
    launch(*compute, *module, kReverse, *a);
    compute->record(*ready);
    hooks->wait(*ready);
    hooks->copy(b->address(), a->address(), kThreads * 4, nullptr);
    hooks->host_call([] {}, nullptr);
    hooks->record(*ready);
    compute->wait(*ready);
    for (int i = 0; i < 2; ++i) {
      compute->begin_segment(1);
      launch(*compute, *module, kIncrement, *a);
      compute->record(*ready);
      compute->copy(b->address(), a->address(), kThreads * 4, nullptr);
      compute->end_segment();
    }
    if (const Failure failure = compute->drain(&never)) std::rethrow_exception(failure.error);
    ready->query();
    ready->synchronize();
    Trace trace;
    const Command command;
    device.set_trace(&trace);
    launch(*compute, *module, kIncrement, *a, &command);
    drain();
    device.set_trace(nullptr);
    std::vector<std::byte> back(kThreads * 4);
    b->read(0, back);
  } catch (...) {
    device.set_trace(nullptr);
    drain();
    throw;
  }
  drain();
  if (first) std::rethrow_exception(first.error);
}

// What only gives back: a failure is not told (a destructor has nobody to tell), and that one thing
// stays.
const std::set<std::string> kGivesBack = {
    "MemFree",          "MemFreeAsync",  "MemFreeHost",  "MemPoolDestroy",
    "ModuleUnload",     "StreamDestroy", "EventDestroy", "DevicePrimaryCtxRelease",
    "GraphExecDestroy", "GraphDestroy",  "CtxPopCurrent"};

std::vector<std::string> functions() {
  std::vector<std::string> names;
#define CUDA_FUNCTION(kind, version, Name, parameters) names.emplace_back(#Name);
#include "runtime/cuda/driver_api.def"
  return names;
}

TEST(CudaFailure, EveryCallFailsOnceAndNothingLeaksOrStaysBroken) {
  std::set<std::string> told;
  for (const std::string& name : functions()) {
    for (const int nth : {1, 2}) {
      SCOPED_TRACE("cu" + name + ", call " + std::to_string(nth));
      const Emulator emulator;
      constexpr const char* kCode = "304";  // CUDA_ERROR_OPERATING_SYSTEM: rare, not sticky
      emulator.set("fail", "cu" + name + ":" + std::to_string(nth) + ":" + kCode);
      std::unique_ptr<Device> device;
      try {
        device = emulated();
        use_everything(*device);
      } catch (const DeviceError& error) {
        told.insert(name);
        EXPECT_EQ(error.foreign(), "CUDA_ERROR_OPERATING_SYSTEM") << error.what();
        EXPECT_FALSE(error.hint().empty()) << error.what();
      }
      emulator.set("fail", "");
      if (!device) {
        EXPECT_EQ(emulator.leaks(), "");
        device = emulated();
      }
      EXPECT_NO_THROW(use_everything(*device));
      EXPECT_EQ(device->allocated_bytes(), 0);
      device.reset();
      if (!kGivesBack.contains(name)) {
        EXPECT_EQ(emulator.leaks(), "");
        EXPECT_EQ(emulator.problems(), "");
      }
    }
  }
  // What is asked for advice only, or where another way is open.
  const std::set<std::string> optional = {"GetErrorName",  "GetErrorString",   "DriverGetVersion",
                                          "MemGetInfo",    "MemAlloc",         "CtxSynchronize",
                                          "MemPoolTrimTo", "CtxGetDevice",     "DeviceGetCount",
                                          "Init",          "StreamSynchronize"};
  for (const std::string& name : functions())
    if (!kGivesBack.contains(name) && !optional.contains(name)) {
      EXPECT_TRUE(told.contains(name)) << "cu" << name << " failed and nobody was told";
    }
}

TEST(CudaFailure, OutOfMemoryIsMendedByAFlushWhereOneHelps) {
  const Emulator emulator;
  emulator.set("memory", std::to_string(64 << 20));
  const auto device = emulated({}, {.release_threshold = std::int64_t{1} << 40});
  device->allocate(40 << 20, "activations");  // freed at once; the pool keeps it
  EXPECT_NO_THROW(device->allocate(60 << 20, "weights"));
  EXPECT_THROW(device->allocate(70 << 20, "too much"), DeviceError);
}

TEST(CudaFailure, OutOfMemorySaysWhatWasAskedAndTheDeviceGoesOn) {
  const Emulator emulator;
  const auto device = emulated();
  emulator.set("fail", "cuMemAllocFromPoolAsync:1:2,cuMemAllocFromPoolAsync:1:2");
  try {
    device->allocate(12345, "activations");
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("no 12345 bytes for activations"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.foreign(), "CUDA_ERROR_OUT_OF_MEMORY");
  }
  EXPECT_EQ(device->allocated_bytes(), 0);
  EXPECT_NO_THROW(device->allocate(12345, "activations"));
}

TEST(CudaFailure, AStickyErrorClosesTheDeviceAndSaysSo) {
  const Emulator emulator;
  {
    const auto device = emulated();
    const auto module = device->load(ptx_image("module"));
    const auto stream = device->create_stream({"compute", true, 0}, 0);
    const auto hooks = device->create_stream({"hooks", false, 0}, 1);
    const auto event = device->create_event();
    const auto buffer = device->allocate(kThreads * 4, "a");
    launch(*stream, *module, kWild, *buffer);
    stream->record(*event);
    hooks->wait(*event);
    bool ran = false;
    hooks->host_call([&] { ran = true; }, nullptr);
    try {
      stream->synchronize();
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.foreign(), "CUDA_ERROR_ILLEGAL_ADDRESS");
      EXPECT_NE(error.hint().find("a new process"), std::string::npos) << error.what();
    }
    EXPECT_THROW(hooks->synchronize(), DeviceError);
    EXPECT_FALSE(ran);
    EXPECT_NE(device->closed().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
    try {
      device->allocate(100, "more");
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find("closed by an earlier error"), std::string::npos)
          << error.what();
    }
    EXPECT_THROW(device->load(ptx_image("module")), DeviceError);
  }
  // Nothing can be freed one by one in a lost context; what goes with it goes when it is released.
  for (const char* kind : {"contexts", "streams", "events", "allocations", "modules"})
    EXPECT_EQ(emulator.live(kind), 0U) << kind;
}

TEST(CudaFailure, ADeviceLostInMidStepFailsTheStep) {
  const Emulator emulator;
  const auto device = emulated();
  const auto module = device->load(ptx_image("module"));
  const auto stream = device->create_stream({"compute", true, 0}, 0);
  const auto buffer = device->allocate(kThreads * 4, "a");
  buffer->write(0, std::vector<std::byte>(kThreads * 4));
  launch(*stream, *module, kIncrement, *buffer);
  stream->host_call([&] { emulator.lose_device(0, 214); }, nullptr);
  launch(*stream, *module, kIncrement, *buffer);
  EXPECT_THROW(stream->synchronize(), DeviceError);
  EXPECT_NE(device->closed(), "");
}

TEST(CudaFailure, ThingsMayBeDestroyedInAnyOrder) {
  for (int order = 0; order < 6; ++order) {
    const Emulator emulator;
    std::unique_ptr<Device> device = emulated();
    auto module = device->load(ptx_image("module"));
    auto stream = device->create_stream({"compute", true, 0}, 0);
    auto event = device->create_event();
    auto buffer = device->allocate(kThreads * 4, "a");
    buffer->write(0, std::vector<std::byte>(kThreads * 4));
    launch(*stream, *module, kIncrement, *buffer);
    stream->record(*event);
    stream->synchronize();
    const std::array<std::function<void()>, 5> steps = {
        [&] { device.reset(); }, [&] { module.reset(); }, [&] { stream.reset(); },
        [&] { event.reset(); }, [&] { buffer.reset(); }};
    for (std::size_t i = 0; i < steps.size(); ++i) steps[(i * 2 + order) % steps.size()]();
    EXPECT_EQ(emulator.leaks(), "") << order;
    EXPECT_EQ(emulator.problems(), "") << order;
  }
}

TEST(CudaFailure, NothingHappensWhenTheDriverIsGoneFirst) {
  const Emulator emulator;
  auto device = emulated();
  auto module = device->load(ptx_image("module"));
  auto stream = device->create_stream({"compute", true, 0}, 0);
  auto event = device->create_event();
  auto buffer = device->allocate(100, "a");
  stream->record(*event);
  stream->synchronize();
  emulator.deinitialize();
  EXPECT_THROW(device->allocate(100, "b"), DeviceError);
  stream.reset();
  buffer.reset();
  event.reset();
  module.reset();
  device.reset();
}

TEST(CudaFailure, AForkedChildIsToldAndItsParentGoesOn) {
  const Emulator emulator;
  const auto device = emulated();
  const auto stream = device->create_stream({"hooks", false, 0}, 0);
  auto buffer = device->allocate(100, "a");
  stream->host_call([] {}, nullptr);
  stream->synchronize();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      device->allocate(100, "b");
    } catch (const DeviceError& error) {
      if (error.message().find("forked") != std::string_view::npos) status = 2;
    }
    const Failure failure = stream->drain(nullptr);
    buffer.reset();  // gives nothing back, and does not hang
    ::_exit(status == 2 && failure ? 0 : status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NO_THROW(use_everything(*device));
}

TEST(CudaFailure, TwoDevicesOnTwoThreadsDoNotMeet) {
  const Emulator emulator;
  emulator.set("devices", "2");
  const auto work = [](int index) {
    const auto device = emulated({}, {.device_index = index});
    EXPECT_EQ(cuda_facts(*device).index, index);
    for (int i = 0; i < 5; ++i) use_everything(*device);
    EXPECT_EQ(device->allocated_bytes(), 0);
  };
  std::thread other([&] { EXPECT_NO_THROW(work(1)); });
  EXPECT_NO_THROW(work(0));
  other.join();
  EXPECT_EQ(emulator.leaks(), "");
  EXPECT_EQ(emulator.problems(), "");
  EXPECT_THROW(emulated({}, {.device_index = 2}), DeviceError);
  EXPECT_THROW(emulated({}, {.device_index = -1}), DeviceError);
}

TEST(CudaFailure, ADeviceThatIsNotThereIsNamed) {
  const Emulator emulator;
  emulator.set("devices", "0");
  try {
    emulated();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("finds no device"), std::string::npos) << error.what();
  }
}

TEST(CudaFailure, AnOldDriverIsNamedWithBothVersions) {
  const Emulator emulator;
  emulator.set("driver_version", "11020");
  try {
    emulated();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("CUDA 11.2, riffle needs 12.0"), std::string::npos)
        << error.what();
  }
}

// The embedder's own context and streams

TEST(CudaEmbedding, WorksInTheContextAndOnTheStreamsThatItIsGiven) {
  const Emulator emulator;
  const std::shared_ptr<const cuda::Driver> driver = cuda::Driver::load(cuda::find_emulator());
  const cuda::DriverApi& api = driver->api();
  cuda::ContextHandle context = nullptr, current = nullptr;
  cuda::DeviceHandle gpu = 0;
  ASSERT_EQ(api.DeviceGet(&gpu, 0), cuda::kSuccess);
  ASSERT_EQ(api.DevicePrimaryCtxRetain(&context, gpu), cuda::kSuccess);
  ASSERT_EQ(api.CtxPushCurrent(context), cuda::kSuccess);
  cuda::StreamHandle compute = nullptr, communication = nullptr;
  ASSERT_EQ(api.StreamCreateWithPriority(&compute, cuda::kStreamNonBlocking, 0), cuda::kSuccess);
  ASSERT_EQ(api.StreamCreateWithPriority(&communication, cuda::kStreamNonBlocking, 0),
            cuda::kSuccess);
  ASSERT_EQ(api.CtxPopCurrent(&current), cuda::kSuccess);
  const std::uint64_t streams = emulator.live("streams");
  {
    const auto device = emulated(
        {}, {.context = context, .compute_stream = compute, .communication_stream = communication});
    EXPECT_EQ(cuda_context(*device), context);
    const auto first = device->create_stream({"compute", true, 0}, 0);
    const auto second = device->create_stream({"communication", false, 1}, 1);
    const auto third = device->create_stream({"hooks", false, 0}, 2);
    EXPECT_EQ(first->native(), compute);
    EXPECT_EQ(second->native(), communication);
    EXPECT_NE(third->native(), compute);
    EXPECT_NO_THROW(use_everything(*device));
  }
  EXPECT_EQ(emulator.live("streams"), streams) << "the embedder's streams stay, ours do not";
  EXPECT_EQ(emulator.live("contexts"), 1U);
  // A thread of the embedder's finds its own context current again.
  ASSERT_EQ(api.CtxPushCurrent(context), cuda::kSuccess);
  ASSERT_EQ(api.StreamDestroy(compute), cuda::kSuccess);
  ASSERT_EQ(api.StreamDestroy(communication), cuda::kSuccess);
  ASSERT_EQ(api.CtxPopCurrent(&current), cuda::kSuccess);
  EXPECT_EQ(current, context);
  ASSERT_EQ(api.DevicePrimaryCtxRelease(gpu), cuda::kSuccess);
  EXPECT_EQ(emulator.leaks(), "");
  EXPECT_EQ(emulator.problems(), "");
}

TEST(CudaEmbedding, StreamsWithoutTheirContextAreAnError) {
  const Emulator emulator;
  int anything = 0;
  EXPECT_THROW(emulated({}, {.compute_stream = &anything}), UsageError);
}

}  // namespace
}  // namespace riffle::runtime
