// Comm: one emulated communicator: its state, its collectives on streams, its end.
//
// A collective is four pieces of work on the caller's stream: a copy of what the rank gives into
// pinned memory, a host function that exchanges it with the other ranks (exchange.h), a copy of
// what it gets to the device, and a host function that says that the pinned memory is free again.
// A collective that meets an error holds its stream until ncclCommAbort, as NCCL's kernels do.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "emulator/nccl/driver.h"
#include "emulator/nccl/exchange.h"
#include "emulator/nccl/settings.h"

namespace emulator::nccl {

/// A collective call, checked.
struct Request {
  Descriptor descriptor;
  const void* from = nullptr;
  void* to = nullptr;
  Stream stream = nullptr;
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  /// On the current context. Joins; does not wait. Throws Problem.
  Comm(const std::string& name, int rank, int size, bool blocking, const Settings& settings);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int device() const noexcept { return device_; }
  bool blocking() const noexcept { return blocking_; }

  /// Blocks until all ranks have joined. Throws Problem.
  void wait_joined();
  /// Throws Problem unless collectives may be enqueued now.
  void require_ready();
  void check(const Request& request) const;
  void enqueue(const Request& request, const Settings& settings);

  /// What ncclCommGetAsyncError says.
  ncclResult_t state();
  /// For non-blocking communicators: the call that was just made is in progress until asked.
  void begin_call() noexcept;
  void finalize();
  /// Ends the exchange and frees what can be. Blocks for a bounded time.
  void end(Exchange::State how);
  std::string error_text();

 private:
  struct Pending;
  /// Pinned memory, and the event behind the last copy from it: what is to come after that copy, on
  /// another stream or here, must be ordered by more than that it has happened.
  struct Staging {
    void* memory = nullptr;
    Event done = nullptr;
    std::size_t bytes = 0;
    bool used = false;
  };

  static void run(void* pending) noexcept;
  static void finish(void* pending) noexcept;
  void fail(const Problem& problem);
  void hold();
  Staging& staging(std::size_t bytes);
  void free_staging() noexcept;

  const int rank_, size_;
  const bool blocking_;
  Context context_ = nullptr;
  int device_ = 0;
  std::optional<Exchange> exchange_;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  Problem error_;  // the first asynchronous one
  bool joined_ = false, in_call_ = false, finalizing_ = false, ended_ = false;
  std::uint64_t collectives_ = 0, unfinished_ = 0;
  std::uint64_t turn_ = 1;  // number of the collective that may meet the other ranks
  std::vector<std::unique_ptr<Staging>> staging_;
};

}  // namespace emulator::nccl
