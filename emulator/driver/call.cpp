#include "emulator/driver/call.h"

#include <unistd.h>

namespace emulator {

Driver& driver() {
  static Driver* d = new Driver;
  return *d;
}

std::vector<abi::CUcontext>& context_stack() {
  thread_local std::vector<abi::CUcontext> stack;
  return stack;
}

namespace {

const char* name_of(abi::CUresult code) {
  switch (code) {
#define EMULATOR_ROW(name, number, text) \
  case abi::name:                        \
    return #name;
    EMULATOR_RESULTS(EMULATOR_ROW)
#undef EMULATOR_ROW
  }
  return "an unknown error";
}

}  // namespace

abi::CUresult report_error(Driver& d, const char* name, const ApiError& error) noexcept {
  if (error.message.empty()) return error.code;
  try {
    d.report.add("misuse",
                 std::string(name) + ": " + error.message + " (" + name_of(error.code) + ")");
  } catch (...) {
    return error.code;  // out of memory: the code still says what is wrong
  }
  return error.code;
}

void Call::misuse(abi::CUresult code, const std::string& text) const { throw ApiError{code, text}; }

void Call::check(Needs needs) {
  if (in_host_function() && needs != Needs::nothing) {
    misuse(abi::CUDA_ERROR_NOT_PERMITTED, "called from a host function of a stream");
  }
  if (d.deinitialised) throw ApiError{abi::CUDA_ERROR_DEINITIALIZED};
  if (d.initialised && d.process != getpid()) {
    misuse(abi::CUDA_ERROR_NOT_INITIALIZED, "the process was forked after cuInit");
  }
  for (Injection& injection : d.settings.fail) {
    if (injection.function != name || ++injection.seen != injection.nth) continue;
    d.report.add("note", std::string(name) + ": failure injected");
    throw ApiError{static_cast<abi::CUresult>(injection.code)};
  }
  if (needs == Needs::nothing) return;
  if (!d.initialised) misuse(abi::CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (needs == Needs::context) context();
}

std::shared_ptr<Context> Call::context() const {
  const auto& stack = context_stack();
  if (stack.empty() || !stack.back()) {
    misuse(abi::CUDA_ERROR_INVALID_CONTEXT, "the calling thread has no current context");
  }
  auto found = d.contexts.find(stack.back());
  if (!found) misuse(abi::CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
  throw_sticky(*found);
  return found;
}

void Call::throw_sticky(const Context& context) const {
  if (context.device->lost != abi::CUDA_SUCCESS) throw ApiError{context.device->lost};
  if (context.sticky != abi::CUDA_SUCCESS) throw ApiError{context.sticky};
}

std::shared_ptr<Stream> Call::stream(abi::CUstream handle) const {
  if (!handle || handle == abi::kLegacyStream) return context()->legacy;
  if (handle == abi::kPerThreadStream) {
    const auto owner = context();
    auto& stream = owner->per_thread[std::this_thread::get_id()];
    if (!stream) stream = make_stream(d, owner);
    return stream;
  }
  auto found = find(d.streams, handle);
  const auto owner = found->context.lock();
  if (!owner || owner->destroyed) {
    misuse(abi::CUDA_ERROR_CONTEXT_IS_DESTROYED, "the stream's context was destroyed");
  }
  throw_sticky(*owner);
  return found;
}

std::shared_ptr<Event> Call::event(abi::CUevent handle) const {
  auto found = find(d.events, handle);
  const auto owner = found->context.lock();
  if (!owner || owner->destroyed) {
    misuse(abi::CUDA_ERROR_CONTEXT_IS_DESTROYED, "the event's context was destroyed");
  }
  return found;
}

std::shared_ptr<Function> Call::function(abi::CUfunction handle) const {
  auto found = find(d.functions, handle);
  const auto module = found->module.lock();
  if (!module || module->unloaded) {
    misuse(abi::CUDA_ERROR_INVALID_HANDLE, "a function of a module that was unloaded");
  }
  return found;
}

std::shared_ptr<LoadedModule> Call::module(abi::CUmodule handle) const {
  return find(d.modules, handle);
}

Device& Call::device(abi::CUdevice ordinal) const {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= d.devices.size()) {
    throw ApiError{abi::CUDA_ERROR_INVALID_DEVICE,
                   "device " + std::to_string(ordinal) + " of " + std::to_string(d.devices.size())};
  }
  return *d.devices[static_cast<std::size_t>(ordinal)];
}

void Call::synchronise(Context& context, const Operations& operations) {
  wait_for(d, lock, operations);
  see(d, operations);
  trim_pools(d, context.device->ordinal);
  throw_sticky(context);
}

}  // namespace emulator
