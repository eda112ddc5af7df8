// The frame of every entry point: takes the mutex, makes the checks that all share (initialised,
// not from a host function, a usable current context, an injected failure), turns exceptions into
// results and misuse into lines of the report.
#pragma once

#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>

#include "emulator/driver/api.h"
#include "emulator/driver/operation.h"
#include "emulator/driver/state.h"

/// What the library exports; everything else is hidden.
#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {

enum class Needs : std::uint8_t {
  nothing,      ///< answers before cuInit, and with any context
  initialised,  ///< cuInit has been called
  context,      ///< the calling thread has a current context, alive and without a sticky error
};

struct Call {
  Driver& d;
  std::unique_lock<std::mutex>& lock;
  const char* name;

  void check(Needs needs);
  [[noreturn]] void misuse(abi::CUresult code, const std::string& text) const;
  /// For arguments that must not be null.
  template <class T>
  void require(T* pointer, const char* what) const {
    if (pointer == nullptr) misuse(abi::CUDA_ERROR_INVALID_VALUE, std::string(what) + " is null");
  }

  /// The current context. Throws where there is none, it was destroyed, or it has failed.
  std::shared_ptr<Context> context() const;
  /// Null, 1 (legacy) and 2 (the thread's) are the current context's default streams.
  std::shared_ptr<Stream> stream(abi::CUstream handle) const;
  std::shared_ptr<Event> event(abi::CUevent handle) const;
  std::shared_ptr<Function> function(abi::CUfunction handle) const;
  std::shared_ptr<LoadedModule> module(abi::CUmodule handle) const;
  Device& device(abi::CUdevice ordinal) const;
  template <class Object, class Handle>
  std::shared_ptr<Object> find(const Handles<Object, Handle>& among, Handle handle) const {
    auto found = among.find(handle);
    if (!found) misuse(abi::CUDA_ERROR_INVALID_HANDLE, among.explain(handle));
    return found;
  }

  /// Throws the error that sticks to a context, or to its device.
  void throw_sticky(const Context& context) const;
  /// Waits for the operations, orders the host after them, then throws a sticky error.
  void synchronise(Context& context, const Operations& operations);

  /// For calls that no capture allows (capture.cpp): invalidates the captures in the way.
  void forbid_in_capture();
  /// Legacy stream work while a blocking stream of the context is captured.
  void forbid_implicit_capture(const Context& context);
};

abi::CUresult report_error(Driver& d, const char* name, const ApiError& error) noexcept;

template <class Body>
abi::CUresult call(const char* name, Needs needs, Body&& body) noexcept {
  Driver& d = driver();
  try {
    std::unique_lock lock(d.mutex);
    Call c{d, lock, name};
    try {
      c.check(needs);
      if constexpr (std::is_void_v<std::invoke_result_t<Body, Call&>>) {
        body(c);
        return abi::CUDA_SUCCESS;
      } else {
        return body(c);
      }
    } catch (const ApiError& error) {
      return report_error(d, name, error);
    } catch (const std::bad_alloc&) {
      return abi::CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
      return report_error(d, name, {abi::CUDA_ERROR_UNKNOWN, error.what()});
    }
  } catch (...) {
    return abi::CUDA_ERROR_UNKNOWN;
  }
}

/// The calling thread's stack of contexts; the last is current.
std::vector<abi::CUcontext>& context_stack();

/// Makes a context, or gives a dead one's things back (context.cpp).
std::shared_ptr<Context> make_context(Driver& d, Device& device, unsigned flags, bool primary);
void destroy_context(Call& c, const std::shared_ptr<Context>& context);
std::shared_ptr<Stream> make_stream(Driver& d, const std::shared_ptr<Context>& context);
/// At a synchronisation, pools give back what they hold beyond their threshold.
void trim_pools(Driver& d, int device);

/// One end of a copy or a set: where it lies, and its address as kernels would name it (registered
/// host memory has one of its own). The whole range must be one live allocation's, or pageable
/// (pointer.cpp). Throws ApiError INVALID_VALUE otherwise.
struct End {
  Place place = Place::device;
  std::uint64_t address = 0;
};
enum class Expect : std::uint8_t { device, host, any };
End classify(const Call& c, std::uint64_t address, std::uint64_t bytes, Expect expect,
             const char* argument);
/// Of any device, or pinned; null: not the emulator's.
std::shared_ptr<Allocation> find_allocation(const Driver& d, std::uint64_t address);

/// Adds `work` to the stream, or to the graph that captures it (capture.cpp).
std::shared_ptr<Operation> enqueue(Call& c, Stream& stream, Work work, const std::string& what,
                                   const Operations& after = {});

/// cuInit's work, and its undoing (control.cpp).
void initialise(Driver& d);
void reset(Driver& d, std::unique_lock<std::mutex>& lock);
/// Lines for what is alive.
void report_leaks(Driver& d);

}  // namespace emulator
