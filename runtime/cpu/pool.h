// Pool: worker threads that share the tasks of a launch with the thread that launches.
//
// Several streams may launch at once: each launch takes a slot; workers look at all slots and draw
// chunks of tasks from a slot's counter until none is left. A launch is over when its counter is
// exhausted, the slot closed and nobody inside any more. Workers poll for about 70 µs before they
// sleep: a futex wake costs 60 µs on the reference machine, a poll 0.3 µs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cpu/stream.h"
#include "runtime/kernel_abi.h"

namespace riffle::runtime::cpu {

class Pool {
 public:
  /// `threads` counts the caller: threads − 1 workers are started, when first needed.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Runs all tasks; returns false if the caller's scratch could not be allocated.
  bool run(HostKernel kernel, const KernelGeometry& geometry, void* const* operands,
           Scratch& scratch, KernelStatus& status);
  int threads() const noexcept { return threads_; }

 private:
  struct Job {
    HostKernel kernel = nullptr;
    void* const* operands = nullptr;
    std::int64_t tasks = 0, chunk = 1, scratch_bytes = 0;
    KernelStatus* status = nullptr;
  };
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<std::uint64_t> ticket{0};  // odd: open
    std::atomic<int> inside{0};            // workers that look at or run the job
    Job job;                               // written while closed and taken
    alignas(64) std::atomic<std::int64_t> next{0};
  };

  void start_workers();
  void worker_main();
  bool help(Scratch& scratch);
  static void draw(Slot& slot, void* scratch);

  const int threads_;
  std::array<Slot, 4> slots_;
  alignas(64) std::atomic<std::uint64_t> epoch_{0};  // launches so far
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stop_{false};
  std::once_flag started_;
  std::vector<std::thread> workers_;
};

}  // namespace riffle::runtime::cpu
