// Spans of one stream from timed events; used only while a trace is set.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/shared.h"
#include "runtime/trace.h"

namespace riffle::runtime::cuda {

class StreamTiming {
 public:
  StreamTiming(Shared& shared, StreamHandle stream, StreamId id)
      : shared_(shared), stream_(stream), id_(id) {}

  bool on() const noexcept { return shared_.trace != nullptr; }
  /// Around what is handed to the driver: begin, the work, end with begin's result. Throw
  /// DeviceError.
  std::size_t begin() { return record(); }
  void end(const Command* command, std::size_t begin);
  /// A moment: a record.
  void mark(const Command* command);
  /// A span of the host's.
  void host_span(const Command* command, std::int64_t begin_ns, std::int64_t end_ns) noexcept;
  /// After the stream was waited for: spans go to the trace. Throws DeviceError.
  void collect();
  void forget() noexcept;

 private:
  struct Timed {
    const Command* command = nullptr;
    std::size_t begin = 0, end = 0;  // in events_
  };
  std::size_t record();
  std::int64_t time_of(std::size_t event) const;

  Shared& shared_;
  const StreamHandle stream_;
  const StreamId id_;
  std::vector<std::unique_ptr<DriverEvent>> events_;  // reused from one collect to the next
  std::size_t used_ = 0;
  std::vector<Timed> spans_;
};

}  // namespace riffle::runtime::cuda
