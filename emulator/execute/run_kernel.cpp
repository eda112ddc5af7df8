#include "emulator/execute/run_kernel.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "emulator/execute/atomic_locks.h"
#include "emulator/execute/run_block.h"

#include "emulator/execute/warp.h"

namespace emulator {
namespace {

/// The caller may have told its CPU to flush denormals or to round otherwise.
class FloatingPointScope {
 public:
  FloatingPointScope() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingPointScope() { std::fesetenv(&saved_); }
  FloatingPointScope(const FloatingPointScope&) = delete;
  FloatingPointScope& operator=(const FloatingPointScope&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace

LaunchStatistics run_kernel(const Launch& launch, DeviceMemory& memory,
                            const ExecuteOptions& options, Footprint& footprint) {
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const std::uint64_t threads = std::uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  if (launch.module == nullptr || launch.kernel >= launch.module->bodies.size() || blocks == 0 ||
      threads == 0 || threads > 1024)
    throw make_fault(FaultKind::illegal_instruction,
                     "launch of no kernel, no block, or a block of no or more than 1024 threads");
  if (launch.parameters.size() < launch.module->bodies[launch.kernel]->parameter_bytes)
    throw make_fault(FaultKind::illegal_instruction, "launch with too few bytes of parameters");

  // With a seed, blocks start in the order i → first + i × stride.
  std::uint64_t stride = 1, first = 0;
  if (options.seed != 0 && blocks > 1) {
    first = options.seed % blocks;
    stride = (options.seed * 0x9e3779b97f4a7c15u >> 16) % blocks;
    while (stride == 0 || std::gcd(stride, blocks) != 1) stride = (stride + 1) % blocks;
  }
  AtomicLocks atomics;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;
  std::uint64_t failed_block = ~std::uint64_t{0};
  LaunchStatistics statistics;

  const auto work = [&] {
    const FloatingPointScope scope;
    LaunchMemory view(memory);
    std::uint64_t number = 0;
    std::optional<BlockRunner> runner;
    std::exception_ptr mine;
    try {
      runner.emplace(launch, options, view, atomics);
      while (!stop) {
        const std::uint64_t i = next++;
        if (i >= blocks) break;
        if (options.cancelled && options.cancelled()) break;
        number = static_cast<std::uint64_t>((static_cast<unsigned __int128>(i) * stride + first) %
                                            blocks);
        runner->run(number);
      }
    } catch (...) {
      mine = std::current_exception();
      stop = true;
    }
    const Footprint touched = view.footprint();
    const std::lock_guard lock(mutex);
    if (mine && number < failed_block) failure = mine, failed_block = number;
    if (runner) statistics.thread_instructions += runner->thread_instructions();
    merge(footprint, touched);
  };

  std::uint64_t workers = options.workers > 0 ? static_cast<std::uint64_t>(options.workers)
                                              : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, blocks);
  std::vector<std::thread> helpers;
  for (std::uint64_t i = 1; i < workers; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
  return statistics;
}

}  // namespace emulator
