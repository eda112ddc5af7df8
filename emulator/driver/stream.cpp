// Streams: their life, waiting for them, host functions in them.
#include <algorithm>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator::abi {
namespace {

CUresult create(const char* name, CUstream* handle, unsigned flags, int priority) {
  return call(name, Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    if ((flags & ~CU_STREAM_NON_BLOCKING) != 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    const auto context = c.context();
    const auto stream = make_stream(c.d, context);
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    stream->priority = std::clamp(priority, -5, 0);
    std::erase_if(context->streams, [](const auto& weak) { return weak.expired(); });
    context->streams.push_back(stream);
    *handle = stream->handle = c.d.streams.add(stream);
  });
}

/// A capturing stream may not be waited for; the attempt spoils the capture.
void forbid_captured(Call& c, const Stream& stream) {
  if (!stream.capture) return;
  if (stream.capture->invalidated.empty()) {
    stream.capture->invalidated = std::string(c.name) + " of a stream being captured";
  }
  c.misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, stream.name() + " is being captured");
}

}  // namespace

EMULATOR_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return create("cuStreamCreate", stream, flags, 0);
}

EMULATOR_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                                    int priority) {
  return create("cuStreamCreateWithPriority", stream, flags, priority);
}

EMULATOR_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  return call("cuStreamDestroy", Needs::initialised, [&](Call& c) {
    if (!handle || handle == kLegacyStream || handle == kPerThreadStream) {
      c.misuse(CUDA_ERROR_INVALID_HANDLE, "a default stream cannot be destroyed");
    }
    const auto stream = c.find(c.d.streams, handle);
    if (const auto capture = stream->capture) {
      capture->invalidated = "a captured stream was destroyed";
      if (capture->origin.lock() == stream) {  // nobody can end it any more
        end_capture(c.d, capture);
        drop_graph(c.d, capture->graph);
      }
    }
    c.d.streams.erase(handle);
    c.d.components.give_back(stream->component);
    // Its work still runs, and whoever waits for the context waits for it.
    const auto context = stream->context.lock();
    if (context && stream->tail) context->orphans.push_back({stream->tail, stream->blocking});
  });
}

EMULATOR_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  return call("cuStreamSynchronize", Needs::context, [&](Call& c) {
    const auto stream = c.stream(handle);
    forbid_captured(c, *stream);
    const auto context = stream->context.lock();
    if (stream->legacy) c.forbid_implicit_capture(*context);
    c.synchronise(*context, stream_dependencies(c.d, *stream));
  });
}

EMULATOR_EXPORT CUresult cuStreamQuery(CUstream handle) {
  return call("cuStreamQuery", Needs::context, [&](Call& c) {
    const auto stream = c.stream(handle);
    forbid_captured(c, *stream);
    const Operations last = stream_dependencies(c.d, *stream);
    if (!std::all_of(last.begin(), last.end(), is_done)) {
      nudge(c.d);
      return CUDA_ERROR_NOT_READY;
    }
    c.synchronise(*stream->context.lock(), last);
    return CUDA_SUCCESS;
  });
}

EMULATOR_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return call("cuStreamGetFlags", Needs::context, [&](Call& c) {
    c.require(flags, "the result's place");
    *flags = c.stream(handle)->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  });
}

EMULATOR_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return call("cuStreamGetPriority", Needs::context, [&](Call& c) {
    c.require(priority, "the result's place");
    *priority = c.stream(handle)->priority;
  });
}

EMULATOR_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return call("cuStreamGetCtx", Needs::context, [&](Call& c) {
    c.require(context, "the result's place");
    *context = c.stream(handle)->context.lock()->handle;
  });
}

EMULATOR_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return call("cuStreamGetId", Needs::context, [&](Call& c) {
    c.require(id, "the result's place");
    *id = c.stream(handle)->id;
  });
}

EMULATOR_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  return call("cuLaunchHostFunc", Needs::context, [&](Call& c) {
    if (!function) c.misuse(CUDA_ERROR_INVALID_VALUE, "the function is null");
    enqueue(c, *c.stream(handle), HostWork{function, user_data}, "host function");
  });
}

}  // namespace emulator::abi
