#include "emulator/driver/races.h"

#include "driver_test.h"

namespace emulator {
namespace {

class RaceTest : public DriverTest {};

TEST_F(RaceTest, EventsOrderStreams) {
  for (int seed = 1; seed < 20; ++seed) {
    start({{"seed", std::to_string(seed)}});
    const CUdeviceptr a = allocate(), b = allocate();
    const CUstream first = stream(), second = stream();
    const CUevent ready = event();
    EXPECT_CU(launch("fill", first, a, 7));
    EXPECT_CU(cuEventRecord(ready, first));
    EXPECT_CU(cuStreamWaitEvent(second, ready, 0));
    EXPECT_CU(launch("add", second, b, a));
    EXPECT_CU(cuStreamSynchronize(second));
    EXPECT_EQ(download(b)[17], 8);
    EXPECT_TRUE(clean());
  }
}

TEST_F(RaceTest, ReportsAMissingWaitWhateverRanFirst) {
  for (const char* eager : {"0", "1"}) {
    for (int seed = 1; seed < 20; ++seed) {
      start({{"seed", std::to_string(seed)}, {"eager", eager}});
      const CUdeviceptr a = allocate(), b = allocate();
      const CUstream first = stream(), second = stream();
      EXPECT_CU(launch("fill", first, a, 7));
      EXPECT_CU(launch("add", second, b, a));
      cuCtxSynchronize();
      EXPECT_TRUE(reported(
          {"race:", "kernel fill", "kernel add", "stream", "bytes 0 to", "cuMemAlloc, 1024 bytes"}))
          << "seed " << seed << ", eager " << eager;
    }
  }
}

TEST_F(RaceTest, ReportsAWriteAfterAnUnorderedReadOfOneOfSeveralReaders) {
  const CUdeviceptr a = allocate();
  const CUstream readers[] = {stream(), stream(), stream()}, writer = stream();
  EXPECT_CU(launch("fill", writer, a, 1));
  const CUevent filled = event();
  EXPECT_CU(cuEventRecord(filled, writer));
  for (const CUstream reader : readers) {
    EXPECT_CU(cuStreamWaitEvent(reader, filled, 0));
    EXPECT_CU(launch("peek", reader, a));
  }
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean()) << "reads do not race with reads";
  for (const CUstream reader : readers) EXPECT_CU(launch("peek", reader, a));
  // Two of the three are waited for.
  for (int i = 1; i < 3; ++i) {
    EXPECT_CU(cuEventRecord(filled, readers[i]));
    EXPECT_CU(cuStreamWaitEvent(writer, filled, 0));
  }
  EXPECT_CU(launch("fill", writer, a, 2));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(riffle_emulator_report_count("race"), 1u) << report_text();
}

TEST_F(RaceTest, TheHostOrdersByWaiting) {
  const CUdeviceptr a = allocate(), b = allocate();
  const CUstream first = stream(), second = stream();
  EXPECT_CU(launch("fill", first, a, 7));
  EXPECT_CU(cuStreamSynchronize(first));
  EXPECT_CU(launch("add", second, b, a));
  const CUevent done = event();
  EXPECT_CU(cuEventRecord(done, second));
  EXPECT_CU(cuEventSynchronize(done));
  EXPECT_CU(launch("fill", first, b, 7));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean());
}

TEST_F(RaceTest, TheLegacyStreamOrdersBlockingStreamsOnly) {
  const CUdeviceptr a = allocate(), b = allocate();
  const CUstream blocking = stream(CU_STREAM_DEFAULT), free = stream();
  EXPECT_CU(launch("fill", blocking, a, 7));
  EXPECT_CU(launch("add", nullptr, b, a));
  EXPECT_CU(launch("peek", blocking, b));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean());
  EXPECT_CU(launch("fill", nullptr, a, 8));
  EXPECT_CU(launch("peek", free, a));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(reported({"race:", "legacy default stream", "peek"}));
}

TEST_F(RaceTest, CopiesAndSetsCountAsAccesses) {
  const CUdeviceptr a = allocate();
  const CUstream first = stream(), second = stream();
  EXPECT_CU(cuMemsetD32Async(a, 5, kCount, first));
  void* pinned = nullptr;
  EXPECT_CU(cuMemHostAlloc(&pinned, kBytes, 0));
  EXPECT_CU(cuMemcpyDtoHAsync_v2(pinned, a, kBytes, second));
  cuCtxSynchronize();
  EXPECT_TRUE(reported({"race:", "cuMemsetD32Async", "cuMemcpyDtoHAsync"}));
  riffle_emulator_report_clear();
  EXPECT_CU(cuMemcpyDtoHAsync_v2(pinned, a, kBytes, first));
  EXPECT_CU(cuMemcpyHtoDAsync_v2(a + 512, pinned, 256, second));
  cuCtxSynchronize();
  EXPECT_TRUE(reported({"race:", "cuMemHostAlloc"})) << "the pinned bytes race too";
}

TEST_F(RaceTest, DisjointBytesDoNotRace) {
  const CUdeviceptr a = allocate(2 * kBytes);
  const CUstream first = stream(), second = stream();
  EXPECT_CU(launch("fill", first, a, 1));
  EXPECT_CU(launch("fill", second, a + kBytes, 2));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean());
}

TEST_F(RaceTest, PageableCopyInTheLegacyStreamDoesNotOrderANonBlockingStream) {
  const CUdeviceptr a = allocate();
  const std::vector<int> values(kCount, 3);
  EXPECT_CU(cuMemcpyHtoD_v2(a, values.data(), kBytes));
  EXPECT_CU(launch("peek", stream(), a));
  cuCtxSynchronize();
  EXPECT_TRUE(reported({"race:", "cuMemcpyHtoD", "peek"}));
}

TEST_F(RaceTest, FreeingWhatMayBeInUseIsARace) {
  const CUdeviceptr a = allocate();
  EXPECT_CU(launch("fill", stream(), a, 1));
  EXPECT_CU(cuMemFree_v2(a));
  EXPECT_TRUE(reported({"race:", "cuMemFree writes", "kernel fill"}));
}

TEST_F(RaceTest, StreamOrderedMemoryIsOrderedByItsStream) {
  const CUstream first = stream(), second = stream();
  CUdeviceptr a = 0;
  EXPECT_CU(cuMemAllocAsync(&a, kBytes, first));
  EXPECT_CU(launch("fill", first, a, 1));
  EXPECT_CU(cuMemFreeAsync(a, first));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean());
  EXPECT_CU(cuMemAllocAsync(&a, kBytes, first));
  EXPECT_CU(launch("fill", second, a, 1));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(reported({"race:", "cuMemAllocAsync", "kernel fill"}));
  riffle_emulator_report_clear();
  EXPECT_CU(cuMemFreeAsync(a, first));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_TRUE(clean()) << "the host waited for the kernel";
}

TEST_F(RaceTest, LanesOfAGraphRace) {
  const CUdeviceptr a = allocate(), b = allocate();
  CUgraph graph = nullptr;
  EXPECT_CU(cuGraphCreate(&graph, 0));
  std::uint64_t fill[] = {a, 7}, add[] = {b, a};
  void* fill_parameters[] = {&fill[0], &fill[1]};
  void* add_parameters[] = {&add[0], &add[1]};
  const CUDA_KERNEL_NODE_PARAMS fill_node{function("fill"), 1, 1, 1, 32, 1, 1, 0, fill_parameters};
  const CUDA_KERNEL_NODE_PARAMS add_node{function("add"), 1, 1, 1, 32, 1, 1, 0, add_parameters};
  CUgraphNode first = nullptr, second = nullptr;
  EXPECT_CU(cuGraphAddKernelNode_v2(&first, graph, nullptr, 0, &fill_node));
  EXPECT_CU(cuGraphAddKernelNode_v2(&second, graph, nullptr, 0, &add_node));
  CUgraphExec exec = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CU(cuGraphLaunch(exec, stream()));
  cuCtxSynchronize();
  EXPECT_TRUE(reported({"race:", "kernel fill", "kernel add", "graph"}));
}

TEST(VectorClock, CoversWhatItJoined) {
  VectorClock a, b;
  a.advance(3, 5);
  b.advance(1, 2);
  b.join(a);
  EXPECT_TRUE(b.covers(3, 5));
  EXPECT_FALSE(b.covers(3, 6));
  EXPECT_FALSE(a.covers(1, 1));
}

TEST(AccessHistory, JoinsEqualNeighboursAndSplitsWhatDiffers) {
  AccessHistory history;
  int races = 0;
  const auto count = [&](const AccessHistory::Race&) { ++races; };
  auto actor = [](std::size_t component, std::uint64_t tick) {
    auto made = std::make_shared<Actor>();
    made->component = component;
    made->tick = tick;
    made->clock.advance(component, tick);
    return made;
  };
  const auto one = actor(1, 1);
  for (std::uint64_t at = 0; at < 4096; at += 4) history.record(one, {}, {{at, at + 4}}, count);
  EXPECT_EQ(history.segments(), 1u);
  history.record(actor(1, 2), {}, {{1024, 2048}}, count);
  EXPECT_EQ(history.segments(), 3u);
  EXPECT_EQ(races, 0);
  history.record(actor(2, 1), {{0, 4096}}, {}, count);
  EXPECT_EQ(races, 2) << "with each of the two writers, once";
  history.forget({0, 4096});
  EXPECT_EQ(history.segments(), 0u);
}

}  // namespace
}  // namespace emulator
