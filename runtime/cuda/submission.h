// Submission: hands the items of one stream to the driver and waits for them. One thread at a time,
// with the context bound; no lock. What goes wrong is thrown as a DeviceError.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/queue.h"
#include "runtime/cuda/shared.h"
#include "runtime/cuda/status_board.h"
#include "runtime/cuda/timing.h"

namespace riffle::runtime::cuda {

class Submission {
 public:
  /// Works on `given` (the embedder's), or on a stream of its own of that priority.
  Submission(std::shared_ptr<Shared> shared, StreamHandle given, int priority, StreamId id);
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  StreamHandle handle() const noexcept { return stream_; }
  StreamTiming& timing() noexcept { return timing_; }

  void launch(const Item& item, std::span<void* const> operands);
  void copy(const Item& item);
  void fill(const Item& item);
  void record(const Item& item);
  void wait(const Item& item);
  void native(const Item& item, const NativeCall& call);
  /// Launches, copies, fills and records as one graph: captured once, then launched as long as the
  /// same items come with that key. Records are issued with the graph.
  void segment(std::int64_t key, std::span<const Item> items, const Batch& batch);

  /// Has anything been handed over since the last wait?
  bool idle() const noexcept { return !busy_; }
  /// Waiting in parts, so that the waiter can poll for other things: begin_wait, then done() or
  /// block(), then end_wait, which throws what a kernel reported.
  void begin_wait();
  bool done();
  void block();
  void end_wait();
  /// After an error: waits as well as can be; reports and times of what ran are dropped.
  void abandon() noexcept;

 private:
  struct Segment {
    std::vector<std::uint64_t> signature;  ///< all that the graph depends on
    GraphExecHandle graph = nullptr;
    int captures = 0;
  };
  struct Target;
  Target target_of(const Item& item);
  void enqueue(const Item& item, const Batch& batch, StreamHandle stream, bool capturing);
  void enqueue_launch(const Item& item, std::span<void* const> operands, StreamHandle stream);
  void* scratch(std::int64_t bytes);
  void sign(std::span<const Item> items, const Batch& batch);
  GraphExecHandle capture(std::span<const Item> items, const Batch& batch);
  void drop(GraphExecHandle graph) noexcept;

  const std::shared_ptr<Shared> shared_;
  const Context& context_;
  const DriverApi& api_;
  StreamHandle stream_ = nullptr;
  const bool owned_;
  bool busy_ = false;

  StatusBoard board_;
  StreamTiming timing_;
  std::unique_ptr<DriverEvent> marker_;
  // Every block that a graph may still name; the last is the largest.
  std::vector<DevicePointer> scratch_;
  std::int64_t scratch_bytes_ = 0;

  // Graphs are captured on a stream of their own, so that nothing that others do with an embedder's
  // stream meanwhile is caught.
  StreamHandle capture_stream_ = nullptr;
  std::unordered_map<std::int64_t, Segment> segments_;
  std::vector<GraphExecHandle> retired_;  // may still run: destroyed after the next wait
  std::vector<std::uint64_t> signature_;
};

}  // namespace riffle::runtime::cuda
