// Connection: one ncclComm_t, and who may do what to it when. Shared by the communicator, its
// watchdog and what is still enqueued on streams, so that any of them may go first.
//
// States: open, failed (the first error is kept; the watchdog aborts the ncclComm_t, which frees
// the streams that it holds up), closed. NCCL wants one thread at a time in a communicator, but for
// ncclCommAbort: threads take turns, and an abort that does not get its turn soon goes ahead.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/collectives/nccl/communicator.h"
#include "runtime/collectives/nccl/error.h"

namespace riffle::runtime::nccl {

using Clock = std::chrono::steady_clock;

/// Calls that were enqueued together, and the events around them.
struct Group {
  std::vector<CollectiveCall> calls;
  std::unique_ptr<Event> begin, end;
  std::uint64_t number = 0;  ///< of this communicator, from 1
  Clock::time_point started;
  bool has_started = false;  ///< the watchdog has seen `begin`
};

class Connection {
 public:
  /// Joins as `rank` of `size`. Blocks. Throws CommError.
  Connection(NcclDevice device, NcclOptions options, std::shared_ptr<const Library> library,
             const NcclId& id, int rank, int size);
  /// The embedder's.
  Connection(NcclDevice device, NcclOptions options, std::shared_ptr<const Library> library,
             CommHandle comm);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const NcclDevice& device() const noexcept { return device_; }
  const NcclOptions& options() const noexcept { return options_; }

  /// Gives the group to NCCL; the context is current. `barrier`: memory for one i32. Throws
  /// CommError, having failed.
  void issue(const Group& group, void* barrier, StreamHandle stream);
  /// Fails if NCCL has met an error since; nothing if another thread has its turn.
  void poll() noexcept;
  /// Fails: the group has been running for `elapsed`.
  void time_out(const Group& group, Clock::duration elapsed) noexcept;

  /// The first failure is kept; true if this is it. The abort is left to the caller.
  bool fail(const CommError& error) noexcept;
  /// Is this a child of the process that made it? There nothing of NCCL or the watchdog works.
  bool forked() const noexcept;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  std::exception_ptr failure() const noexcept;
  void throw_if_failed() const;

  /// Of a failed connection, once: ends what is in flight.
  void abort() noexcept;
  /// Leaves the group, once all that was issued has ended (bounded), and frees the ncclComm_t.
  void close() noexcept;

  /// "nccl rank 1 of 4: all_reduce(sum, f32[8]) (group 3)".
  std::string place(const Group& group) const;
  std::string place() const;

 private:
  Result call(const CollectiveCall& call, void* barrier, StreamHandle stream,
              const char** name) const;
  /// Asks until the last call is no longer in progress, a failure, or the time is over.
  Result wait_ready(Clock::time_point deadline) const noexcept;
  CommHandle take_comm() noexcept;

  const NcclDevice device_;
  const NcclOptions options_;
  const std::shared_ptr<const Library> library_;
  const bool owned_;
  const int process_;
  int rank_ = 0, size_ = 1;

  mutable std::timed_mutex turn_;
  std::atomic<CommHandle> comm_{nullptr};  // null once aborted or closed
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::exception_ptr failure_;  // under mutex_
};

}  // namespace riffle::runtime::nccl
