#include "runtime/collectives/nccl/connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace riffle::runtime::nccl {
namespace {
using std::chrono::milliseconds;
using Kind = CollectiveCall::Kind;

constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{1000};
// How long an abort waits for a thread that is inside NCCL.
constexpr milliseconds kAbortPatience{500};
// A communicator that is destroyed while groups are in flight waits no longer for them.
constexpr milliseconds kLongestClose{30'000};

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kFloat32;
    case DType::f64:
      return kFloat64;
    case DType::bf16:
      return kBfloat16;
    case DType::f16:
      return kFloat16;
    case DType::i64:
      return kInt64;
    case DType::i32:
      return kInt32;
    case DType::boolean:
      break;  // check_calls refused it
  }
  return -1;
}

int op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return kSum;
    case ReduceOp::average:
      return kAvg;
    case ReduceOp::min:
      return kMin;
    case ReduceOp::max:
      return kMax;
  }
  return -1;
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

constexpr bool accepted(Result code) { return code == kSuccess || code == kInProgress; }

}  // namespace

Connection::Connection(NcclDevice device, NcclOptions options,
                       std::shared_ptr<const Library> library, const NcclId& id, int rank, int size)
    : device_(std::move(device)),
      options_(std::move(options)),
      library_(std::move(library)),
      owned_(true),
      process_(::getpid()),
      rank_(rank),
      size_(size) {
  UniqueId unique{};
  static_assert(sizeof(unique) == sizeof(id));
  std::memcpy(&unique, id.data(), sizeof(unique));
  Config config;
  config.blocking = 0;
  const auto start = Clock::now();
  device_.with_context([&] {
    CommHandle comm = nullptr;
    Result code = library_->api().CommInitRankConfig(&comm, size, unique, rank, &config);
    comm_ = comm;
    if (comm && code == kInProgress) code = wait_ready(start + options_.join_timeout);
    if (code == kSuccess) return;
    const CommError error =
        code == kInProgress
            ? CommError({.what = fmt::format("not all of the {} ranks have joined after {:.3g} s",
                                             size, seconds(Clock::now() - start)),
                         .where = place(),
                         .hint = "start the missing ranks, with the same id and size; "
                                 "NCCL_DEBUG=INFO shows what connects",
                         .foreign = name_of(code)})
            : make_error(library_->api(), comm, code, "ncclCommInitRankConfig", place());
    if (CommHandle taken = take_comm()) library_->api().CommAbort(taken);
    throw error;
  });
}

Connection::Connection(NcclDevice device, NcclOptions options,
                       std::shared_ptr<const Library> library, CommHandle comm)
    : device_(std::move(device)),
      options_(std::move(options)),
      library_(std::move(library)),
      owned_(false),
      process_(::getpid()),
      comm_(comm) {
  const NcclApi& api = library_->api();
  if (const Result code = api.CommCount(comm, &size_); code != kSuccess)
    throw make_error(api, nullptr, code, "ncclCommCount", "nccl");
  if (const Result code = api.CommUserRank(comm, &rank_); code != kSuccess)
    throw make_error(api, nullptr, code, "ncclCommUserRank", "nccl");
}

Connection::~Connection() { close(); }

bool Connection::forked() const noexcept { return ::getpid() != process_; }

std::string Connection::place() const { return fmt::format("nccl rank {} of {}", rank_, size_); }
std::string Connection::place(const Group& group) const {
  return fmt::format("{}: {} (group {})", place(), describe(group.calls), group.number);
}

Result Connection::call(const CollectiveCall& call, void* barrier, StreamHandle stream,
                        const char** name) const {
  const NcclApi& api = library_->api();
  const CommHandle comm = comm_;
  if (!comm) return kInvalidUsage;  // aborted meanwhile: its failure is thrown instead
  const auto count = static_cast<std::size_t>(call.count);
  const int type = type_of(call.dtype), op = op_of(call.op);
  // In place, a rank's own block lies at its place among all.
  auto* const own = static_cast<std::byte*>(call.data) + call.count * size_of(call.dtype) * rank_;
  switch (call.kind) {
    case Kind::all_reduce:
      *name = "ncclAllReduce";
      return api.AllReduce(call.data, call.data, count, type, op, comm, stream);
    case Kind::reduce_scatter:
      *name = "ncclReduceScatter";
      return api.ReduceScatter(call.data, own, count, type, op, comm, stream);
    case Kind::all_gather:
      *name = "ncclAllGather";
      return api.AllGather(own, call.data, count, type, comm, stream);
    case Kind::broadcast:
      *name = "ncclBroadcast";
      return api.Broadcast(call.data, call.data, count, type, call.root, comm, stream);
    case Kind::barrier:
      *name = "ncclAllReduce";
      return api.AllReduce(barrier, barrier, 1, kInt32, kSum, comm, stream);
  }
  return kInvalidArgument;
}

void Connection::issue(const Group& group, void* barrier, StreamHandle stream) {
  throw_if_failed();
  const NcclApi& api = library_->api();
  const char* name = "ncclGroupStart";
  Result code = kSuccess;
  {
    const std::lock_guard turn(turn_);
    if (!comm_ && !failed())
      throw CommError({.what = "the communicator was destroyed", .where = place(group)});
    const bool grouped = group.calls.size() > 1;
    if (grouped) code = api.GroupStart();
    const bool opened = grouped && code == kSuccess;
    for (const CollectiveCall& one : group.calls) {
      if (!accepted(code)) break;
      code = call(one, barrier, stream, &name);
    }
    if (opened) {  // also after a failure: an open group would swallow this thread's next calls
      const Result end = api.GroupEnd();
      if (accepted(code)) {
        code = end;
        name = "ncclGroupEnd";
      }
    }
    if (code == kInProgress && comm_) code = wait_ready(Clock::now() + options_.timeout);
  }
  if (code == kSuccess && !failed()) return;
  if (!failed()) {
    if (code == kInProgress)
      time_out(group, options_.timeout);
    else
      fail(make_error(api, comm_, code, name, place(group)));
  }
  throw_if_failed();
}

Result Connection::wait_ready(Clock::time_point deadline) const noexcept {
  auto pause = kShortestPause;
  for (;;) {
    const CommHandle comm = comm_;
    if (!comm || failed()) return kInProgress;
    Result state = kSuccess;
    const Result code = library_->api().CommGetAsyncError(comm, &state);
    if (code != kSuccess) return code;
    if (state != kInProgress || Clock::now() >= deadline) return state;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

void Connection::poll() noexcept {
  if (failed()) return;
  const std::unique_lock turn(turn_, std::try_to_lock);
  const CommHandle comm = comm_;
  if (!turn || !comm) return;
  Result state = kSuccess;
  const Result code = library_->api().CommGetAsyncError(comm, &state);
  const Result found = code == kSuccess ? state : code;
  if (accepted(found)) return;
  try {
    fail(make_error(library_->api(), comm, found, "a collective", place()));
  } catch (...) {
    fail(CommError({.what = "a collective failed, and there is no memory to say how"}));
  }
}

void Connection::time_out(const Group& group, Clock::duration elapsed) noexcept {
  try {
    fail(CommError(
        {.what =
             fmt::format("the collective has not ended {:.3g} s after it began", seconds(elapsed)),
         .where = place(group),
         .hint = fmt::format("one of ranks 0 to {} is stuck, gone, or enqueued its collectives in "
                             "another order: see the other ranks' messages, and "
                             "NCCL_DEBUG=INFO; if it is only slow, raise NcclOptions::timeout",
                             size_ - 1)}));
  } catch (...) {
    fail(CommError({.what = "a collective timed out, and there is no memory to say which"}));
  }
}

bool Connection::fail(const CommError& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = std::make_exception_ptr(error);
  failed_.store(true, std::memory_order_release);
  return true;
}

std::exception_ptr Connection::failure() const noexcept {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Connection::throw_if_failed() const {
  if (failed()) std::rethrow_exception(failure());
}

CommHandle Connection::take_comm() noexcept { return comm_.exchange(nullptr); }

void Connection::abort() noexcept {
  if (!comm_ || forked()) return;
  // Not held on to: a thread may be stuck inside NCCL, and an abort is what gets it out.
  const std::unique_lock turn(turn_, kAbortPatience);
  const CommHandle comm = take_comm();
  if (!comm) return;
  const auto run = [&] { library_->api().CommAbort(comm); };
  try {
    device_.with_context(run);
  } catch (...) {  // the device is closed; what NCCL holds of the host's is freed all the same
    run();
  }
}

void Connection::close() noexcept {
  if (failed()) return abort();
  if (!owned_ || forked()) {
    take_comm();
    return;
  }
  if (!comm_) return;
  try {
    device_.with_context([&] {
      const std::unique_lock turn(turn_, kAbortPatience);
      const NcclApi& api = library_->api();
      Result code = api.CommFinalize(comm_);
      if (code == kInProgress)
        code = wait_ready(Clock::now() + std::min(options_.join_timeout, kLongestClose));
      if (const CommHandle comm = take_comm())
        code == kSuccess ? api.CommDestroy(comm) : api.CommAbort(comm);
    });
  } catch (...) {
    if (const CommHandle comm = take_comm()) library_->api().CommAbort(comm);
  }
}

}  // namespace riffle::runtime::nccl
