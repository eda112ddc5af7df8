#include "runtime/cuda/context.h"

#include <fmt/format.h>

#include <utility>

namespace riffle::runtime::cuda {

Context::Context(std::shared_ptr<const Driver> driver, int index)
    : driver_(std::move(driver)), owned_(true) {
  if (index < 0 || index >= driver_->device_count())
    throw DeviceError({.what = fmt::format("there is no CUDA device {}: the driver shows {}", index,
                                           driver_->device_count()),
                       .hint = "nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may hide some"});
  check(api().DeviceGet(&device_, index), "cuDeviceGet");
  check(api().DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

Context::Context(std::shared_ptr<const Driver> driver, ContextHandle context)
    : driver_(std::move(driver)), context_(context), owned_(false) {
  const Bind bind(*this);
  check(api().CtxGetDevice(&device_), "cuCtxGetDevice");
}

Context::~Context() {
  // The result tells nothing that could still be acted on: at exit the driver may be gone.
  if (owned_ && context_ && !driver_->forked()) api().DevicePrimaryCtxRelease(device_);
}

void Context::raise(Result code, const char* call, std::string_view where) const {
  DeviceError error = make_error(api(), code, call, where);
  if (is_sticky(code)) {
    const std::lock_guard lock(mutex_);
    if (!lost_) lost_ = std::make_shared<const DeviceError>(error);
    is_lost_.store(true, std::memory_order_release);
  }
  throw error;
}

std::shared_ptr<const DeviceError> Context::lost() const noexcept {
  if (!is_lost_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  return lost_;
}

void Context::require_usable() const {
  if (driver_->forked())
    throw DeviceError({.what = "this process was forked from one that uses CUDA, which does not "
                               "work in the child",
                       .hint = "fork before the session is made, or start a new program (exec)"});
  if (const auto error = lost())
    throw DeviceError(
        {.what = fmt::format("the device was closed by an earlier error: {}", error->message()),
         .where = std::string(error->where()),
         .hint = "another device (device cpu), or " + std::string(error->hint()),
         .foreign = std::string(error->foreign())});
}

Bind::Bind(const Context& context) : context_(context) {
  if (!context.usable()) [[unlikely]]
    context.require_usable();
  CUDA_CALL(context, CtxPushCurrent, context.handle());
  bound_ = true;
}

Bind::Bind(const Context& context, std::nothrow_t) noexcept : context_(context) {
  bound_ = !context.driver().forked() && context.api().CtxPushCurrent(context.handle()) == kSuccess;
}

Bind::~Bind() {
  ContextHandle popped = nullptr;
  if (bound_) context_.api().CtxPopCurrent(&popped);
}

}  // namespace riffle::runtime::cuda
