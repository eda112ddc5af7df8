// Watchdog: a thread that looks after the groups in flight of one connection: that each ends in
// time after it began, and that NCCL has met no error. It sleeps while nothing is in flight.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/collectives/nccl/connection.h"

namespace riffle::runtime::nccl {

class Watchdog {
 public:
  explicit Watchdog(std::shared_ptr<Connection> connection);
  ~Watchdog();  ///< ends the thread; what is in flight is no longer watched
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A group that is not in use, with events.
  std::shared_ptr<Group> fresh_group();
  /// Its events have been recorded.
  void watch(std::shared_ptr<Group> group);
  /// The connection has failed: abort it.
  void wake() noexcept;

 private:
  void run();
  /// Looks at the oldest groups; without the lock.
  void look();

  const std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Group>> in_flight_;  // under mutex_
  std::vector<std::shared_ptr<Group>> spare_;     // under mutex_
  bool stop_ = false, woken_ = false, asleep_ = false;
  std::thread thread_;
};

}  // namespace riffle::runtime::nccl
