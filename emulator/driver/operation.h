// Operations: the work of streams as a graph of dependencies, run by each device's workers
// (executor.cpp) and ordered by vector clocks.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/driver/state.h"

namespace emulator {

struct Operation {
  enum class State : std::uint8_t { waiting, ready, running, done };

  std::uint64_t number = 0;
  std::shared_ptr<Context> context;
  Work work;
  std::shared_ptr<const Actor> actor;  ///< its place in happens-before, and its name
  std::vector<std::shared_ptr<Operation>> dependents;
  std::size_t missing = 0;  ///< dependencies that are not done
  State state = State::waiting;
  std::uint64_t waiters = 0;  ///< calls that wait for it
  std::chrono::steady_clock::time_point finished;
};

using Operations = std::vector<std::shared_ptr<Operation>>;

/// The mutex must be held for all of these.

/// Appends to a stream: after its tail, `after`, and what the legacy default stream's rules add.
/// `what` is completed to "what (operation #n, stream 2)".
std::shared_ptr<Operation> submit(Driver& d, Stream& stream, Work work, const std::string& what,
                                  const Operations& after = {});
/// The same without a stream: a node of a launched graph.
std::shared_ptr<Operation> submit_after(Driver& d, const std::shared_ptr<Context>& context,
                                        std::size_t component, Work work, const std::string& what,
                                        const std::string& where, const Operations& after);
/// What an operation appended to `stream` now would come after.
Operations stream_dependencies(Driver& d, Stream& stream);

/// Lets the workers run until these have ended. Does not order the host after them: see see().
void wait_for(Driver& d, std::unique_lock<std::mutex>& lock, const Operations& operations);
/// The host comes after these from now on.
void see(Driver& d, const Operations& operations);
/// A query: lets the workers make some progress.
void nudge(Driver& d);
bool is_done(const std::shared_ptr<Operation>& operation);

/// All streams' last operations.
Operations tails(Driver& d, Context& context);
/// An actor for something that the host does now.
std::shared_ptr<const Actor> host_actor(Driver& d, std::string what);

/// Runs one operation. Called without the mutex (run_work.cpp).
void run_operation(Driver& d, Device& device, Operation& operation);
/// Reports a race, once.
void report_race(Driver& d, const AccessHistory::Race& race);

/// Starts a device's first worker.
void start_workers(Driver& d, Device& device);
/// Waits for what runs, drops what does not, ends the workers.
void stop_workers(Driver& d, std::unique_lock<std::mutex>& lock, Device& device);
/// True in a worker that runs a host function.
bool in_host_function();

}  // namespace emulator
