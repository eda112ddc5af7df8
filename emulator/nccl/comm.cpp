#include "emulator/nccl/comm.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "emulator/nccl/reduce.h"

namespace emulator::nccl {
namespace {

// How long destroying a communicator waits for streams that still hold its collectives.
constexpr std::chrono::seconds kEndPatience{5};
// What a collective leaves behind that was aborted: NaN in every floating type.
constexpr int kPoison = 0xff;
constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING

void require_cuda(int code, const char* call) {
  if (code != 0)
    throw Problem{ncclUnhandledCudaError, std::string(call) + " returned " + std::to_string(code)};
}

const std::byte* bytes(const void* pointer) { return static_cast<const std::byte*>(pointer); }

}  // namespace

struct Comm::Pending {
  std::shared_ptr<Comm> comm;
  Descriptor descriptor;
  Staging* staging = nullptr;
  bool hangs = false, dies = false;
  ncclResult_t fails = ncclSuccess;
};

Comm::Comm(const std::string& name, int rank, int size, bool blocking, const Settings& settings)
    : rank_(rank), size_(size), blocking_(blocking) {
  const DriverCalls& driver = driver_calls();
  require_cuda(driver.CtxGetCurrent(&context_), "cuCtxGetCurrent");
  if (!context_)
    throw Problem{ncclUnhandledCudaError, "no CUDA context is current on the calling thread"};
  require_cuda(driver.CtxGetDevice(&device_), "cuCtxGetDevice");
  if (settings.fail_init.hits(1, rank))
    throw Problem{settings.fail_init.code, "failure of initialisation injected"};
  exchange_.emplace(name, rank, size, device_);
}

Comm::~Comm() { end(Exchange::State::left); }

void Comm::wait_joined() {
  if (!exchange_->wait_complete(stop_)) throw Problem{ncclInternalError, "aborted while joining"};
  const std::lock_guard lock(mutex_);
  joined_ = true;
}

void Comm::require_ready() {
  const ncclResult_t code = [&] {
    if (blocking_) return ncclResult_t{ncclSuccess};
    const std::lock_guard lock(mutex_);
    return in_call_ ? ncclResult_t{ncclInProgress} : ncclResult_t{ncclSuccess};
  }();
  if (code == ncclInProgress)
    throw Problem{ncclInvalidArgument,
                  "the communicator is used before its previous call has succeeded: ask "
                  "ncclCommGetAsyncError until it no longer says ncclInProgress"};
  if (state() == ncclInProgress)
    throw Problem{ncclInvalidArgument, "the communicator is used before all ranks have joined"};
  const std::lock_guard lock(mutex_);
  if (error_.code != ncclSuccess) throw Problem(error_);
  if (finalizing_) throw Problem{ncclInvalidUsage, "the communicator has been finalized"};
}

ncclResult_t Comm::state() {
  std::unique_lock lock(mutex_);
  if (error_.code != ncclSuccess) return error_.code;
  if (!joined_) {
    try {
      joined_ = exchange_ && exchange_->complete();
    } catch (const Problem& problem) {
      error_ = problem;
      return error_.code;
    }
    if (!joined_) return ncclInProgress;
  }
  if (std::exchange(in_call_, false)) return ncclInProgress;
  return finalizing_ && unfinished_ > 0 ? ncclInProgress : ncclSuccess;
}

void Comm::begin_call() noexcept {
  const std::lock_guard lock(mutex_);
  in_call_ = true;
}

std::string Comm::error_text() {
  const std::lock_guard lock(mutex_);
  return error_.text;
}

void Comm::check(const Request& request) const {
  const Descriptor& d = request.descriptor;
  const auto refuse = [&](const std::string& why) {
    throw Problem{ncclInvalidArgument, describe(d) + ": " + why};
  };
  if (size_of(d.type) == 0) refuse("type " + std::to_string(d.type) + " is not known");
  if (d.op < ncclSum || d.op > ncclAvg)
    refuse("operation " + std::to_string(d.op) + " is not known");
  if (d.root < 0 || d.root >= size_)
    refuse("root " + std::to_string(d.root) + " of " + std::to_string(size_) + " ranks");
  const std::size_t in = bytes_in(d, size_), out = bytes_out(d, size_);
  const bool gives = d.operation != Operation::broadcast || d.root == rank_;
  if (gives && in > 0 && !request.from) refuse("sendbuff is null");
  if (out > 0 && !request.to) refuse("recvbuff is null");
  const std::byte* const from = bytes(request.from);
  const std::byte* const to = bytes(request.to);
  if (!gives || in == 0 || from >= to + out || to >= from + in) return;
  // The one overlap that is allowed: a rank's block at its place.
  const std::size_t block = d.count * size_of(d.type) * rank_;
  const bool in_place = d.operation == Operation::reduce_scatter ? to == from + block
                        : d.operation == Operation::all_gather   ? from == to + block
                                                                 : from == to;
  if (!in_place) refuse("sendbuff and recvbuff overlap otherwise than in place");
}

Comm::Staging& Comm::staging(std::size_t wanted) {
  const std::lock_guard lock(mutex_);
  for (const auto& one : staging_)
    if (!one->used && one->bytes >= wanted) {
      one->used = true;
      return *one;
    }
  auto fresh = std::make_unique<Staging>();
  fresh->bytes = std::max<std::size_t>(wanted, 4096);
  fresh->used = true;
  require_cuda(driver_calls().EventCreate(&fresh->done, kDisableTiming), "cuEventCreate");
  const int code = driver_calls().MemHostAlloc(&fresh->memory, fresh->bytes, 0);
  if (code != 0) driver_calls().EventDestroy(fresh->done);
  require_cuda(code, "cuMemHostAlloc");
  staging_.push_back(std::move(fresh));
  return *staging_.back();
}

void Comm::enqueue(const Request& request, const Settings& settings) {
  const DriverCalls& driver = driver_calls();
  const Push push(context_);
  Descriptor d = request.descriptor;
  const std::size_t in = bytes_in(d, size_), out = bytes_out(d, size_);
  const bool gives = d.operation != Operation::broadcast || d.root == rank_;
  auto pending = std::make_unique<Pending>();
  pending->comm = shared_from_this();
  pending->staging = &staging(std::max(in, out));
  {
    const std::lock_guard lock(mutex_);
    d.number = ++collectives_;
    ++unfinished_;
  }
  pending->descriptor = d;
  pending->hangs = settings.hang.hits(d.number, rank_);
  pending->dies = settings.die.hits(d.number, rank_);
  if (settings.fail_collective.hits(d.number, rank_))
    pending->fails = settings.fail_collective.code;

  void* const memory = pending->staging->memory;
  const char* call = "cuStreamWaitEvent";
  int code = driver.StreamWaitEvent(request.stream, pending->staging->done, 0);
  if (code == 0) call = "cuMemcpyDtoHAsync";
  if (code == 0 && gives && in > 0)
    code = driver.MemcpyDtoHAsync(memory, reinterpret_cast<std::uint64_t>(request.from), in,
                                  request.stream);
  if (code == 0) {
    call = "cuLaunchHostFunc";
    code = driver.LaunchHostFunc(request.stream, &Comm::run, pending.get());
  }
  if (code != 0) {
    const std::lock_guard lock(mutex_);
    pending->staging->used = false;
    --unfinished_;
    require_cuda(code, call);
  }
  // The stream has it now. What fails from here on leaves it to `finish`, or to nobody.
  Pending* const enqueued = pending.release();
  if (out > 0)
    code = driver.MemcpyHtoDAsync(reinterpret_cast<std::uint64_t>(request.to), memory, out,
                                  request.stream);
  if (code == 0) code = driver.EventRecord(enqueued->staging->done, request.stream);
  const int last = driver.LaunchHostFunc(request.stream, &Comm::finish, enqueued);
  require_cuda(code, "cuMemcpyHtoDAsync");
  require_cuda(last, "cuLaunchHostFunc");
}

void Comm::run(void* argument) noexcept {
  Pending& pending = *static_cast<Pending*>(argument);
  Comm& comm = *pending.comm;
  auto* const data = static_cast<std::byte*>(pending.staging->memory);
  bool done = false;
  try {
    {
      // Streams may reach a communicator's collectives in any order; ranks meet in the order of the
      // calls.
      std::unique_lock lock(comm.mutex_);
      comm.changed_.wait(lock,
                         [&] { return comm.stop_ || comm.turn_ == pending.descriptor.number; });
    }
    if (pending.dies) comm.exchange_->leave(Exchange::State::dead);
    if (pending.fails != ncclSuccess)
      throw Problem{pending.fails, "failure of collective " +
                                       std::to_string(pending.descriptor.number) + " injected, " +
                                       describe(pending.descriptor)};
    if (pending.hangs || pending.dies) comm.hold();
    done = !comm.stop_ && comm.exchange_->collective(pending.descriptor, data, comm.stop_);
  } catch (const Problem& problem) {
    comm.fail(problem);
    comm.hold();
  } catch (...) {
    comm.fail({ncclInternalError, "out of memory"});
    comm.hold();
  }
  if (!done)
    std::memset(data, kPoison,
                std::max(bytes_in(pending.descriptor, comm.size_),
                         bytes_out(pending.descriptor, comm.size_)));
  const std::lock_guard lock(comm.mutex_);
  ++comm.turn_;
  comm.changed_.notify_all();
}

void Comm::finish(void* argument) noexcept {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(argument));
  const std::shared_ptr<Comm> comm = pending->comm;
  const std::lock_guard lock(comm->mutex_);
  pending->staging->used = false;
  --comm->unfinished_;
  comm->changed_.notify_all();
}

void Comm::fail(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  if (error_.code == ncclSuccess) error_ = problem;
}

void Comm::hold() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_.load(); });
}

void Comm::finalize() {
  const std::lock_guard lock(mutex_);
  finalizing_ = true;
}

void Comm::end(Exchange::State how) {
  std::unique_lock lock(mutex_);
  if (std::exchange(ended_, true)) return;
  if (how == Exchange::State::aborted) {
    stop_ = true;
    changed_.notify_all();
    lock.unlock();
    if (exchange_) exchange_->leave(how);
    lock.lock();
  }
  // A stream that never comes to them keeps the pinned memory, and with it this object, alive.
  const bool idle = changed_.wait_for(lock, kEndPatience, [&] { return unfinished_ == 0; });
  lock.unlock();
  if (exchange_) exchange_->leave(how);
  if (!idle) return;
  free_staging();
}

void Comm::free_staging() noexcept {
  try {
    const DriverCalls& driver = driver_calls();
    const Push push(context_);
    for (const auto& one : staging_) {
      driver.EventSynchronize(one->done);
      driver.EventDestroy(one->done);
      driver.MemFreeHost(one->memory);
    }
  } catch (const Problem&) {  // the context is gone, and its memory with it
  }
  staging_.clear();
}

}  // namespace emulator::nccl
