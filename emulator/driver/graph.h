// Graphs: nodes of work with the nodes they come after, captured from streams or built by hand,
// and their executable form.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "emulator/driver/call.h"

namespace emulator {

struct Node {
  abi::CUgraphNode handle = nullptr;
  Graph* graph = nullptr;
  std::shared_ptr<Context> context;
  Work work;
  std::string what;
  std::vector<Node*> after;
};

struct Graph {
  abi::CUgraph handle = nullptr;
  std::uint64_t id = 0;
  std::vector<std::unique_ptr<Node>> nodes;
};

struct GraphExec {
  struct Step {
    abi::CUgraphNode node = nullptr;
    std::size_t source = 0;  ///< position among the graph's nodes
    std::shared_ptr<Context> context;
    Work work;
    std::string what;
    std::vector<std::size_t> after;  ///< earlier steps
    bool last = true;                ///< nothing comes after it
    std::size_t component = 0;       ///< steps of one chain share one
  };
  abi::CUgraphExec handle = nullptr;
  std::uint64_t id = 0;
  std::vector<Step> steps;  ///< each after all that it depends on
  std::vector<std::size_t> components;
  std::shared_ptr<Operation> running;  ///< the end of its last launch
};

/// A capture in progress, from its beginning in one stream to its end there.
struct Capture {
  std::uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  std::weak_ptr<Stream> origin;
  abi::CUstreamCaptureMode mode = abi::CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::string invalidated;  ///< why; empty: it is not
  std::vector<std::weak_ptr<Stream>> streams;
};

/// Its streams run again. What was captured remains in its graph.
void end_capture(Driver& d, const std::shared_ptr<Capture>& capture);

abi::CUgraphNodeType type_of(const Work& work);
Node* add_node(Driver& d, Graph& graph, std::shared_ptr<Context> context, Work work,
               std::string what, std::vector<Node*> after);
Node& find_node(const Call& c, abi::CUgraphNode handle);
/// The graph's nodes and their handles are gone.
void drop_graph(Driver& d, const std::shared_ptr<Graph>& graph);

/// A launch's checked parameters (launch.cpp).
struct LaunchRequest {
  abi::CUfunction function = nullptr;
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
};
KernelWork kernel_work(const Call& c, const LaunchRequest& request);
std::string kernel_name(const KernelWork& work);

}  // namespace emulator
