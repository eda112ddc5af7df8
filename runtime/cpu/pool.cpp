#include "runtime/cpu/pool.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "runtime/cpu/pause.h"

namespace riffle::runtime::cpu {
namespace {
constexpr std::int64_t kSpinNs = 70'000;
// Less work than this is done sooner than another thread has joined.
constexpr double kInlineNs = 8'000;
// A chunk is worth a trip to the shared counter from here on.
constexpr double kChunkNs = 2'000;
constexpr std::int64_t kChunksPerThread = 4;

std::int64_t chunk_of(const KernelGeometry& geometry, int threads) {
  const std::int64_t by_balance = geometry.tasks / (threads * kChunksPerThread);
  const double task_ns = geometry.work_ns / static_cast<double>(geometry.tasks);
  // Never so large that a thread goes without.
  const std::int64_t most = (geometry.tasks + threads - 1) / threads;
  const double by_cost = task_ns > 0 ? std::ceil(kChunkNs / task_ns) : 1;
  const std::int64_t least =
      by_cost < static_cast<double>(most) ? static_cast<std::int64_t>(by_cost) : most;
  return std::clamp<std::int64_t>(by_balance, std::max<std::int64_t>(least, 1),
                                  std::max<std::int64_t>(most, 1));
}
}  // namespace

Pool::Pool(int threads) : threads_(std::max(threads, 1)) {}

Pool::~Pool() {
  stop_.store(true);
  {
    std::lock_guard lock(mutex_);
    epoch_.fetch_add(1);
    wake_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
}

void Pool::start_workers() {
  for (int i = 1; i < threads_; ++i) {
    try {
      workers_.emplace_back([this] { worker_main(); });
    } catch (const std::system_error&) {
      return;  // no more threads to be had: the launching thread does the work of the missing
    }
  }
}

bool Pool::run(HostKernel kernel, const KernelGeometry& geometry, void* const* operands,
               Scratch& scratch, KernelStatus& status) {
  if (geometry.tasks <= 0) return true;
  void* const own_scratch = scratch.ensure(geometry.scratch_bytes);
  if (geometry.scratch_bytes > 0 && !own_scratch) return false;
  const DefaultFloatState float_state;

  Slot* slot = nullptr;
  if (threads_ > 1 && geometry.tasks > 1 && geometry.work_ns >= kInlineNs)
    for (Slot& candidate : slots_)
      if (!candidate.taken.exchange(true, std::memory_order_acquire)) {
        slot = &candidate;
        break;
      }
  if (!slot) {
    kernel(operands, 0, geometry.tasks, own_scratch, &status);
    return true;
  }

  std::call_once(started_, [this] { start_workers(); });
  slot->job = {.kernel = kernel,
               .operands = operands,
               .tasks = geometry.tasks,
               .chunk = chunk_of(geometry, threads_),
               .scratch_bytes = geometry.scratch_bytes,
               .status = &status};
  slot->next.store(0, std::memory_order_relaxed);
  slot->ticket.fetch_add(1);  // open
  epoch_.fetch_add(1);
  // Sequentially consistent with the worker that counts itself asleep and then reads the epoch:
  // one of the two sees the other.
  if (sleepers_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  draw(*slot, own_scratch);
  slot->ticket.fetch_add(1);  // close: whoever enters from now on leaves again
  for (int polls = 0; slot->inside.load() != 0; ++polls) {
    // A worker still runs its last chunk. Should it have lost its core, let it have this one.
    if (polls < 2000)
      pause();
    else
      std::this_thread::yield();
  }
  slot->taken.store(false, std::memory_order_release);
  return true;
}

void Pool::draw(Slot& slot, void* scratch) {
  const Job job = slot.job;
  for (;;) {
    const std::int64_t begin = slot.next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (begin >= job.tasks) return;
    job.kernel(job.operands, begin, std::min(begin + job.chunk, job.tasks), scratch, job.status);
  }
}

bool Pool::help(Scratch& scratch) {
  bool helped = false;
  for (Slot& slot : slots_) {
    if (slot.ticket.load(std::memory_order_relaxed) % 2 == 0) continue;
    slot.inside.fetch_add(1);
    // The launcher closes, then reads `inside`; we raise `inside`, then read whether it is open.
    if (slot.ticket.load() % 2 == 1 && slot.next.load(std::memory_order_relaxed) < slot.job.tasks) {
      void* const memory = scratch.ensure(slot.job.scratch_bytes);
      // Without memory the others do it: the launching thread has its scratch.
      if (slot.job.scratch_bytes == 0 || memory) {
        draw(slot, memory);
        helped = true;
      }
    }
    slot.inside.fetch_sub(1);
  }
  return helped;
}

void Pool::worker_main() {
  const DefaultFloatState float_state;
  Scratch scratch;
  std::uint64_t seen = epoch_.load();
  auto idle_since = now_ns();
  for (;;) {
    if (help(scratch)) {
      idle_since = now_ns();
      continue;
    }
    if (stop_.load()) return;
    for (int i = 0; i < 64 && epoch_.load(std::memory_order_relaxed) == seen; ++i) pause();
    if (const std::uint64_t epoch = epoch_.load(); epoch != seen) {
      seen = epoch;
      idle_since = now_ns();
      continue;
    }
    if (now_ns() - idle_since < kSpinNs) {
      std::this_thread::yield();  // a hook thread may want this core
      continue;
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return epoch_.load() != seen || stop_.load(); });
    sleepers_.fetch_sub(1);
    idle_since = now_ns();
  }
}

}  // namespace riffle::runtime::cpu
