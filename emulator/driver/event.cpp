// Events: marks in streams, to wait for and to measure between.
#include <algorithm>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator::abi {
namespace {

void forbid_captured(Call& c, const Event& event) {
  if (event.capture_id != 0) {
    c.misuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture");
  }
}

CUresult record(const char* name, CUevent handle, CUstream stream_handle, unsigned flags) {
  return call(name, Needs::context, [&](Call& c) {
    const auto event = c.event(handle);
    const auto stream = c.stream(stream_handle);
    if ((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    }
    if (event->context.lock() != stream->context.lock()) {
      c.misuse(CUDA_ERROR_INVALID_HANDLE, "the event and the stream are of different contexts");
    }
    const bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
    if (stream->capture) {
      if (external) {
        enqueue(c, *stream, EventRecordWork{event}, "event record");
        return;
      }
      if (!stream->capture->invalidated.empty()) {
        throw ApiError{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
      }
      event->capture = stream->capture;
      event->capture_id = stream->capture->id;
      event->captured = stream->captured;
      event->recorded = nullptr;
      return;
    }
    if (external) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "external, in a stream that is not being captured");
    }
    event->capture.reset();
    event->capture_id = 0;
    event->captured.clear();
    event->recorded = enqueue(c, *stream, MarkerWork{}, "event record");
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  return call("cuEventCreate", Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    if (flags > 7 ||
        (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) == CU_EVENT_INTERPROCESS) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    }
    const auto event = std::make_shared<Event>();
    event->context = c.context();
    event->flags = flags;
    *handle = event->handle = c.d.events.add(event);
  });
}

EMULATOR_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  return call("cuEventDestroy", Needs::initialised, [&](Call& c) {
    c.find(c.d.events, handle);
    c.d.events.erase(handle);
  });
}

EMULATOR_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record("cuEventRecord", event, stream, 0);
}

EMULATOR_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags", event, stream, flags);
}

EMULATOR_EXPORT CUresult cuEventQuery(CUevent handle) {
  return call("cuEventQuery", Needs::context, [&](Call& c) {
    const auto event = c.event(handle);
    forbid_captured(c, *event);
    c.forbid_in_capture();
    if (!is_done(event->recorded)) {
      nudge(c.d);
      return CUDA_ERROR_NOT_READY;
    }
    c.synchronise(*event->context.lock(), {event->recorded});
    return CUDA_SUCCESS;
  });
}

EMULATOR_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  return call("cuEventSynchronize", Needs::context, [&](Call& c) {
    const auto event = c.event(handle);
    forbid_captured(c, *event);
    c.forbid_in_capture();
    c.synchronise(*event->context.lock(), {event->recorded});
  });
}

EMULATOR_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return call("cuEventElapsedTime", Needs::context, [&](Call& c) {
    c.require(milliseconds, "the result's place");
    const auto first = c.event(start), second = c.event(end);
    forbid_captured(c, *first);
    forbid_captured(c, *second);
    if (((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
      c.misuse(CUDA_ERROR_INVALID_HANDLE, "an event was created without timing");
    }
    if (!first->recorded || !second->recorded) {
      c.misuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
    }
    if (!is_done(first->recorded) || !is_done(second->recorded)) {
      nudge(c.d);
      return CUDA_ERROR_NOT_READY;
    }
    const std::chrono::duration<float, std::milli> elapsed =
        second->recorded->finished - first->recorded->finished;
    *milliseconds = elapsed.count();
    return CUDA_SUCCESS;
  });
}

EMULATOR_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

EMULATOR_EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  return call("cuStreamWaitEvent", Needs::context, [&](Call& c) {
    const auto stream = c.stream(stream_handle);
    const auto event = c.event(handle);
    if ((flags & ~CU_EVENT_WAIT_EXTERNAL) != 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    if (stream->capture && (flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
      enqueue(c, *stream, EventWaitWork{event}, "event wait");
      return;
    }
    if (event->capture_id != 0) {
      const auto capture = event->capture.lock();
      if (!capture) {
        c.misuse(CUDA_ERROR_CAPTURED_EVENT, "the event's capture has ended");
      }
      if (!capture->invalidated.empty()) throw ApiError{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
      if (stream->capture && stream->capture != capture) {
        capture->invalidated = stream->capture->invalidated = "a wait would merge two captures";
        c.misuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the event belongs to another capture");
      }
      if (stream->legacy) {
        capture->invalidated = "the legacy default stream waited for a captured event";
        c.misuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "the legacy default stream cannot join a capture");
      }
      if (!stream->capture) {
        stream->capture = capture;
        stream->captured.clear();
        capture->streams.push_back(stream);
      }
      for (Node* node : event->captured) {
        if (std::find(stream->captured.begin(), stream->captured.end(), node) ==
            stream->captured.end()) {
          stream->captured.push_back(node);
        }
      }
      return;
    }
    if (stream->capture) {
      stream->capture->invalidated = "a wait for an event recorded outside the capture";
      c.misuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
               "a captured stream waits for an event recorded outside the capture");
    }
    if (!event->recorded) return;  // an event never recorded holds nobody up
    enqueue(c, *stream, MarkerWork{}, "event wait", {event->recorded});
  });
}

}  // namespace emulator::abi
