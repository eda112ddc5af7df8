// Start reading at launch() and, for graphs, at segment().
#include "runtime/cuda/submission.h"

#include <algorithm>
#include <utility>

#include "runtime/kernel_status.h"

namespace riffle::runtime::cuda {
namespace {

// A segment of fewer commands costs no less as a graph.
constexpr std::size_t kWorthAGraph = 2;
// A key whose items change so often is launched command by command from then on.
constexpr int kMostCaptures = 16;
// Of schedules long gone, too: beyond so many all are made anew.
constexpr std::size_t kMostSegments = 1024;

StreamHandle make_stream(const Context& context, int priority) {
  const Bind bind(context);
  int least = 0, greatest = 0;
  CUDA_CALL(context, CtxGetStreamPriorityRange, &least, &greatest);
  StreamHandle stream = nullptr;
  // Lower numbers are served first.
  CUDA_CALL(context, StreamCreateWithPriority, &stream, kStreamNonBlocking,
            std::max(least - std::max(priority, 0), greatest));
  return stream;
}

}  // namespace

Submission::Submission(std::shared_ptr<Shared> shared, StreamHandle given, int priority,
                       StreamId id)
    : shared_(std::move(shared)),
      context_(*shared_->context),
      api_(context_.api()),
      stream_(given ? given : make_stream(context_, priority)),
      owned_(given == nullptr),
      board_(shared_->memory, stream_),
      timing_(*shared_, stream_, id) {}

Submission::~Submission() {
  const Bind bind(context_, std::nothrow);
  if (!bind) return;
  for (const GraphExecHandle graph : retired_) api_.GraphExecDestroy(graph);
  for (const auto& [key, segment] : segments_)
    if (segment.graph) api_.GraphExecDestroy(segment.graph);
  for (const DevicePointer block : scratch_) shared_->memory->free(block);
  if (capture_stream_) api_.StreamDestroy(capture_stream_);
  if (owned_) api_.StreamDestroy(stream_);
}

void* Submission::scratch(std::int64_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reserve(scratch_.size() + 1);
    scratch_.push_back(shared_->memory->allocate(bytes, "scratch"));
    scratch_bytes_ = bytes;
  }
  return scratch_.empty() ? nullptr : address_of(scratch_.back());
}

/// What a launch needs besides its operands; may allocate, so not while a graph is captured.
struct Submission::Target {
  const LoadedModule::Kernel* kernel = nullptr;
  void* scratch = nullptr;
  DevicePointer status = 0;
};
Submission::Target Submission::target_of(const Item& item) {
  const std::shared_ptr<const LoadedModule>& module = item.module->loaded();
  const LoadedModule::Kernel& kernel = module->kernels()[static_cast<std::size_t>(item.kernel)];
  if (static_cast<std::int64_t>(item.count) != kernel.operand_count)
    throw DeviceError({.what = "kernel " + kernel.name + " takes " +
                               std::to_string(kernel.operand_count) + " operands, not " +
                               std::to_string(item.count),
                       .where = module->name()});
  // Once for the module, so that its first launch does not take several steps to its largest.
  if (kernel.scratch_bytes > scratch_bytes_) scratch(module->scratch_bytes());
  return {&kernel, kernel.scratch_bytes > 0 ? scratch(0) : nullptr,
          board_.slot(module, item.kernel)};
}

void Submission::enqueue_launch(const Item& item, std::span<void* const> operands,
                                StreamHandle stream) {
  const Target target = target_of(item);
  const Result code = target.kernel->launch(reinterpret_cast<LaunchGrid>(api_.LaunchKernel),
                                            target.kernel->functions.data(), operands.data(),
                                            target.scratch, address_of(target.status), stream);
  if (code != kSuccess) [[unlikely]]
    context_.raise(code, "cuLaunchKernel", target.kernel->name + " in " + item.module->name());
}

void Submission::launch(const Item& item, std::span<void* const> operands) {
  busy_ = true;
  enqueue_launch(item, operands, stream_);
}

void Submission::copy(const Item& item) {
  if (item.bytes <= 0) return;
  busy_ = true;
  CUDA_CALL(context_, MemcpyAsync, item.destination, item.source,
            static_cast<std::size_t>(item.bytes), stream_);
}

void Submission::fill(const Item& item) {
  if (item.bytes <= 0) return;
  busy_ = true;
  CUDA_CALL(context_, MemsetD8Async, item.destination, item.byte,
            static_cast<std::size_t>(item.bytes), stream_);
}

void Submission::record(const Item& item) {
  busy_ = true;
  CUDA_CALL(context_, EventRecord, item.completion->prepare(), stream_);
}

void Submission::wait(const Item& item) {
  busy_ = true;
  CUDA_CALL(context_, StreamWaitEvent, stream_, item.completion->event(), 0);
}

void Submission::native(const Item&, const NativeCall& call) {
  busy_ = true;
  call(stream_);
}

void Submission::enqueue(const Item& item, const Batch& batch, StreamHandle stream,
                         bool capturing) {
  switch (item.kind) {
    case Item::Kind::launch:
      enqueue_launch(item, batch.operands_of(item), stream);
      return;
    case Item::Kind::copy:
      if (item.bytes > 0)
        CUDA_CALL(context_, MemcpyAsync, item.destination, item.source,
                  static_cast<std::size_t>(item.bytes), stream);
      return;
    case Item::Kind::fill:
      if (item.bytes > 0)
        CUDA_CALL(context_, MemsetD8Async, item.destination, item.byte,
                  static_cast<std::size_t>(item.bytes), stream);
      return;
    case Item::Kind::record:
      if (capturing)
        // A plain record would only mark a place inside the graph.
        CUDA_CALL(context_, EventRecordWithFlags, item.completion->prepare(), stream,
                  kEventRecordExternal);
      else
        CUDA_CALL(context_, EventRecord, item.completion->prepare(), stream);
      return;
    default:
      return;  // CudaStream puts nothing else into a segment
  }
}

// All that a captured graph holds by value.
void Submission::sign(std::span<const Item> items, const Batch& batch) {
  signature_.clear();
  for (const Item& item : items) {
    signature_.push_back(static_cast<std::uint64_t>(item.kind) |
                         static_cast<std::uint64_t>(item.byte) << 8 |
                         static_cast<std::uint64_t>(static_cast<std::uint32_t>(item.kernel)) << 32);
    switch (item.kind) {
      case Item::Kind::launch: {
        const Target target = target_of(item);
        signature_.push_back(item.module->loaded()->id());
        signature_.push_back(reinterpret_cast<std::uint64_t>(target.scratch));
        signature_.push_back(target.status);
        for (void* operand : batch.operands_of(item))
          signature_.push_back(reinterpret_cast<std::uint64_t>(operand));
        break;
      }
      case Item::Kind::record:
        signature_.push_back(reinterpret_cast<std::uint64_t>(item.completion));
        signature_.push_back(reinterpret_cast<std::uint64_t>(item.completion->prepare()));
        break;
      default:
        signature_.push_back(item.destination);
        signature_.push_back(item.source);
        signature_.push_back(static_cast<std::uint64_t>(item.bytes));
    }
  }
}

GraphExecHandle Submission::capture(std::span<const Item> items, const Batch& batch) {
  if (!capture_stream_)
    CUDA_CALL(context_, StreamCreateWithPriority, &capture_stream_, kStreamNonBlocking, 0);
  CUDA_CALL(context_, StreamBeginCapture, capture_stream_, kCaptureThreadLocal);
  GraphHandle graph = nullptr;
  try {
    for (const Item& item : items) enqueue(item, batch, capture_stream_, true);
  } catch (...) {
    if (api_.StreamEndCapture(capture_stream_, &graph) == kSuccess && graph)
      api_.GraphDestroy(graph);
    throw;
  }
  const Result ended = api_.StreamEndCapture(capture_stream_, &graph);
  if (ended != kSuccess) {
    // The stream, and with it this thread, may still be in the capture: once more, then let it go.
    if (api_.StreamEndCapture(capture_stream_, &graph) == kSuccess && graph)
      api_.GraphDestroy(graph);
    api_.StreamDestroy(std::exchange(capture_stream_, nullptr));
    context_.raise(ended, "cuStreamEndCapture", {});
  }
  GraphExecHandle executable = nullptr;
  const Result made = api_.GraphInstantiateWithFlags(&executable, graph, 0);
  api_.GraphDestroy(graph);
  context_.check(made, "cuGraphInstantiate");
  return executable;
}

void Submission::drop(GraphExecHandle graph) noexcept {
  if (!graph) return;
  try {
    retired_.push_back(graph);
  } catch (...) {  // no memory to remember it: wait for it instead
    api_.StreamSynchronize(stream_);
    api_.GraphExecDestroy(graph);
  }
}

void Submission::segment(std::int64_t key, std::span<const Item> items, const Batch& batch) {
  busy_ = true;
  const auto works = std::count_if(items.begin(), items.end(), [](const Item& item) {
    return item.kind != Item::Kind::record && (item.kind == Item::Kind::launch || item.bytes > 0);
  });
  Segment* segment = nullptr;
  if (static_cast<std::size_t>(works) >= kWorthAGraph) {
    if (segments_.size() >= kMostSegments && !segments_.contains(key)) {
      for (auto& [other, old] : segments_) drop(std::exchange(old.graph, nullptr));
      segments_.clear();
    }
    segment = &segments_[key];
  }
  if (!segment || segment->captures > kMostCaptures) {
    for (const Item& item : items) {
      enqueue(item, batch, stream_, false);
      if (item.kind == Item::Kind::record) item.completion->issue();
    }
    return;
  }
  const std::size_t blocks = scratch_.size();
  sign(items, batch);
  // Where that had to grow the scratch, earlier commands must name the block that later ones made.
  if (scratch_.size() != blocks) sign(items, batch);
  if (!segment->graph || segment->signature != signature_) {
    drop(std::exchange(segment->graph, nullptr));
    segment->graph = capture(items, batch);
    segment->signature = signature_;
    ++segment->captures;
    ++shared_->graphs_captured;
  }
  CUDA_CALL(context_, GraphLaunch, segment->graph, stream_);
  ++shared_->graphs_launched;
  for (const Item& item : items)
    if (item.kind == Item::Kind::record) item.completion->issue();
}

void Submission::begin_wait() {
  board_.enqueue_read();
  if (!marker_)
    marker_ =
        std::make_unique<DriverEvent>(shared_->context, kEventDisableTiming | kEventBlockingSync);
  CUDA_CALL(context_, EventRecord, marker_->handle(), stream_);
}

bool Submission::done() {
  const Result code = api_.EventQuery(marker_->handle());
  if (code == kNotReady) return false;
  context_.check(code, "cuEventQuery");
  return true;
}

void Submission::block() { CUDA_CALL(context_, EventSynchronize, marker_->handle()); }

void Submission::end_wait() {
  busy_ = false;
  for (const GraphExecHandle graph : retired_) api_.GraphExecDestroy(graph);
  retired_.clear();
  const std::optional<StatusBoard::Report> report = board_.take();
  timing_.collect();
  if (report) check_status(report->status, report->kernel, report->module);
}

void Submission::abandon() noexcept {
  if (const Bind bind(context_, std::nothrow); bind) api_.StreamSynchronize(stream_);
  busy_ = false;
  timing_.forget();
}

}  // namespace riffle::runtime::cuda
