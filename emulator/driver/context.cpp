// Contexts: primary and own, each thread's stack of them, and what dies with one.
#include <algorithm>
#include <utility>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator {

std::shared_ptr<Stream> make_stream(Driver& d, const std::shared_ptr<Context>& context) {
  auto stream = std::make_shared<Stream>();
  stream->id = ++d.last_id;
  stream->context = context;
  stream->component = d.components.take(d.host_clock);
  return stream;
}

std::shared_ptr<Context> make_context(Driver& d, Device& device, unsigned flags, bool primary) {
  auto context = std::make_shared<Context>();
  context->id = ++d.last_id;
  context->device = &device;
  context->primary = primary;
  context->flags = flags;
  context->limits = {{abi::CU_LIMIT_STACK_SIZE, 1024},
                     {abi::CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
                     {abi::CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20}};
  context->legacy = make_stream(d, context);
  context->legacy->legacy = true;
  context->handle = d.contexts.add(context);
  return context;
}

namespace {

/// Says what a context takes with it. The driver would free it too, silently.
void report_left(Driver& d, const Context& context, const char* name) {
  std::size_t allocations = 0, streams = 0, events = 0, modules = 0;
  std::string first;
  for (const auto& [address, owner] : d.owners) {
    if (owner.context != context.id || owner.module) continue;
    if (allocations++ == 0) first = context.device->memory->find(address)->describe();
  }
  for (const auto& [handle, stream] : d.streams.all()) {
    streams += stream->context.lock().get() == &context;
  }
  for (const auto& [handle, event] : d.events.all()) {
    events += event->context.lock().get() == &context;
  }
  for (const auto& [handle, module] : d.modules.all()) modules += module->context.get() == &context;
  if (allocations + streams + events + modules == 0) return;
  d.report.add("leak", std::string(name) + ": the context still had " +
                           std::to_string(allocations) + " allocations" +
                           (first.empty() ? "" : " (the first: " + first + ")") + ", " +
                           std::to_string(streams) + " streams, " + std::to_string(events) +
                           " events, " + std::to_string(modules) + " modules");
}

}  // namespace

void destroy_context(Call& c, const std::shared_ptr<Context>& context) {
  Driver& d = c.d;
  const Operations last = tails(d, *context);
  wait_for(d, c.lock, last);
  see(d, last);
  if (context->destroyed) return;
  report_left(d, *context, c.name);
  context->destroyed = true;
  Device& device = *context->device;
  const auto release = [&](std::uint64_t address, const Ownership& owner) {
    const auto allocation = device.memory->find(address);
    if (!allocation) return;
    if (owner.pool) owner.pool->used -= allocation->bytes;
    d.history.forget({allocation->begin, allocation->end()});
    device.memory->release(address, c.name);
  };
  std::erase_if(d.owners, [&](const auto& entry) {
    if (entry.second.context != context->id) return false;
    release(entry.first, entry.second);
    return true;
  });
  const auto belongs = [&](const auto& object) { return object->context.lock() == context; };
  std::vector<abi::CUstream> streams;
  for (const auto& [handle, stream] : d.streams.all()) {
    if (!belongs(stream)) continue;
    if (const auto capture = stream->capture) {
      end_capture(d, capture);
      drop_graph(d, capture->graph);
    }
    streams.push_back(handle);
    d.components.give_back(stream->component);
  }
  for (const auto handle : streams) d.streams.erase(handle);
  d.components.give_back(context->legacy->component);
  for (const auto& [thread, stream] : context->per_thread) {
    d.components.give_back(stream->component);
  }
  std::vector<abi::CUevent> events;
  for (const auto& [handle, event] : d.events.all()) {
    if (belongs(event)) events.push_back(handle);
  }
  for (const auto handle : events) d.events.erase(handle);
  std::vector<abi::CUmodule> modules;
  for (const auto& [handle, module] : d.modules.all()) {
    if (module->context == context) modules.push_back(handle);
  }
  for (const auto handle : modules) {
    d.modules.find(handle)->unloaded = true;
    d.modules.erase(handle);
  }
  d.contexts.erase(context->handle);
}

namespace abi {

EMULATOR_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return call("cuDevicePrimaryCtxRetain", Needs::initialised, [&](Call& c) {
    c.require(context, "the result's place");
    Device& device = c.device(ordinal);
    if (device.lost != CUDA_SUCCESS) throw ApiError{device.lost};
    if (!device.primary) device.primary = make_context(c.d, device, device.primary_flags, true);
    ++device.primary_retained;
    *context = device.primary->handle;
  });
}

EMULATOR_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return call("cuDevicePrimaryCtxRelease", Needs::initialised, [&](Call& c) {
    Device& device = c.device(ordinal);
    if (device.primary_retained == 0) {
      c.misuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
    }
    if (--device.primary_retained > 0) return;
    destroy_context(c, std::exchange(device.primary, nullptr));
  });
}

EMULATOR_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  return call("cuDevicePrimaryCtxReset", Needs::initialised, [&](Call& c) {
    Device& device = c.device(ordinal);
    if (!device.primary) return;
    destroy_context(c, std::exchange(device.primary, nullptr));
    if (device.primary_retained > 0) {
      device.primary = make_context(c.d, device, device.primary_flags, true);
    }
  });
}

EMULATOR_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags,
                                                    int* active) {
  return call("cuDevicePrimaryCtxGetState", Needs::initialised, [&](Call& c) {
    c.require(flags, "flags");
    c.require(active, "active");
    const Device& device = c.device(ordinal);
    *flags = device.primary ? device.primary->flags : device.primary_flags;
    *active = device.primary != nullptr;
  });
}

EMULATOR_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  return call("cuDevicePrimaryCtxSetFlags", Needs::initialised, [&](Call& c) {
    Device& device = c.device(ordinal);
    device.primary_flags = flags;
    if (device.primary) device.primary->flags = flags;
  });
}

namespace {

CUresult create(CUcontext* context, unsigned flags, CUdevice ordinal, bool affinity) {
  return call("cuCtxCreate", Needs::initialised, [&](Call& c) {
    c.require(context, "the result's place");
    if (affinity) c.misuse(CUDA_ERROR_NOT_SUPPORTED, "execution affinity is not emulated");
    Device& device = c.device(ordinal);
    if (device.lost != CUDA_SUCCESS) throw ApiError{device.lost};
    *context = make_context(c.d, device, flags, false)->handle;
    context_stack().push_back(*context);
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create(context, flags, device, false);
}

EMULATOR_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, void* parameters, int count,
                                        unsigned flags, CUdevice device) {
  return create(context, flags, device, count > 0);
}

EMULATOR_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters,
                                        unsigned flags, CUdevice device) {
  const bool affinity =
      parameters && (parameters->numExecAffinityParams > 0 || parameters->cigParams);
  return create(context, flags, device, affinity);
}

EMULATOR_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  return call("cuCtxDestroy", Needs::initialised, [&](Call& c) {
    const auto context = c.d.contexts.find(handle);
    if (!context) c.misuse(CUDA_ERROR_INVALID_CONTEXT, c.d.contexts.explain(handle));
    if (context->primary) {
      c.misuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
    }
    destroy_context(c, context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
  });
}

EMULATOR_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return call("cuCtxPushCurrent", Needs::initialised, [&](Call& c) {
    if (!c.d.contexts.find(handle)) {
      c.misuse(CUDA_ERROR_INVALID_CONTEXT, c.d.contexts.explain(handle));
    }
    context_stack().push_back(handle);
  });
}

EMULATOR_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  return call("cuCtxPopCurrent", Needs::initialised, [&](Call& c) {
    auto& stack = context_stack();
    if (stack.empty()) c.misuse(CUDA_ERROR_INVALID_CONTEXT, "the thread's stack is empty");
    if (handle) *handle = stack.back();
    stack.pop_back();
  });
}

EMULATOR_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  return call("cuCtxSetCurrent", Needs::initialised, [&](Call& c) {
    if (handle && !c.d.contexts.find(handle)) {
      c.misuse(CUDA_ERROR_INVALID_CONTEXT, c.d.contexts.explain(handle));
    }
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (handle) stack.push_back(handle);
  });
}

EMULATOR_EXPORT CUresult cuCtxGetCurrent(CUcontext* handle) {
  return call("cuCtxGetCurrent", Needs::initialised, [&](Call& c) {
    c.require(handle, "the result's place");
    const auto& stack = context_stack();
    *handle = stack.empty() ? nullptr : stack.back();
  });
}

EMULATOR_EXPORT CUresult cuCtxGetDevice(CUdevice* ordinal) {
  return call("cuCtxGetDevice", Needs::context, [&](Call& c) {
    c.require(ordinal, "the result's place");
    *ordinal = c.context()->device->ordinal;
  });
}

EMULATOR_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  return call("cuCtxGetFlags", Needs::context, [&](Call& c) {
    c.require(flags, "the result's place");
    *flags = c.context()->flags;
  });
}

EMULATOR_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return call("cuCtxGetApiVersion", Needs::context, [&](Call& c) {
    c.require(version, "the result's place");
    *version = 3020;
  });
}

EMULATOR_EXPORT CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::context, [&](Call& c) {
    const auto context = c.context();
    c.forbid_in_capture();
    c.synchronise(*context, tails(c.d, *context));
  });
}

EMULATOR_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", Needs::context, [&](Call& c) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
  });
}

EMULATOR_EXPORT CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  return call("cuCtxSetLimit", Needs::context, [&](Call& c) {
    auto& limits = c.context()->limits;
    const auto found = limits.find(limit);
    if (found == limits.end()) c.misuse(CUDA_ERROR_UNSUPPORTED_LIMIT, "this limit is not emulated");
    found->second = value;
  });
}

EMULATOR_EXPORT CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  return call("cuCtxGetLimit", Needs::context, [&](Call& c) {
    c.require(value, "the result's place");
    const auto& limits = c.context()->limits;
    const auto found = limits.find(limit);
    if (found == limits.end()) c.misuse(CUDA_ERROR_UNSUPPORTED_LIMIT, "this limit is not emulated");
    *value = found->second;
  });
}

namespace {

CUresult peer(const char* name, CUcontext handle, bool enable) {
  return call(name, Needs::context, [&](Call& c) {
    const auto context = c.context();
    const auto other = c.d.contexts.find(handle);
    if (!other) c.misuse(CUDA_ERROR_INVALID_CONTEXT, c.d.contexts.explain(handle));
    Device& device = *context->device;
    const int ordinal = other->device->ordinal;
    if (!c.d.settings.peer_access || ordinal == device.ordinal) {
      throw ApiError{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED};
    }
    if (enable && !context->peers.insert(ordinal).second) {
      throw ApiError{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED};
    }
    if (!enable && context->peers.erase(ordinal) == 0) {
      throw ApiError{CUDA_ERROR_PEER_ACCESS_NOT_ENABLED};
    }
    device.memory->set_reachable(other->device->memory.get(), enable);
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  return peer("cuCtxEnablePeerAccess", handle, true);
}

EMULATOR_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return peer("cuCtxDisablePeerAccess", handle, false);
}

}  // namespace abi
}  // namespace emulator
