// Executable graphs: made from a graph, launched into a stream, updated.
#include "emulator/driver/graph.h"

#include <algorithm>

namespace emulator {

abi::CUgraphNodeType type_of(const Work& work) {
  if (std::holds_alternative<KernelWork>(work)) return abi::CU_GRAPH_NODE_TYPE_KERNEL;
  if (std::holds_alternative<CopyWork>(work)) return abi::CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::holds_alternative<FillWork>(work)) return abi::CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::holds_alternative<HostWork>(work)) return abi::CU_GRAPH_NODE_TYPE_HOST;
  if (std::holds_alternative<EventWaitWork>(work)) return abi::CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (std::holds_alternative<EventRecordWork>(work)) return abi::CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  return abi::CU_GRAPH_NODE_TYPE_EMPTY;
}

namespace {

/// Puts steps after what they depend on, the earliest of the graph first. False: a cycle.
bool order(const Graph& graph, std::vector<GraphExec::Step>& steps) {
  const std::size_t count = graph.nodes.size();
  std::map<const Node*, std::size_t> position, placed;
  for (std::size_t i = 0; i < count; ++i) position[graph.nodes[i].get()] = i;
  std::vector<bool> done(count);
  while (steps.size() < count) {
    bool progress = false;
    for (std::size_t i = 0; i < count; ++i) {
      const Node& node = *graph.nodes[i];
      if (done[i] || !std::all_of(node.after.begin(), node.after.end(),
                                  [&](const Node* n) { return placed.contains(n); })) {
        continue;
      }
      GraphExec::Step step;
      step.node = node.handle;
      step.source = i;
      step.context = node.context;
      step.work = node.work;
      step.what = node.what;
      for (const Node* earlier : node.after) {
        step.after.push_back(placed.at(earlier));
        steps[placed.at(earlier)].last = false;
      }
      placed[&node] = steps.size();
      steps.push_back(std::move(step));
      done[i] = progress = true;
    }
    if (!progress) return false;
  }
  return true;
}

/// Cuts the steps into chains: one component of the vector clocks each, for all launches.
void assign_components(Driver& d, GraphExec& exec) {
  std::vector<bool> continued(exec.steps.size());
  for (GraphExec::Step& step : exec.steps) {
    const auto chain = std::find_if(step.after.begin(), step.after.end(),
                                    [&](std::size_t earlier) { return !continued[earlier]; });
    if (chain != step.after.end()) {
      continued[*chain] = true;
      step.component = exec.steps[*chain].component;
    } else {
      step.component = d.components.take(d.host_clock);
      exec.components.push_back(step.component);
    }
  }
}

std::shared_ptr<GraphExec> instantiate(Call& c, abi::CUgraph handle) {
  const auto graph = c.find(c.d.graphs, handle);
  const auto exec = std::make_shared<GraphExec>();
  exec->id = ++c.d.last_id;
  if (!order(*graph, exec->steps)) {
    c.misuse(abi::CUDA_ERROR_INVALID_VALUE, "the graph has a cycle");
  }
  assign_components(c.d, *exec);
  exec->handle = c.d.graph_execs.add(exec);
  return exec;
}

void launch(Call& c, GraphExec& exec, Stream& stream) {
  Driver& d = c.d;
  const auto context = stream.context.lock();
  if (stream.legacy) c.forbid_implicit_capture(*context);
  const std::string name = "graph " + std::to_string(exec.id);
  Operations before;
  if (exec.running) before.push_back(exec.running);
  const auto begin = submit(d, stream, MarkerWork{}, "start of " + name, before);
  const std::string where = name + " in " + stream.name();
  Operations operations, last{begin};
  for (const GraphExec::Step& step : exec.steps) {
    Operations after;
    for (const std::size_t earlier : step.after) after.push_back(operations[earlier]);
    if (after.empty()) after.push_back(begin);
    if (const auto* wait = std::get_if<EventWaitWork>(&step.work)) {
      if (wait->event->recorded) after.push_back(wait->event->recorded);
    }
    operations.push_back(
        submit_after(d, step.context, step.component, step.work, step.what, where, after));
    if (const auto* record = std::get_if<EventRecordWork>(&step.work)) {
      record->event->recorded = operations.back();
      record->event->capture_id = 0;
    }
    if (step.last) last.push_back(operations.back());
  }
  stream.tail = submit_after(d, context, stream.component, MarkerWork{}, "end of " + name,
                             stream.name(), last);
  exec.running = stream.tail;
}

}  // namespace

namespace abi {

EMULATOR_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* handle, CUgraph graph,
                                                     unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    *handle = instantiate(c, graph)->handle;
  });
}

EMULATOR_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* handle, CUgraph graph,
                                               CUgraphNode* error_node, char* log,
                                               std::size_t bytes) {
  return call("cuGraphInstantiate", Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    if (error_node) *error_node = nullptr;
    if (log && bytes > 0) *log = '\0';
    *handle = instantiate(c, graph)->handle;
  });
}

EMULATOR_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* handle, CUgraph graph,
                                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return call("cuGraphInstantiateWithParams", Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    c.require(parameters, "the parameters");
    parameters->hErrNode_out = nullptr;
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    *handle = instantiate(c, graph)->handle;
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  });
}

EMULATOR_EXPORT CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call("cuGraphLaunch", Needs::context, [&](Call& c) {
    const auto exec = c.find(c.d.graph_execs, handle);
    const auto stream = c.stream(stream_handle);
    if (stream->capture) {
      stream->capture->invalidated = "a graph launch";
      c.misuse(CUDA_ERROR_NOT_SUPPORTED, "child graphs are not emulated");
    }
    for (const GraphExec::Step& step : exec->steps) {
      const auto* kernel = std::get_if<KernelWork>(&step.work);
      if (kernel && kernel->module->unloaded) {
        c.misuse(CUDA_ERROR_INVALID_HANDLE,
                 "kernel " + kernel_name(*kernel) + " is of a module that was unloaded");
      }
      if (step.context->destroyed) {
        c.misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED,
                 step.what + " is of a context that was destroyed");
      }
    }
    launch(c, *exec, *stream);
  });
}

EMULATOR_EXPORT CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return call("cuGraphUpload", Needs::context, [&](Call& c) {
    c.find(c.d.graph_execs, handle);
    enqueue(c, *c.stream(stream), MarkerWork{}, "graph upload");
  });
}

EMULATOR_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call("cuGraphExecDestroy", Needs::initialised, [&](Call& c) {
    const auto exec = c.find(c.d.graph_execs, handle);
    for (const std::size_t component : exec->components) c.d.components.give_back(component);
    c.d.graph_execs.erase(handle);
  });
}

namespace {

CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo& info) {
  return call("cuGraphExecUpdate", Needs::context, [&](Call& c) {
    const auto exec = c.find(c.d.graph_execs, handle);
    const auto graph = c.find(c.d.graphs, graph_handle);
    info = {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
    const auto refuse = [&](const std::string& why) {
      c.misuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, why);
    };
    std::vector<GraphExec::Step> steps;
    if (!order(*graph, steps)) refuse("the graph has a cycle");
    if (steps.size() != exec->steps.size()) {
      refuse(std::to_string(steps.size()) + " nodes where " + std::to_string(exec->steps.size()) +
             " were instantiated");
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const GraphExec::Step &fresh = steps[i], &old = exec->steps[i];
      info.errorNode = fresh.node;
      if (fresh.after != old.after) refuse("the edges of " + fresh.what + " differ");
      if (fresh.work.index() != old.work.index()) {
        info.result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        refuse(fresh.what + " where " + old.what + " was instantiated");
      }
      if (fresh.context != old.context) {
        info.result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        refuse(fresh.what + " is of another context");
      }
    }
    info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      exec->steps[i].work = std::move(steps[i].work);
      exec->steps[i].what = std::move(steps[i].what);
    }
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                              CUgraphExecUpdateResultInfo* info) {
  CUgraphExecUpdateResultInfo unwanted;
  return update(exec, graph, info ? *info : unwanted);
}

EMULATOR_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                           CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  const CUresult code = update(exec, graph, info);
  if (error_node) *error_node = info.errorNode;
  if (result) *result = info.result;
  return code;
}

namespace {

GraphExec::Step& step_of(const Call& c, GraphExec& exec, CUgraphNode node) {
  for (GraphExec::Step& step : exec.steps) {
    if (step.node == node) return step;
  }
  c.misuse(CUDA_ERROR_INVALID_VALUE, "the node is not of the graph that was instantiated");
}

}  // namespace

EMULATOR_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                                           const CUDA_KERNEL_NODE_PARAMS* p) {
  return call("cuGraphExecKernelNodeSetParams", Needs::context, [&](Call& c) {
    c.require(p, "the parameters");
    const auto exec = c.find(c.d.graph_execs, handle);
    GraphExec::Step& step = step_of(c, *exec, node);
    if (!std::holds_alternative<KernelWork>(step.work)) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, step.what + " is no kernel node");
    }
    KernelWork work = kernel_work(c, {p->func,
                                      {p->gridDimX, p->gridDimY, p->gridDimZ},
                                      {p->blockDimX, p->blockDimY, p->blockDimZ},
                                      p->sharedMemBytes,
                                      p->kernelParams,
                                      p->extra});
    step.what = "kernel " + kernel_name(work);
    step.work = std::move(work);
  });
}

EMULATOR_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                        const CUDA_KERNEL_NODE_PARAMS* p) {
  return cuGraphExecKernelNodeSetParams_v2(exec, node, p);
}

EMULATOR_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec handle, CUgraphNode node,
                                                            CUevent event) {
  return call("cuGraphExecEventRecordNodeSetEvent", Needs::context, [&](Call& c) {
    const auto exec = c.find(c.d.graph_execs, handle);
    auto* work = std::get_if<EventRecordWork>(&step_of(c, *exec, node).work);
    if (!work) c.misuse(CUDA_ERROR_INVALID_VALUE, "the node records no event");
    work->event = c.event(event);
  });
}

EMULATOR_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec handle, CUgraphNode node,
                                                          CUevent event) {
  return call("cuGraphExecEventWaitNodeSetEvent", Needs::context, [&](Call& c) {
    const auto exec = c.find(c.d.graph_execs, handle);
    auto* work = std::get_if<EventWaitWork>(&step_of(c, *exec, node).work);
    if (!work) c.misuse(CUDA_ERROR_INVALID_VALUE, "the node waits for no event");
    work->event = c.event(event);
  });
}

}  // namespace abi
}  // namespace emulator
