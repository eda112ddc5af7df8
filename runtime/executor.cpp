// Start reading at Impl::enqueue and Impl::wait.
#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "runtime/hook_guard.h"
#include "runtime/ordering.h"
#include "runtime/staging.h"

namespace riffle::runtime {
namespace {
constexpr std::uint8_t kPoison = 0xff;

bool same(const StreamInfo& a, const StreamInfo& b) {
  return a.name == b.name && a.driven_by_waiter == b.driven_by_waiter && a.priority == b.priority;
}
}  // namespace

struct Executor::Impl {
  Impl(Device& device, ExecutorOptions options) : device_(device), options_(options) {
    poll_ = [this] { return cancelled_() && decide(Outcome::cancelled); };
  }

  /// A run is cancelled or begins to update parameters, whichever is asked for first.
  enum class Outcome : std::uint8_t { open, cancelled, updates };
  bool decide(Outcome wanted) noexcept {
    Outcome now = Outcome::open;
    return outcome_.compare_exchange_strong(now, wanted) || now == wanted;
  }
  void enqueue_decision(Stream& stream);

  void prepare(std::shared_ptr<const Schedule> schedule);
  void enqueue(const Bindings& bindings);
  void flush();
  void wait();

  /// Of the run in flight.
  void bind(const Bindings& bindings);
  void enqueue_command(std::int32_t index);
  void enqueue_hook(std::int32_t index, std::int32_t slot, Stream& stream);
  void call_host_hook(std::int32_t index) const;
  void bracket(const Command& command, std::int32_t index);
  void close_segment(StreamId stream);
  std::span<void* const> addresses(const Command& command);
  std::span<std::byte> gradient(const Command& command) const;
  Failure drain_all() noexcept;

  Device& device_;
  const ExecutorOptions options_;
  std::shared_ptr<const Schedule> schedule_;
  struct Verified {
    std::weak_ptr<const Schedule> schedule;
    std::int64_t serial = 0;
  };
  std::vector<Verified> verified_;
  std::int64_t serial_ = 0, serials_ = 0;  // of schedule_; given out so far
  std::vector<StreamInfo> stream_infos_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::size_t> drain_order_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::vector<ByteRange>> guards_;  // by command; empty without check_hook_writes

  bool in_flight_ = false;
  std::vector<Buffer*> buffers_;
  std::vector<std::byte*> base_, host_;  // by buffer
  std::vector<Module*> modules_;
  std::vector<HookFunction> hooks_;
  std::function<bool()> cancelled_, poll_;
  std::atomic<Outcome> outcome_{Outcome::open};
  std::vector<void*> addresses_;

  struct Segment {
    bool open = false;
    Phase phase{};
    std::int32_t partition = -1;
  };
  std::vector<Segment> segments_;  // by stream
};

void Executor::Impl::prepare(std::shared_ptr<const Schedule> schedule) {
  if (in_flight_)
    throw UsageError({.what = "a schedule is still running", .hint = "Executor::wait first"});
  if (!schedule) throw UsageError({.what = "there is no schedule to prepare"});
  if (schedule == schedule_) return;

  std::erase_if(verified_, [](const Verified& known) { return known.schedule.expired(); });
  auto known = std::find_if(verified_.begin(), verified_.end(),
                            [&](const Verified& v) { return v.schedule.lock() == schedule; });
  if (known == verified_.end()) {
    verify(*schedule);
    known = verified_.insert(verified_.end(), {schedule, ++serials_});
  }
  serial_ = known->serial;
  schedule_ = nullptr;
  std::vector<std::vector<ByteRange>> guards(schedule->commands.size());
  if (options_.check_hook_writes) {
    const Ordering ordering(*schedule);
    for (std::size_t i = 0; i < guards.size(); ++i)
      if (const auto* hook = std::get_if<Hook>(&schedule->commands[i].what); hook && !hook->opaque)
        guards[i] = guarded_bytes(*schedule, ordering, static_cast<std::int32_t>(i));
  }
  guards_ = std::move(guards);
  // Streams keep their threads from one schedule to the next where they can.
  std::size_t kept = 0;
  while (kept < streams_.size() && kept < schedule->streams.size() &&
         same(stream_infos_[kept], schedule->streams[kept]))
    ++kept;
  drain_order_.clear();
  streams_.resize(kept);
  stream_infos_.resize(kept);
  for (std::size_t s = kept; s < schedule->streams.size(); ++s) {
    stream_infos_.push_back(schedule->streams[s]);
    streams_.push_back(device_.create_stream(schedule->streams[s], static_cast<StreamId>(s)));
  }
  for (const bool driven : {true, false})
    for (std::size_t s = 0; s < streams_.size(); ++s)
      if (stream_infos_[s].driven_by_waiter == driven) drain_order_.push_back(s);
  while (events_.size() < static_cast<std::size_t>(schedule->events))
    events_.push_back(device_.create_event());
  schedule_ = std::move(schedule);
}

void Executor::Impl::bind(const Bindings& bindings) {
  const Schedule& schedule = *schedule_;
  const auto enough = [](std::string_view what, std::size_t has, std::size_t needs) {
    if (has < needs)
      throw UsageError(
          {.what = fmt::format("{} {} are bound, the schedule has {}", has, what, needs)});
  };
  enough("buffers", bindings.buffers.size(), schedule.buffers.size());
  enough("modules", bindings.modules.size(), schedule.modules.size());
  enough("hooks", bindings.hooks.size(), schedule.hooks.size());
  buffers_.assign(bindings.buffers.begin(), bindings.buffers.end());
  base_.clear();
  host_.clear();
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b) {
    const BufferInfo& info = schedule.buffers[b];
    Buffer* buffer = bindings.buffers[b];
    if (!buffer) throw UsageError({.what = fmt::format("no buffer is bound to {}", info.name)});
    if (buffer->bytes() < info.bytes)
      throw UsageError({.what = fmt::format("the buffer bound to {} has {} bytes, not {}",
                                            info.name, buffer->bytes(), info.bytes)});
    base_.push_back(buffer->address());
    host_.push_back(buffer->host());
  }
  for (const Command& command : schedule.commands)
    if (const auto* launch = std::get_if<Launch>(&command.what)) {
      const Module* module = bindings.modules[launch->module];
      if (!module || static_cast<std::size_t>(launch->kernel) >= module->kernel_count())
        throw UsageError({.what = fmt::format("the module bound to {} has no kernel {} for {}",
                                              schedule.modules[launch->module].name, launch->kernel,
                                              command.label)});
    }
  modules_ = bindings.modules;
  hooks_ = bindings.hooks;
  cancelled_ = bindings.cancelled;
}

void Executor::Impl::enqueue(const Bindings& bindings) {
  if (!schedule_)
    throw UsageError({.what = "no schedule is prepared", .hint = "Executor::prepare first"});
  if (in_flight_)
    throw UsageError({.what = "a schedule is still running", .hint = "Executor::wait first"});
  bind(bindings);
  outcome_ = Outcome::open;
  if (Trace* trace = device_.trace()) trace->know(*schedule_);
  if (options_.poison_freed)
    for (std::size_t b = 0; b < schedule_->buffers.size(); ++b)
      if (const BufferInfo& info = schedule_->buffers[b];
          !info.initialised && host_[b] && info.bytes > 0)
        std::memset(host_[b], kPoison, static_cast<std::size_t>(info.bytes));

  in_flight_ = true;
  try {
    const auto count = static_cast<std::int32_t>(schedule_->commands.size());
    bool decided = !cancelled_;
    segments_.assign(streams_.size(), {});
    for (std::int32_t i = 0; i < count; ++i) {
      const Command& command = schedule_->commands[i];
      if (!decided && command.phase == Phase::optimizer && !command.operands.empty()) {
        close_segment(command.stream);
        enqueue_decision(*streams_[command.stream]);
        decided = true;
      }
      bracket(command, i);
      enqueue_command(i);
    }
    for (std::size_t s = 0; s < streams_.size(); ++s) close_segment(static_cast<StreamId>(s));
  } catch (...) {  // no memory or no thread: take back what is queued
    const Failure failure{std::current_exception(), 0};
    for (const auto& stream : streams_) stream->fail(failure);
    drain_all();
    throw;
  }
}

/// What a partition launches in one phase, between two waits or calls of its stream, is a segment:
/// it comes again with every run of the schedule.
void Executor::Impl::bracket(const Command& command, std::int32_t index) {
  Segment& segment = segments_[command.stream];
  const auto* launch = std::get_if<Launch>(&command.what);
  if (std::holds_alternative<Free>(command.what) || std::holds_alternative<Record>(command.what))
    return;
  const bool works = launch ? !modules_[launch->module]->host_kernel(launch->kernel)
                            : std::holds_alternative<Copy>(command.what) ||
                                  std::holds_alternative<Fill>(command.what);
  if (works && segment.open && segment.phase == command.phase &&
      segment.partition == command.partition)
    return;
  close_segment(command.stream);
  if (!works) return;
  streams_[command.stream]->begin_segment((serial_ << 32) + index);
  segment = {.open = true, .phase = command.phase, .partition = command.partition};
}

void Executor::Impl::close_segment(StreamId stream) {
  if (!segments_[stream].open) return;
  segments_[stream].open = false;
  streams_[stream]->end_segment();
}

/// Before the first update: from here on a cancelled run ends as if it had not been, since to stop
/// between two parameters would leave neither the old ones nor the new.
void Executor::Impl::enqueue_decision(Stream& stream) {
  stream.host_call(
      [this] {
        if (!decide(Outcome::updates)) throw Cancelled({.what = "the step was cancelled"});
      },
      nullptr);
}

std::span<void* const> Executor::Impl::addresses(const Command& command) {
  addresses_.clear();
  for (const Operand& operand : command.operands)
    addresses_.push_back(base_[operand.range.buffer] + operand.range.begin);
  return addresses_;
}

std::span<std::byte> Executor::Impl::gradient(const Command& command) const {
  if (command.operands.empty()) return {};
  const ByteRange& range = command.operands[0].range;
  std::byte* const host = host_[range.buffer];
  if (!host) return {};
  return {host + range.begin, static_cast<std::size_t>(range.end - range.begin)};
}

void Executor::Impl::enqueue_command(std::int32_t index) {
  const Command& command = schedule_->commands[index];
  Stream& stream = *streams_[command.stream];
  const auto at = [&](std::size_t operand) {
    const ByteRange& range = command.operands[operand].range;
    return base_[range.buffer] + range.begin;
  };
  const auto size = [&] { return command.operands[0].range.end - command.operands[0].range.begin; };
  if (const auto* launch = std::get_if<Launch>(&command.what)) {
    Module& module = *modules_[launch->module];
    if (const HostCall* code = module.host_kernel(launch->kernel))
      stream.host_call(
          [this, code, &command] {
            with_operands_on_host(command.operands, buffers_, [&](std::span<void* const> operands) {
              (*code)(operands.data());
            });
          },
          &command);
    else
      stream.launch(module, launch->kernel, addresses(command), &command);
  } else if (const auto* record = std::get_if<Record>(&command.what)) {
    stream.record(*events_[record->event], &command);
  } else if (const auto* wait = std::get_if<Wait>(&command.what)) {
    stream.wait(*events_[wait->event], &command);
  } else if (std::holds_alternative<Copy>(command.what)) {
    stream.copy(at(1), at(0), size(), &command);
  } else if (const auto* fill = std::get_if<Fill>(&command.what)) {
    stream.fill(at(0), fill->byte, size(), &command);
  } else if (std::holds_alternative<Free>(command.what)) {
    if (options_.poison_freed) stream.fill(at(0), kPoison, size(), nullptr);
  } else if (const auto* hook = std::get_if<Hook>(&command.what)) {
    enqueue_hook(index, hook->slot, stream);
  } else if (const auto* collective = std::get_if<Collective>(&command.what)) {
    enqueue_hook(index, collective->slot, stream);
    stream.record(*events_[collective->done], nullptr);
  }
}

void Executor::Impl::enqueue_hook(std::int32_t index, std::int32_t slot, Stream& stream) {
  const Command& command = schedule_->commands[index];
  const HookFunction& hook = hooks_[slot];
  if (!hook.function) return;
  if (!hook.is_stream_hook) {
    stream.host_call([this, index] { call_host_hook(index); }, &command);
    return;
  }
  try {
    hook.function({.command = &command,
                   .gradient = gradient(command),
                   .address = command.operands.empty() ? nullptr : addresses(command)[0],
                   .stream = &stream});
  } catch (...) {
    // Fails the stream at this place: what was enqueued before still runs, in order.
    stream.host_call([error = std::current_exception()] { std::rethrow_exception(error); },
                     &command);
  }
}

void Executor::Impl::call_host_hook(std::int32_t index) const {
  const Command& command = schedule_->commands[index];
  const auto* as_hook = std::get_if<Hook>(&command.what);
  const std::int32_t slot = as_hook ? as_hook->slot : std::get<Collective>(command.what).slot;
  const std::vector<ByteRange>& guard = guards_[index];
  const bool guarded =
      !guard.empty() && std::all_of(guard.begin(), guard.end(), [&](const ByteRange& range) {
        return host_[range.buffer] != nullptr;
      });
  std::vector<std::uint64_t> before;
  if (guarded) before = checksums(guard, host_);
  const bool staged = !command.operands.empty() && !host_[command.operands[0].range.buffer] &&
                      buffers_[command.operands[0].range.buffer]->keeps_bytes();
  if (staged) {
    const Operand& operand = command.operands[0];
    const auto size = static_cast<std::size_t>(operand.range.end - operand.range.begin);
    with_operands_on_host({&operand, 1}, buffers_, [&](std::span<void* const> addresses) {
      hooks_[slot].function({.command = &command,
                             .gradient = {static_cast<std::byte*>(addresses[0]), size},
                             .stream = nullptr});
    });
  } else {
    hooks_[slot].function({.command = &command, .gradient = gradient(command), .stream = nullptr});
  }
  if (!guarded) return;
  const std::vector<std::uint64_t> after = checksums(guard, host_);
  for (std::size_t i = 0; i < guard.size(); ++i)
    if (before[i] != after[i])
      throw DeviceError(
          {.what = fmt::format("hook {} wrote to {}[{}, {}), which it does not declare",
                               schedule_->hooks[slot], schedule_->buffers[guard[i].buffer].name,
                               guard[i].begin, guard[i].end),
           .where = command.label,
           .hint = "declare that the hook writes its gradient, or make it opaque"});
}

void Executor::Impl::flush() {
  for (const auto& stream : streams_) stream->flush();
}

Failure Executor::Impl::drain_all() noexcept {
  // Streams that this thread may run come first; others run meanwhile. Of several such streams
  // only one can be run here at a time, so the rest go to their own threads.
  for (std::size_t i = 1; i < drain_order_.size(); ++i) streams_[drain_order_[i]]->flush();
  Failure first;
  const std::function<bool()>* poll = cancelled_ ? &poll_ : nullptr;
  bool told = false;
  for (const std::size_t s : drain_order_) {
    const Failure failure = streams_[s]->drain(poll);
    if (failure && (!first || failure.at_ns < first.at_ns)) first = failure;
    if (outcome_ == Outcome::cancelled && !told) {
      told = true;
      poll = nullptr;
      for (const std::size_t other : drain_order_)
        if (other != s) streams_[other]->fail(failure);
    }
  }
  // A stream that was drained before another one told it to fail has nothing queued, but keeps the
  // failure: cleared here.
  if (told)
    for (const auto& stream : streams_) stream->drain(nullptr);
  in_flight_ = false;
  hooks_.clear();
  cancelled_ = nullptr;
  return first;
}

void Executor::Impl::wait() {
  if (!in_flight_) return;
  if (const Failure failure = drain_all()) std::rethrow_exception(failure.error);
}

Executor::Executor(Device& device, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(device, options)) {}
Executor::~Executor() {
  if (impl_->in_flight_) impl_->drain_all();
}
void Executor::prepare(std::shared_ptr<const Schedule> schedule) {
  impl_->prepare(std::move(schedule));
}
void Executor::enqueue(const Bindings& bindings) {
  impl_->enqueue(bindings);
  impl_->flush();
}
void Executor::wait() { impl_->wait(); }
void Executor::run(const Bindings& bindings) {
  impl_->enqueue(bindings);
  impl_->wait();
}

}  // namespace riffle::runtime
