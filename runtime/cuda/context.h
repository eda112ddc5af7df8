// Context: the CUDA context that a device works in, its own or the embedder's, and its health.
// Bind makes it current on this thread for a scope; every call into the driver happens under one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

#include "runtime/cuda/error.h"

namespace riffle::runtime::cuda {

class Context {
 public:
  /// Retains the primary context of device `index`. Throws DeviceError.
  Context(std::shared_ptr<const Driver> driver, int index);
  /// Works in `context`, which must outlive this object and stays the embedder's.
  Context(std::shared_ptr<const Driver> driver, ContextHandle context);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const noexcept { return *driver_; }
  const DriverApi& api() const noexcept { return driver_->api(); }
  DeviceHandle device() const noexcept { return device_; }
  ContextHandle handle() const noexcept { return context_; }

  /// Throws the DeviceError of a code that is not success. A sticky one closes the device.
  void check(Result code, const char* call, std::string_view where = {}) const {
    if (code != kSuccess) [[unlikely]]
      raise(code, call, where);
  }
  [[noreturn]] void raise(Result code, const char* call, std::string_view where) const;
  /// The error that closed the device, or nullptr.
  std::shared_ptr<const DeviceError> lost() const noexcept;
  /// Throws if the device is closed or the process was forked.
  void require_usable() const;
  bool usable() const noexcept {
    return !is_lost_.load(std::memory_order_acquire) && !driver_->forked();
  }

 private:
  const std::shared_ptr<const Driver> driver_;
  DeviceHandle device_ = 0;
  ContextHandle context_ = nullptr;
  const bool owned_;
  mutable std::atomic<bool> is_lost_{false};
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const DeviceError> lost_;
};

/// `context` is a Context: CUDA_CALL(context, EventRecord, event, stream).
#define CUDA_CALL(context, Name, ...) (context).check((context).api().Name(__VA_ARGS__), "cu" #Name)

class Bind {
 public:
  /// Throws DeviceError: device closed, process forked, or what the driver says.
  explicit Bind(const Context& context);
  /// For destructors: tries even after a sticky error, so that what can be freed is; never throws.
  Bind(const Context& context, std::nothrow_t) noexcept;
  ~Bind();
  Bind(const Bind&) = delete;
  Bind& operator=(const Bind&) = delete;
  explicit operator bool() const noexcept { return bound_; }

 private:
  const Context& context_;
  bool bound_ = false;
};

}  // namespace riffle::runtime::cuda
