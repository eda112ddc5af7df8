// Graphs built by hand, and what can be asked of their nodes.
#include <algorithm>

#include "emulator/driver/graph.h"

namespace emulator {

Node* add_node(Driver& d, Graph& graph, std::shared_ptr<Context> context, Work work,
               std::string what, std::vector<Node*> after) {
  auto node = std::make_unique<Node>();
  // Numbers like those of Handles: never one twice, and none to dereference.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
  node->handle = reinterpret_cast<abi::CUgraphNode>((std::uint64_t{0x18} << 36) + ++d.last_id * 16);
  node->graph = &graph;
  node->context = std::move(context);
  node->work = std::move(work);
  node->what = std::move(what);
  node->after = std::move(after);
  d.nodes[node->handle] = node.get();
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().get();
}

Node& find_node(const Call& c, abi::CUgraphNode handle) {
  const auto found = c.d.nodes.find(handle);
  if (found == c.d.nodes.end()) {
    c.misuse(abi::CUDA_ERROR_INVALID_HANDLE, "no graph node, or one of a destroyed graph");
  }
  return *found->second;
}

void drop_graph(Driver& d, const std::shared_ptr<Graph>& graph) {
  for (const auto& node : graph->nodes) d.nodes.erase(node->handle);
  // Events recorded in its capture name its nodes.
  for (const auto& [handle, event] : d.events.all()) {
    std::erase_if(event->captured, [&](const Node* node) { return node->graph == graph.get(); });
  }
  graph->nodes.clear();
}

namespace abi {
namespace {

std::vector<Node*> dependencies(const Call& c, const Graph& graph, const CUgraphNode* nodes,
                                std::size_t count) {
  if (count > 0) c.require(nodes, "the dependencies");
  std::vector<Node*> after;
  for (std::size_t i = 0; i < count; ++i) {
    Node& node = find_node(c, nodes[i]);
    if (node.graph != &graph) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "a dependency is a node of another graph");
    }
    if (std::find(after.begin(), after.end(), &node) != after.end()) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "a dependency is given twice");
    }
    after.push_back(&node);
  }
  return after;
}

/// Adds a node of the work that `make` gives.
template <class Make>
CUresult add(const char* name, CUgraphNode* result, CUgraph handle, const CUgraphNode* after,
             std::size_t count, const char* what, Make&& make) {
  return call(name, Needs::context, [&](Call& c) {
    c.require(result, "the result's place");
    const auto graph = c.find(c.d.graphs, handle);
    std::vector<Node*> earlier = dependencies(c, *graph, after, count);
    Work work = make(c);
    std::string text = what;
    if (const auto* kernel = std::get_if<KernelWork>(&work)) text += " " + kernel_name(*kernel);
    *result =
        add_node(c.d, *graph, c.context(), std::move(work), std::move(text), std::move(earlier))
            ->handle;
  });
}

LaunchRequest request_of(const Call& c, const CUDA_KERNEL_NODE_PARAMS* p) {
  c.require(p, "the parameters");
  return {p->func,
          {p->gridDimX, p->gridDimY, p->gridDimZ},
          {p->blockDimX, p->blockDimY, p->blockDimZ},
          p->sharedMemBytes,
          p->kernelParams,
          p->extra};
}

/// The driver's way to hand out a list: all of it, or how many there are where `nodes` is null.
void hand_out(const std::vector<CUgraphNode>& all, CUgraphNode* nodes, std::size_t* count) {
  if (nodes) {
    const std::size_t room = *count;
    for (std::size_t i = 0; i < room; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
    *count = std::min(room, all.size());
  } else {
    *count = all.size();
  }
}

}  // namespace

EMULATOR_EXPORT CUresult cuGraphCreate(CUgraph* handle, unsigned flags) {
  return call("cuGraphCreate", Needs::initialised, [&](Call& c) {
    c.require(handle, "the result's place");
    const auto graph = std::make_shared<Graph>();
    graph->id = ++c.d.last_id;
    *handle = graph->handle = c.d.graphs.add(graph);
  });
}

EMULATOR_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  return call("cuGraphDestroy", Needs::initialised, [&](Call& c) {
    const auto graph = c.find(c.d.graphs, handle);
    drop_graph(c.d, graph);
    c.d.graphs.erase(handle);
  });
}

EMULATOR_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph,
                                                 const CUgraphNode* after, std::size_t count,
                                                 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return add("cuGraphAddKernelNode", node, graph, after, count, "kernel",
             [&](Call& c) { return Work(kernel_work(c, request_of(c, parameters))); });
}

EMULATOR_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* after, std::size_t count,
                                              const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return cuGraphAddKernelNode_v2(node, graph, after, count, parameters);
}

EMULATOR_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* after, std::size_t count,
                                              const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
  return add("cuGraphAddMemsetNode", node, graph, after, count, "memset node", [&](Call& c) {
    c.require(p, "the parameters");
    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "elements of neither 1, 2 nor 4 bytes");
    }
    if (p->width == 0 || p->height == 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "nothing to set");
    const std::uint64_t row = p->width * p->elementSize;
    const std::uint64_t pitch = p->height > 1 ? p->pitch : row;
    const End end =
        classify(c, p->dst, (p->height - 1) * pitch + row, Expect::device, "the destination");
    return Work(FillWork{end.address, p->value, p->elementSize, p->width, p->height, pitch});
  });
}

EMULATOR_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                            const CUgraphNode* after, std::size_t count,
                                            const CUDA_HOST_NODE_PARAMS* parameters) {
  return add("cuGraphAddHostNode", node, graph, after, count, "host function", [&](Call& c) {
    c.require(parameters, "the parameters");
    if (!parameters->fn) c.misuse(CUDA_ERROR_INVALID_VALUE, "the function is null");
    return Work(HostWork{parameters->fn, parameters->userData});
  });
}

EMULATOR_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* after, std::size_t count) {
  return add("cuGraphAddEmptyNode", node, graph, after, count, "empty node",
             [&](Call&) { return Work(MarkerWork{}); });
}

EMULATOR_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                                   const CUgraphNode* after, std::size_t count,
                                                   CUevent event) {
  return add("cuGraphAddEventRecordNode", node, graph, after, count, "event record",
             [&](Call& c) { return Work(EventRecordWork{c.event(event)}); });
}

EMULATOR_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                                 const CUgraphNode* after, std::size_t count,
                                                 CUevent event) {
  return add("cuGraphAddEventWaitNode", node, graph, after, count, "event wait",
             [&](Call& c) { return Work(EventWaitWork{c.event(event)}); });
}

EMULATOR_EXPORT CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from,
                                                const CUgraphNode* to, std::size_t count) {
  return call("cuGraphAddDependencies", Needs::initialised, [&](Call& c) {
    const auto graph = c.find(c.d.graphs, handle);
    for (std::size_t i = 0; i < count; ++i) {
      Node &earlier = find_node(c, from[i]), &later = find_node(c, to[i]);
      if (earlier.graph != graph.get() || later.graph != graph.get()) {
        c.misuse(CUDA_ERROR_INVALID_VALUE, "a node of another graph");
      }
      if (&earlier == &later ||
          std::find(later.after.begin(), later.after.end(), &earlier) != later.after.end()) {
        c.misuse(CUDA_ERROR_INVALID_VALUE, "an edge that is there already, or to itself");
      }
      later.after.push_back(&earlier);
    }
  });
}

EMULATOR_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                   const CUgraphNode* to,
                                                   const CUgraphEdgeData* edges,
                                                   std::size_t count) {
  return cuGraphAddDependencies(graph, from, to, count);
}

EMULATOR_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return call("cuGraphGetNodes", Needs::initialised, [&](Call& c) {
    c.require(count, "the count");
    std::vector<CUgraphNode> all;
    for (const auto& node : c.find(c.d.graphs, handle)->nodes) all.push_back(node->handle);
    hand_out(all, nodes, count);
  });
}

EMULATOR_EXPORT CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes,
                                             std::size_t* count) {
  return call("cuGraphGetRootNodes", Needs::initialised, [&](Call& c) {
    c.require(count, "the count");
    std::vector<CUgraphNode> all;
    for (const auto& node : c.find(c.d.graphs, handle)->nodes) {
      if (node->after.empty()) all.push_back(node->handle);
    }
    hand_out(all, nodes, count);
  });
}

EMULATOR_EXPORT CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                                         std::size_t* count) {
  return call("cuGraphGetEdges", Needs::initialised, [&](Call& c) {
    c.require(count, "the count");
    std::vector<CUgraphNode> starts, ends;
    for (const auto& node : c.find(c.d.graphs, handle)->nodes) {
      for (const Node* earlier : node->after) {
        starts.push_back(earlier->handle);
        ends.push_back(node->handle);
      }
    }
    std::size_t room = *count;
    hand_out(starts, from, &room);
    hand_out(ends, to, count);
  });
}

EMULATOR_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                            CUgraphEdgeData* edges, std::size_t* count) {
  const CUresult code = cuGraphGetEdges(graph, from, to, count);
  if (code == CUDA_SUCCESS && edges && from) std::fill(edges, edges + *count, CUgraphEdgeData{});
  return code;
}

EMULATOR_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes,
                                                    std::size_t* count) {
  return call("cuGraphNodeGetDependencies", Needs::initialised, [&](Call& c) {
    c.require(count, "the count");
    std::vector<CUgraphNode> all;
    for (const Node* node : find_node(c, handle).after) all.push_back(node->handle);
    hand_out(all, nodes, count);
  });
}

EMULATOR_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes,
                                                       CUgraphEdgeData* edges, std::size_t* count) {
  const CUresult code = cuGraphNodeGetDependencies(node, nodes, count);
  if (code == CUDA_SUCCESS && edges && nodes) std::fill(edges, edges + *count, CUgraphEdgeData{});
  return code;
}

EMULATOR_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return call("cuGraphNodeGetType", Needs::initialised, [&](Call& c) {
    c.require(type, "the result's place");
    *type = type_of(find_node(c, handle).work);
  });
}

namespace {

/// Launch shape and function; the values of the parameters are not handed out.
CUresult get_parameters(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* p, bool with_context) {
  return call("cuGraphKernelNodeGetParams", Needs::initialised, [&](Call& c) {
    c.require(p, "the result's place");
    const Node& node = find_node(c, handle);
    const auto* work = std::get_if<KernelWork>(&node.work);
    if (!work) c.misuse(CUDA_ERROR_INVALID_VALUE, node.what + " is no kernel node");
    p->func = work->function;
    p->gridDimX = work->grid.x;
    p->gridDimY = work->grid.y;
    p->gridDimZ = work->grid.z;
    p->blockDimX = work->block.x;
    p->blockDimY = work->block.y;
    p->blockDimZ = work->block.z;
    p->sharedMemBytes = work->dynamic_shared_bytes;
    p->kernelParams = nullptr;
    p->extra = nullptr;
    if (!with_context) return;
    p->kern = nullptr;
    p->ctx = node.context->handle;
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node,
                                                       CUDA_KERNEL_NODE_PARAMS* parameters) {
  return get_parameters(node, parameters, true);
}

EMULATOR_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node,
                                                    CUDA_KERNEL_NODE_PARAMS* parameters) {
  return get_parameters(node, parameters, false);
}

EMULATOR_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return call("cuGraphKernelNodeSetParams", Needs::context, [&](Call& c) {
    Node& node = find_node(c, handle);
    if (!std::holds_alternative<KernelWork>(node.work)) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, node.what + " is no kernel node");
    }
    KernelWork work = kernel_work(c, request_of(c, parameters));
    node.what = "kernel " + kernel_name(work);
    node.work = std::move(work);
  });
}

EMULATOR_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return cuGraphKernelNodeSetParams_v2(node, parameters);
}

}  // namespace abi
}  // namespace emulator
