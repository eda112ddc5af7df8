// The public HookStream over a device's stream.
#pragma once

#include <functional>
#include <utility>

#include "riffle/session.h"
#include "runtime/device.h"

namespace riffle::jit {

class HookStreamOn final : public HookStream {
 public:
  HookStreamOn(runtime::Stream* stream, const runtime::Command* command)
      : stream_(stream), command_(command) {}
  void call(std::function<void()> work) override { stream_->host_call(std::move(work), command_); }
  void enqueue(std::function<void(void* stream)> work) override {
    stream_->enqueue_native(std::move(work), command_);
  }

  runtime::Stream& stream() const noexcept { return *stream_; }
  const runtime::Command* command() const noexcept { return command_; }

 private:
  runtime::Stream* stream_;
  const runtime::Command* command_;
};

}  // namespace riffle::jit
