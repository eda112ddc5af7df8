#include "emulator/nccl/driver.h"

#include <dlfcn.h>

#include <string>

#include "emulator/nccl/exchange.h"

namespace emulator::nccl {
namespace {

struct Loaded {
  DriverCalls calls;
  std::string problem;
};

Loaded load() {
  Loaded loaded;
  Dl_info here{};
  std::string path = "libcuda.so.1";
  if (::dladdr(reinterpret_cast<void*>(&driver_calls), &here) != 0 && here.dli_fname) {
    path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libcuda.so.1";
  }
  // The one that the program has loaded, where it has: dlopen tells by the file.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    loaded.problem = std::string("the emulated driver was not found: ") + (why ? why : path);
    return loaded;
  }
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (!function && loaded.problem.empty()) loaded.problem = path + " has no " + name;
  };
  find(loaded.calls.CtxGetCurrent, "cuCtxGetCurrent");
  find(loaded.calls.CtxGetDevice, "cuCtxGetDevice");
  find(loaded.calls.CtxPushCurrent, "cuCtxPushCurrent_v2");
  find(loaded.calls.CtxPopCurrent, "cuCtxPopCurrent_v2");
  find(loaded.calls.MemHostAlloc, "cuMemHostAlloc");
  find(loaded.calls.MemFreeHost, "cuMemFreeHost");
  find(loaded.calls.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  find(loaded.calls.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  find(loaded.calls.EventCreate, "cuEventCreate");
  find(loaded.calls.EventDestroy, "cuEventDestroy_v2");
  find(loaded.calls.EventRecord, "cuEventRecord");
  find(loaded.calls.EventSynchronize, "cuEventSynchronize");
  find(loaded.calls.StreamWaitEvent, "cuStreamWaitEvent");
  find(loaded.calls.LaunchHostFunc, "cuLaunchHostFunc");
  return loaded;
}

}  // namespace

const DriverCalls& driver_calls() {
  static const Loaded* const loaded = new Loaded(load());  // never destroyed: see Registry
  if (!loaded->problem.empty()) throw Problem{ncclUnhandledCudaError, loaded->problem};
  return loaded->calls;
}

Push::Push(Context context) {
  const int code = driver_calls().CtxPushCurrent(context);
  if (code != 0)
    throw Problem{ncclUnhandledCudaError,
                  "cuCtxPushCurrent of the communicator's context: " + std::to_string(code)};
}
Push::~Push() {
  Context popped = nullptr;
  driver_calls().CtxPopCurrent(&popped);
}

}  // namespace emulator::nccl
