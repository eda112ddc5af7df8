// Trace: what ran when, on which stream; the source of timelines, trace.json and overlap figures.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/schedule.h"

namespace riffle::runtime {

/// One command's run. Times are nanoseconds of the steady clock.
struct Span {
  const Command* command = nullptr;  ///< of the schedule that ran; it must outlive the trace
  std::int32_t command_index = -1;
  StreamId stream = 0;
  std::int32_t step = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// Thread-safe appends; read only when the streams are idle.
class Trace {
 public:
  void append(const Span& span);
  /// Spans of this schedule's commands get their index. Called by the executor.
  void know(const Schedule& schedule);
  std::vector<Span> take();  ///< sorted by begin; the trace is empty afterwards
  std::int32_t step = 0;     ///< stamped on spans; set between steps

 private:
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<std::pair<const Command*, std::size_t>> known_;
};

/// How much of the hooks' (and collectives') time lay under compute. Nanoseconds, summed over
/// spans.
struct Overlap {
  std::int64_t wall_ns = 0;  ///< first begin to last end of each step; not what lies between steps
  std::int64_t compute_ns = 0;  ///< time in which the compute stream was busy with kernels
  std::int64_t hook_ns = 0;     ///< union of hook and collective spans
  std::int64_t hidden_ns = 0;   ///< of hook_ns, under compute
  std::int64_t exposed_ns = 0;  ///< hook_ns − hidden_ns
};
Overlap measure_overlap(const std::vector<Span>& spans);

/// Chrome trace events ("traceEvents"), one track a stream, nested partition spans above kernels,
/// flow arrows from gradient-ready to its hook.
std::string chrome_trace(const std::vector<Span>& spans, const Schedule& schedule);

/// A picture for a terminal: a row a stream, partitions and hooks drawn to scale.
std::string terminal_timeline(const std::vector<Span>& spans, const Schedule& schedule, int width,
                              bool unicode);

}  // namespace riffle::runtime
