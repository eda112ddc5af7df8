#include "runtime/collectives/nccl/watchdog.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace riffle::runtime::nccl {
namespace {
// How long an error may stay unseen; an eighth of the timeout where that is less.
constexpr std::chrono::milliseconds kLongestLook{10};
}  // namespace

Watchdog::Watchdog(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw CommError({.what = "no thread could be started to watch collectives",
                     .where = connection_->place(),
                     .hint = "raise the limit of processes (ulimit -u)",
                     .foreign = error.code().message()});
  }
}

Watchdog::~Watchdog() {
  if (connection_->forked()) {  // the thread is the parent's
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<Group> Watchdog::fresh_group() {
  {
    const std::lock_guard lock(mutex_);
    // A group comes back while the stream's last item still holds it: then it waits.
    for (auto spare = spare_.begin(); spare != spare_.end(); ++spare)
      if (spare->use_count() == 1) {
        std::shared_ptr<Group> group = std::move(*spare);
        spare_.erase(spare);
        group->has_started = false;
        return group;
      }
  }
  auto group = std::make_shared<Group>();
  group->begin = connection_->device().device->create_event();
  group->end = connection_->device().device->create_event();
  return group;
}

void Watchdog::watch(std::shared_ptr<Group> group) {
  const std::lock_guard lock(mutex_);
  in_flight_.push_back(std::move(group));
  if (asleep_) changed_.notify_all();
}

void Watchdog::wake() noexcept {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void Watchdog::run() {
  const auto timeout = connection_->options().timeout;
  const auto pause = std::clamp<std::chrono::milliseconds>(
      timeout / 8, std::chrono::milliseconds(1), kLongestLook);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    asleep_ = in_flight_.empty();
    if (asleep_)
      changed_.wait(lock, [&] { return stop_ || woken_ || !in_flight_.empty(); });
    else
      changed_.wait_for(lock, pause, [&] { return stop_ || woken_; });
    asleep_ = false;
    woken_ = false;
    lock.unlock();
    if (!connection_->failed()) look();
    if (connection_->failed()) connection_->abort();
    lock.lock();
    if (connection_->failed()) in_flight_.clear();
  }
}

void Watchdog::look() {
  for (;;) {
    std::shared_ptr<Group> oldest;
    {
      const std::lock_guard lock(mutex_);
      if (in_flight_.empty()) return;
      oldest = in_flight_.front();
    }
    if (!oldest->has_started && oldest->begin->query()) {
      oldest->has_started = true;
      oldest->started = Clock::now();
    }
    if (!oldest->has_started) break;
    if (!oldest->end->query()) {
      const auto elapsed = Clock::now() - oldest->started;
      if (elapsed >= connection_->options().timeout) connection_->time_out(*oldest, elapsed);
      break;
    }
    const std::lock_guard lock(mutex_);
    in_flight_.pop_front();
    spare_.push_back(std::move(oldest));
  }
  connection_->poll();
}

}  // namespace riffle::runtime::nccl
