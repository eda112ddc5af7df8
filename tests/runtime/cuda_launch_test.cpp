// Kernels on the CUDA device, executed by the emulator: launches, their reports, graphs, spans.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/trace.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/runtime/ptx_kernels.h"

namespace riffle::runtime {
namespace {

using namespace test;

class CudaLaunch : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(emulator.problems(), ""); }
  std::unique_ptr<Stream> driven() { return device->create_stream({"compute", true, 0}, 0); }
  std::unique_ptr<Stream> threaded() { return device->create_stream({"hooks", false, 1}, 1); }
  std::unique_ptr<Buffer> numbers(std::uint32_t first = 0) {
    std::vector<std::uint32_t> values(kThreads);
    std::iota(values.begin(), values.end(), first);
    auto buffer = device->allocate(kThreads * 4, "numbers");
    buffer->write(0, std::as_bytes(std::span(values)));
    return buffer;
  }
  static std::vector<std::uint32_t> values_of(Buffer& buffer) {
    std::vector<std::uint32_t> values(kThreads);
    buffer.read(0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  static void launch(Stream& stream, Module& module, PtxKernel kernel, Buffer* buffer = nullptr,
                     const Command* command = nullptr) {
    void* address = buffer ? buffer->address() : nullptr;
    stream.launch(module, kernel, {&address, buffer ? 1U : 0U}, command);
  }

  Emulator emulator;
  std::unique_ptr<Device> device = make_cuda_device({}, {.emulated = true});
};

TEST_F(CudaLaunch, EveryThreadRunsOncePerLaunch) {
  const auto module = device->load(ptx_image("module"));
  const auto buffer = numbers();
  const auto stream = driven();
  for (int i = 0; i < 3; ++i) launch(*stream, *module, kIncrement, buffer.get());
  stream->synchronize();
  const auto values = values_of(*buffer);
  for (std::uint32_t i = 0; i < kThreads; ++i) ASSERT_EQ(values[i], i + 3);
}

TEST_F(CudaLaunch, ManyStreamsLaunchAtOnce) {
  const auto module = device->load(ptx_image("module"));
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(threaded());
    buffers.push_back(numbers());
  }
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < streams.size(); ++i)
      launch(*streams[i], *module, kIncrement, buffers[i].get());
  for (const auto& stream : streams) stream->synchronize();
  for (const auto& buffer : buffers) EXPECT_EQ(values_of(*buffer)[5], 15U);
}

TEST_F(CudaLaunch, AStatusNamesTheIndexAndTheKernel) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto buffer = numbers();
  launch(*stream, *module, kIncrement, buffer.get());
  launch(*stream, *module, kReportIndex);
  try {
    stream->synchronize();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.message(), "index 17 is out of range [0, 10) in kernel report_index");
    EXPECT_EQ(error.where(), "module");
  }
  launch(*stream, *module, kIncrement, buffer.get());
  EXPECT_NO_THROW(stream->synchronize()) << "a report is taken once";
}

TEST_F(CudaLaunch, OfTwoReportsTheEarlierLaunchsIsTold) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  for (const bool another_first : {true, false}) {
    launch(*stream, *module, another_first ? kReportAnother : kReportIndex);
    launch(*stream, *module, another_first ? kReportIndex : kReportAnother);
    try {
      stream->synchronize();
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.message().substr(0, 9), another_first ? "index 3 i" : "index 17 ");
    }
  }
}

TEST_F(CudaLaunch, AReportStopsTheStreamBeforeAHostCall) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  bool ran = false;
  launch(*stream, *module, kReportIndex);
  stream->host_call([&] { ran = true; }, nullptr);
  EXPECT_THROW(stream->synchronize(), DeviceError);
  EXPECT_FALSE(ran);
}

TEST_F(CudaLaunch, ScratchGrowsWithTheModulesAndIsTheStreamsOwn) {
  const auto small = device->load(ptx_image("small"));
  const auto large = device->load(ptx_image("large", 1 << 20));
  const auto a = driven(), b = threaded();
  const auto of_a = numbers(), of_b = numbers();
  for (int i = 0; i < 2; ++i)
    for (Module* module : {small.get(), large.get()}) {
      launch(*a, *module, kCopyScratch, of_a.get());
      launch(*b, *module, kCopyScratch, of_b.get());
    }
  a->synchronize();
  b->synchronize();
  for (const auto& buffer : {of_a.get(), of_b.get()}) {
    const auto values = values_of(*buffer);
    for (std::uint32_t i = 0; i < kThreads; ++i) ASSERT_EQ(values[i], 5 * i);
  }
}

TEST_F(CudaLaunch, MoreDynamicSharedMemoryThanIsGivenWithoutAsking) {
  emulator.set("sm", "80");
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto buffer = numbers();
  launch(*stream, *module, kReverse, buffer.get());
  stream->synchronize();
  const auto values = values_of(*buffer);
  for (std::uint32_t i = 0; i < kThreads; ++i)
    ASSERT_EQ(values[i], i / kBlock * kBlock + kBlock - 1 - i % kBlock);
}

TEST_F(CudaLaunch, AWrongNumberOfOperandsFailsTheStream) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  launch(*stream, *module, kIncrement);
  EXPECT_THROW(stream->synchronize(), DeviceError);
}

// Modules

TEST_F(CudaLaunch, TheDriversLogIsInTheError) {
  std::string broken = ptx_text();
  broken.replace(broken.find("ret;"), 4, "return_;");
  try {
    device->load(ptx_image_with("partition_3", broken));
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.where(), "partition_3");
    EXPECT_EQ(error.foreign(), "CUDA_ERROR_INVALID_PTX");
    EXPECT_NE(error.message().find("the driver's log"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("return_"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("PTX 7.0 for sm_75"), std::string::npos) << error.what();
  }
  emulator.forget();  // that there was something to complain of
}

TEST_F(CudaLaunch, PtxThatTheDriverIsTooOldForNamesBothVersions) {
  std::string newer = ptx_text();
  newer.replace(newer.find("7.0"), 3, "9.9");
  try {
    device->load(ptx_image_with("module", newer, 99));
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.foreign(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION") << error.what();
    EXPECT_NE(error.message().find("PTX 9.9"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("driver for CUDA 13.0"), std::string::npos) << error.what();
  }
  emulator.forget();
}

TEST_F(CudaLaunch, AMissingKernelIsNamed) {
  std::string other = ptx_text();
  for (std::size_t at = 0; (at = other.find("entry reverse", at)) != std::string::npos; ++at)
    other.replace(at, 13, "entry renamed");
  try {
    device->load(ptx_image_with("module", other));
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.where(), "reverse in module");
    EXPECT_EQ(error.foreign(), "CUDA_ERROR_NOT_FOUND");
  }
  emulator.forget();
}

// Segments

TEST_F(CudaLaunch, ASegmentIsCapturedOnceAndLaunchedEachTime) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto hooks = threaded();
  const auto ready = device->create_event();
  const auto buffer = numbers(), copy = device->allocate(kThreads * 4, "copy");
  std::vector<std::uint32_t> seen;
  for (int step = 0; step < 5; ++step) {
    stream->begin_segment(1);
    launch(*stream, *module, kIncrement, buffer.get());
    stream->copy(copy->address(), buffer->address(), kThreads * 4, nullptr);
    stream->record(*ready);
    launch(*stream, *module, kIncrement, buffer.get());
    stream->end_segment();
    // The record is an external node: others wait for it as for any.
    hooks->wait(*ready);
    hooks->host_call([&] { seen.push_back(values_of(*copy)[0]); }, nullptr);
    stream->synchronize();
    hooks->synchronize();
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{1, 3, 5, 7, 9}));
  EXPECT_EQ(values_of(*buffer)[1], 11U);
  EXPECT_EQ(cuda_counts(*device).graphs_captured, 1);
  EXPECT_EQ(cuda_counts(*device).graphs_launched, 5);
}

TEST_F(CudaLaunch, WhatChangesInASegmentIsCapturedAnew) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto a = numbers(), b = numbers();
  for (Buffer* buffer : {a.get(), b.get(), b.get(), a.get()}) {
    stream->begin_segment(1);
    launch(*stream, *module, kIncrement, buffer);
    launch(*stream, *module, kIncrement, buffer);
    stream->end_segment();
  }
  stream->synchronize();
  EXPECT_EQ(values_of(*a)[0], 4U);
  EXPECT_EQ(values_of(*b)[0], 4U);
  EXPECT_EQ(cuda_counts(*device).graphs_captured, 3);
}

TEST_F(CudaLaunch, AReportFromAGraphNamesItsKernel) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  for (int step = 0; step < 2; ++step) {
    stream->begin_segment(1);
    launch(*stream, *module, kReportAnother);
    launch(*stream, *module, kReportIndex);
    stream->end_segment();
    try {
      stream->synchronize();
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.message(), "index 3 is out of range [0, 2) in kernel report_another");
    }
  }
}

TEST_F(CudaLaunch, GraphsCanBeTurnedOff) {
  device = make_cuda_device({}, {.emulated = true, .graphs = false});
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto buffer = numbers();
  stream->begin_segment(1);
  launch(*stream, *module, kIncrement, buffer.get());
  launch(*stream, *module, kIncrement, buffer.get());
  stream->end_segment();
  stream->synchronize();
  EXPECT_EQ(values_of(*buffer)[0], 2U);
  EXPECT_EQ(cuda_counts(*device).graphs_captured, 0);
}

// Spans

TEST_F(CudaLaunch, ATraceHasASpanForEveryCommandInOrder) {
  const auto module = device->load(ptx_image("module"));
  const auto stream = driven();
  const auto event = device->create_event();
  const auto buffer = numbers();
  std::vector<Command> commands(4);
  for (std::size_t i = 0; i < commands.size(); ++i) commands[i].label = "c" + std::to_string(i);
  commands[1].what = Record{0};
  Trace trace;
  trace.step = 3;
  const std::int64_t before = std::chrono::steady_clock::now().time_since_epoch().count();
  device->set_trace(&trace);
  stream->begin_segment(1);
  launch(*stream, *module, kIncrement, buffer.get(), &commands[0]);
  stream->record(*event, &commands[1]);
  launch(*stream, *module, kIncrement, buffer.get(), &commands[2]);
  stream->end_segment();
  stream->host_call([] {}, &commands[3]);
  stream->synchronize();
  device->set_trace(nullptr);
  const std::int64_t after = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::vector<Span> spans = trace.take();
  ASSERT_EQ(spans.size(), 4U);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].command, &commands[i]);
    EXPECT_EQ(spans[i].step, 3);
    EXPECT_LE(spans[i].begin_ns, spans[i].end_ns);
    EXPECT_GE(spans[i].begin_ns, before);
    EXPECT_LE(spans[i].end_ns, after);
  }
  EXPECT_EQ(spans[1].begin_ns, spans[1].end_ns) << "a record is a moment";
  EXPECT_EQ(cuda_counts(*device).graphs_launched, 0) << "a trace wants every command";
}

// What others ask of a device

TEST_F(CudaLaunch, TheDeviceSaysWhatCodeIsFor) {
  const GpuInfo* gpu = device->gpu();
  ASSERT_NE(gpu, nullptr);
  EXPECT_FALSE(gpu->name.empty());
  EXPECT_EQ(gpu->sm, 80);
  EXPECT_EQ(gpu->driver_version, 13000);
  EXPECT_GT(gpu->memory_bytes, 0);
  EXPECT_EQ(device->name(), "cuda-emulated");
  EXPECT_TRUE(cuda_facts(*device).emulated);
  EXPECT_EQ(device->closed(), "");
}

TEST_F(CudaLaunch, NativeWorkKeepsItsPlaceBehindAHostCall) {
  const auto stream = driven();
  std::vector<int> order;
  stream->enqueue_native(
      [&](void* native) {
        EXPECT_EQ(native, stream->native());
        order.push_back(0);
      },
      nullptr);
  stream->host_call([&] { order.push_back(1); }, nullptr);
  stream->enqueue_native([&](void*) { order.push_back(2); }, nullptr);
  EXPECT_EQ(order, (std::vector<int>{0}));
  stream->synchronize();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  stream->enqueue_native([](void*) { throw std::runtime_error("native"); }, nullptr);
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
}

// runtime/cuda reads the emulator's statistics by a declaration of its own.
TEST(CudaEmulated, SpeedIsTheOneThatTheEmulatorGives) {
  Emulator emulator;
  const auto device = make_cuda_device({}, {.emulated = true});
  EXPECT_EQ(cuda_emulated_speed(*device), emulator.statistics().instructions_per_second);
  EXPECT_GT(cuda_emulated_speed(*device), 0);
  EXPECT_EQ(cuda_emulated_speed(*make_cpu_device({})), 0);
}

}  // namespace
}  // namespace riffle::runtime
