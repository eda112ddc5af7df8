// Stream capture: work that goes into a graph instead of running, and what may not happen
// meanwhile.
#include <algorithm>
#include <set>

#include "emulator/driver/graph.h"

namespace emulator {
namespace {

thread_local abi::CUstreamCaptureMode t_mode = abi::CU_STREAM_CAPTURE_MODE_GLOBAL;

std::string describe(const KernelWork& work) { return "kernel " + kernel_name(work); }

}  // namespace

void end_capture(Driver& d, const std::shared_ptr<Capture>& capture) {
  for (const auto& weak : capture->streams) {
    if (const auto stream = weak.lock()) {
      stream->capture.reset();
      stream->captured.clear();
    }
  }
  std::erase(d.captures, capture);
}

void Call::forbid_in_capture() {
  bool forbidden = false;
  for (const auto& capture : d.captures) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool in_the_way = (mine && t_mode != abi::CU_STREAM_CAPTURE_MODE_RELAXED &&
                             capture->mode != abi::CU_STREAM_CAPTURE_MODE_RELAXED) ||
                            (t_mode == abi::CU_STREAM_CAPTURE_MODE_GLOBAL &&
                             capture->mode == abi::CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!in_the_way) continue;
    if (capture->invalidated.empty()) capture->invalidated = name;
    forbidden = true;
  }
  if (forbidden) {
    misuse(abi::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not allowed while a stream is captured");
  }
}

void Call::forbid_implicit_capture(const Context& context) {
  for (const auto& capture : d.captures) {
    for (const auto& weak : capture->streams) {
      const auto stream = weak.lock();
      if (!stream || !stream->blocking || stream->context.lock().get() != &context) continue;
      if (capture->invalidated.empty()) {
        capture->invalidated = std::string(name) + " in the legacy default stream";
      }
      misuse(abi::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
             "the legacy default stream would wait for a blocking stream that is captured");
    }
  }
}

std::shared_ptr<Operation> enqueue(Call& c, Stream& stream, Work work, const std::string& what,
                                   const Operations& after) {
  const auto context = stream.context.lock();
  std::string name = what;
  if (const auto* kernel = std::get_if<KernelWork>(&work)) name = describe(*kernel);
  if (!stream.capture) {
    if (stream.legacy) c.forbid_implicit_capture(*context);
    return submit(c.d, stream, std::move(work), name, after);
  }
  if (!stream.capture->invalidated.empty()) {
    throw ApiError{abi::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
  }
  if (std::holds_alternative<AllocateWork>(work) || std::holds_alternative<FreeWork>(work)) {
    stream.capture->invalidated = c.name;
    c.misuse(abi::CUDA_ERROR_NOT_SUPPORTED, "allocation nodes of graphs are not emulated");
  }
  Node* node = add_node(c.d, *stream.capture->graph, context, std::move(work), std::move(name),
                        stream.captured);
  stream.captured = {node};
  return nullptr;
}

namespace abi {

EMULATOR_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", Needs::context, [&](Call& c) {
    const auto stream = c.stream(handle);
    if (mode < 0 || mode > 2) c.misuse(CUDA_ERROR_INVALID_VALUE, "no such mode");
    if (stream->legacy) {
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               "the legacy default stream cannot be captured");
    }
    if (stream->capture) c.misuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is being captured already");
    const auto capture = std::make_shared<Capture>();
    capture->id = ++c.d.last_id;
    capture->graph = std::make_shared<Graph>();
    capture->graph->id = ++c.d.last_id;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams = {stream};
    stream->capture = capture;
    stream->captured.clear();
    c.d.captures.push_back(capture);
  });
}

EMULATOR_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", Needs::context, [&](Call& c) {
    c.require(graph, "the result's place");
    *graph = nullptr;
    const auto stream = c.stream(handle);
    const auto capture = stream->capture;
    if (!capture) c.misuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
    if (capture->origin.lock() != stream) {
      capture->invalidated = "ended in another stream than it began";
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream");
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != std::this_thread::get_id()) {
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread");
    }
    std::set<const Node*> joined;
    std::vector<const Node*> open(stream->captured.begin(), stream->captured.end());
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (joined.insert(node).second)
        open.insert(open.end(), node->after.begin(), node->after.end());
    }
    std::string unjoined;
    for (const auto& weak : capture->streams) {
      const auto other = weak.lock();
      if (!other) continue;
      for (const Node* node : other->captured) {
        if (!joined.contains(node)) unjoined = other->name() + " after " + node->what;
      }
    }
    end_capture(c.d, capture);
    if (!capture->invalidated.empty()) {
      drop_graph(c.d, capture->graph);
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
               "the capture was invalidated by " + capture->invalidated);
    }
    if (!unjoined.empty()) {
      drop_graph(c.d, capture->graph);
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
               unjoined + " was not joined to the stream in which the capture began");
    }
    *graph = capture->graph->handle = c.d.graphs.add(capture->graph);
  });
}

EMULATOR_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return call("cuStreamIsCapturing", Needs::context, [&](Call& c) {
    c.require(status, "the result's place");
    const auto stream = c.stream(handle);
    if (stream->legacy) c.forbid_implicit_capture(*stream->context.lock());
    *status = !stream->capture                       ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalidated.empty() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  });
}

EMULATOR_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                                   std::uint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** nodes,
                                                   const CUgraphEdgeData** edges,
                                                   std::size_t* count) {
  return call("cuStreamGetCaptureInfo", Needs::context, [&](Call& c) {
    c.require(status, "the status's place");
    const auto stream = c.stream(handle);
    const auto& capture = stream->capture;
    *status = !capture                       ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture->invalidated.empty() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                             : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (!capture) return;
    if (graph || nodes || edges) {
      c.misuse(CUDA_ERROR_NOT_SUPPORTED, "the graph of a capture in progress is not handed out");
    }
    if (id) *id = capture->id;
    if (count) *count = stream->captured.size();
  });
}

EMULATOR_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                                   std::uint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** nodes, std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, nullptr, count);
}

EMULATOR_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::initialised, [&](Call& c) {
    c.require(mode, "mode");
    if (*mode < 0 || *mode > 2) c.misuse(CUDA_ERROR_INVALID_VALUE, "no such mode");
    std::swap(*mode, t_mode);
  });
}

}  // namespace abi
}  // namespace emulator
