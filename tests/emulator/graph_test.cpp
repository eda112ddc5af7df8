// Capture and graphs.
#include <thread>

#include "driver_test.h"

namespace emulator {
namespace {

class GraphTest : public DriverTest {
 protected:
  /// Captured: fill(a, 1) and add(b, a) in one stream, add(c, a) in another, joined.
  CUgraph capture_fork(CUstream main, CUstream side, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
    const CUevent forked = event(), joined = event();
    EXPECT_CU(cuStreamBeginCapture_v2(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_CU(launch("fill", main, a, 1));
    EXPECT_CU(cuEventRecord(forked, main));
    EXPECT_CU(cuStreamWaitEvent(side, forked, 0));
    EXPECT_CU(launch("add", side, c, a));
    EXPECT_CU(launch("add", main, b, a));
    EXPECT_CU(cuEventRecord(joined, side));
    EXPECT_CU(cuStreamWaitEvent(main, joined, 0));
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(main, &graph));
    return graph;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }
};

TEST_F(GraphTest, CapturedWorkRunsAtEachLaunchOnly) {
  const CUdeviceptr a = allocate(), b = allocate(), c = allocate();
  const CUstream s = stream();
  const CUgraph graph = capture_fork(s, stream(), a, b, c);
  EXPECT_CU(cuStreamSynchronize(s));
  riffle_emulator_statistics statistics{};
  riffle_emulator_get_statistics(&statistics);
  EXPECT_EQ(statistics.launches, 0u);
  std::size_t nodes = 0, edges = 0;
  EXPECT_CU(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_CU(cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 3u);
  EXPECT_EQ(edges, 2u);
  const CUgraphExec exec = instantiate(graph);
  EXPECT_CU(cuGraphDestroy(graph)) << "the executable form stands alone";
  for (int i = 0; i < 3; ++i) EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(download(b)[9], 2);
  EXPECT_EQ(download(c)[9], 2);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_EQ(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(riffle_emulator_report_count("race"), 0u) << report_text();
}

TEST_F(GraphTest, UnjoinedStreamsAreAnError) {
  const CUdeviceptr a = allocate();
  const CUstream main = stream(), side = stream();
  const CUevent forked = event();
  EXPECT_CU(cuStreamBeginCapture_v2(main, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cuEventRecord(forked, main));
  EXPECT_CU(cuStreamWaitEvent(side, forked, 0));
  EXPECT_CU(launch("fill", side, a, 1));
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(main, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_TRUE(reported({"misuse: cuStreamEndCapture", "not joined", "kernel fill"}));
  EXPECT_EQ(graph, nullptr);
  EXPECT_CU(cuStreamSynchronize(side)) << "the capture is over for both";
}

TEST_F(GraphTest, WhatMayNotHappenDuringACaptureInvalidatesIt) {
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  struct Mistake {
    const char* name;
    CUresult expected;
    std::function<CUresult()> make;
  };
  const CUevent outside = event();
  EXPECT_CU(cuEventRecord(outside, stream()));
  CUdeviceptr address = 0;
  int word = 0;
  const Mistake mistakes[] = {
      {"cuStreamSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       [&] { return cuStreamSynchronize(s); }},
      {"cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       [&] { return cuCtxSynchronize(); }},
      {"cuMemAlloc", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       [&] { return cuMemAlloc_v2(&address, 4); }},
      {"cuMemcpyDtoH", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       [&] { return cuMemcpyDtoH_v2(&word, a, 4); }},
      {"cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
       [&] { return cuStreamWaitEvent(s, outside, 0); }},
      {"cuMemAllocAsync", CUDA_ERROR_NOT_SUPPORTED,
       [&] { return cuMemAllocAsync(&address, 4, s); }},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(launch("fill", s, a, 1));
    EXPECT_EQ(mistake.make(), mistake.expected) << mistake.name;
    EXPECT_TRUE(reported({std::string("misuse: ") + mistake.name}));
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CU(cuStreamIsCapturing(s, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED) << mistake.name;
    EXPECT_EQ(launch("fill", s, a, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_F(GraphTest, RelaxedCapturesAllowAllocation) {
  const CUstream s = stream();
  EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  const CUdeviceptr a = allocate();
  EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CU(launch("fill", s, a, 1));
  CUgraph graph = nullptr;
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    cuCtxSetCurrent(context_);
    result = cuStreamEndCapture(s, &graph);
  }).join();
  EXPECT_CU(result) << "from another thread, as relaxed captures may be";
}

TEST_F(GraphTest, CapturesEndWhereTheyBegan) {
  const CUstream main = stream(), side = stream();
  const CUevent forked = event();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(main, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuStreamBeginCapture_v2(main, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    cuCtxSetCurrent(context_);
    result = cuStreamEndCapture(main, &graph);
  }).join();
  EXPECT_EQ(result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_CU(cuEventRecord(forked, main));
  EXPECT_CU(cuStreamWaitEvent(side, forked, 0));
  EXPECT_EQ(cuEventQuery(forked), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(cuStreamEndCapture(main, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(GraphTest, TheLegacyStreamMayNotJoinACaptureOfABlockingStream) {
  const CUdeviceptr a = allocate();
  const CUstream s = stream(CU_STREAM_DEFAULT);
  EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(launch("fill", nullptr, a, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_TRUE(reported({"legacy default stream would wait"}));
}

TEST_F(GraphTest, DestroyingTheStreamOfACaptureEndsIt) {
  const CUstream s = stream();
  EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cuStreamDestroy_v2(s));
  EXPECT_CU(cuCtxSynchronize()) << "nothing is being captured";
}

TEST_F(GraphTest, ExternalEventsLinkGraphsAndStreams) {
  const CUdeviceptr a = allocate(), b = allocate();
  const CUstream s = stream(), other = stream();
  const CUevent ready = event();
  EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(launch("fill", s, a, 5));
  EXPECT_CU(cuEventRecordWithFlags(ready, s, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(s, &graph));
  const CUgraphExec exec = instantiate(graph);
  for (int i = 0; i < 4; ++i) {
    EXPECT_CU(cuGraphLaunch(exec, s));
    EXPECT_CU(cuStreamWaitEvent(other, ready, 0));
    EXPECT_CU(launch("add", other, b, a));
    EXPECT_CU(cuEventRecord(ready, other));
    EXPECT_CU(cuStreamWaitEvent(s, ready, 0));
  }
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(download(b)[0], 6);
  EXPECT_TRUE(clean());
  EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(launch("add", other, b, a));  // the mistake: no wait
  cuCtxSynchronize();
  EXPECT_TRUE(reported({"race:", "kernel fill", "graph", "kernel add"}));
}

TEST_F(GraphTest, WaitNodesWaitForTheRecordBeforeTheLaunch) {
  const CUdeviceptr a = allocate(), b = allocate();
  const CUstream s = stream(), other = stream();
  const CUevent ready = event();
  CUgraph graph = nullptr;
  EXPECT_CU(cuGraphCreate(&graph, 0));
  CUgraphNode wait = nullptr, add = nullptr;
  EXPECT_CU(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, ready));
  std::uint64_t values[] = {b, a};
  void* parameters[] = {&values[0], &values[1]};
  CUDA_KERNEL_NODE_PARAMS node{function("add"), 1, 1, 1, 32, 1, 1, 0, parameters};
  EXPECT_CU(cuGraphAddKernelNode_v2(&add, graph, &wait, 1, &node));
  const CUgraphExec exec = instantiate(graph);
  EXPECT_CU(launch("fill", other, a, 1));
  EXPECT_CU(cuEventRecord(ready, other));
  EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(download(b)[0], 2);
  EXPECT_TRUE(clean());
  // The same node with another source.
  const CUdeviceptr c = allocate();
  EXPECT_CU(launch("fill", s, c, 40));
  values[1] = c;
  EXPECT_CU(cuGraphExecKernelNodeSetParams_v2(exec, add, &node));
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, wait, &node), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(download(b)[0], 41);
}

TEST_F(GraphTest, UpdatesTakeTheSameShapeOnly) {
  const CUdeviceptr a = allocate(), b = allocate(), c = allocate();
  const CUstream s = stream(), side = stream();
  const CUgraphExec exec = instantiate(capture_fork(s, side, a, b, c));
  CUgraphExecUpdateResultInfo info{};
  EXPECT_CU(cuGraphExecUpdate_v2(exec, capture_fork(s, side, a, c, b), &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  EXPECT_CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < 3; ++i) EXPECT_CU(launch("fill", s, a, 1));
  CUgraph chain = nullptr;
  EXPECT_CU(cuStreamEndCapture(s, &chain));
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, chain, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

TEST_F(GraphTest, CyclesAreRefused) {
  CUgraph graph = nullptr;
  EXPECT_CU(cuGraphCreate(&graph, 0));
  CUgraphNode a = nullptr, b = nullptr;
  EXPECT_CU(cuGraphAddEmptyNode(&a, graph, nullptr, 0));
  EXPECT_CU(cuGraphAddEmptyNode(&b, graph, &a, 1));
  EXPECT_CU(cuGraphAddDependencies(graph, &b, &a, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

TEST_F(GraphTest, NodesOfDestroyedGraphsAreRefused) {
  CUgraph graph = nullptr;
  EXPECT_CU(cuGraphCreate(&graph, 0));
  CUgraphNode node = nullptr;
  EXPECT_CU(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_CU(cuGraphDestroy(graph));
  CUgraphNodeType type{};
  EXPECT_EQ(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace emulator
