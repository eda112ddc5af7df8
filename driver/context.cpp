#include "driver/context.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <utility>

#include "driver/command.h"
#include "driver/interpreter.h"
#include "driver/report/run_report.h"

namespace riffle::driver {
namespace {

// All that the signal handler touches: it may interrupt any thread at any place, so running steps
// poll this instead of being told.
std::atomic<bool> interrupt_pending{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// A prompt waits for this beside the keyboard: a signal that comes just before a blocking read
// would not interrupt it.
int interrupt_pipe[2] = {-1, -1};

// What runs now may not look for long: a kernel of the emulated GPU cannot be stopped. Then whoever
// asks again, and not by a double stroke, wants the program to end.
constexpr std::int64_t kPatienceMs = 1000;
std::atomic<std::int64_t> first_interrupt_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1000000;
}

void on_interrupt(int) {
  const int code = errno;
  if (!interrupt_pending.exchange(true))
    first_interrupt_ms.store(now_ms());
  else if (now_ms() - first_interrupt_ms.load() >= kPatienceMs) {
    constexpr char kMessage[] = "interrupted twice: ended in the middle of a command\n";
    static_cast<void>(!write(STDERR_FILENO, kMessage, sizeof kMessage - 1));
    _exit(kInterrupted);
  }
  if (interrupt_pipe[1] >= 0 && write(interrupt_pipe[1], "!", 1) < 0) errno = 0;  // full: enough
  errno = code;
}

std::unique_ptr<Session> make_session(const SessionOptions& options) {
  auto session = std::make_unique<Session>(options);
  jit::cancel_while(*session, interrupt_pending);
  return session;
}

/// A CUDA device that cannot be had is an absent back end; one that has no room is not.
std::unique_ptr<Session> make_session_on(const SessionOptions& options) {
  try {
    return make_session(options);
  } catch (const DeviceError& error) {
    if (!options.device.starts_with("cuda")) throw;
    throw BackendAbsent({.what = std::string(error.message()),
                         .where = std::string(error.where()),
                         .hint = std::string(error.hint()),
                         .foreign = std::string(error.foreign())});
  }
}

}  // namespace

Context::Context(SessionOptions options, Output& output)
    : output_(output), options_(std::move(options)) {}

Session& Context::session() {
  if (!session_) session_ = make_session(options_);
  return *session_;
}

void Context::set_session_options(SessionOptions options) {
  // All that may throw comes before anything is dropped.
  auto fresh = options.device == options_.device ? make_session(options) : make_session_on(options);
  if (executable_) go_on_with(jit::clone(*executable_, *fresh, ir::make_split_policy(split_)));
  session_ = std::move(fresh);
  options_ = std::move(options);
}

void Context::keep_run() {
  constexpr std::size_t kMostRuns = 4;
  if (!executable_ || jit::spans(*executable_).empty()) return;
  earlier_runs.push_back(run_report(*this));
  if (earlier_runs.size() > kMostRuns) earlier_runs.erase(earlier_runs.begin());
}

void Context::go_on_with(Executable fresh) {
  jit::continue_from(*executable_, fresh);
  fresh.set_tracing(true);
  keep_run();
  if (!jit::spans(*executable_).empty())
    output_.note(
        "the steps so far stay in the report; timeline, trace, overlap and explain, print and dump "
        "show the next step");
  if (jit::lost_values(*executable_))
    output_.note(
        "the values of the parameters were lost with the device: init or tensors sets them anew");
  else if (jit::has_values(*executable_) && !jit::has_values(fresh))
    output_.note("device null has no values to hand on: init or tensors sets the parameters anew");
  else if (jit::keeps_values(*executable_) && !jit::keeps_values(fresh))
    output_.note("device null keeps no values: those of the parameters are gone");
  for (std::size_t p = 0; p < executable_->partition_count(); ++p)
    if (const auto chosen = jit::backend(*executable_, p);
        chosen != jit::Backend::device &&
        (p >= fresh.partition_count() || jit::backend(fresh, p) != chosen)) {
      output_.note("the partitions are new: all run on the device again; backend K chooses");
      break;
    }
  *executable_ = std::move(fresh);
}

void Context::load(Graph graph) {
  keep_run();
  executable_.reset();
  graph_ = std::move(graph);
  split_ = {"none"};
  data.reset();
  losses.clear();
  test_accuracy.reset();
  partition_line_hooks.clear();
}

const Graph& Context::graph() const {
  if (!graph_)
    throw UsageError({.what = "no graph is loaded",
                      .hint = "load examples/graph_break.rfl, or type a graph at the prompt"});
  return *graph_;
}

void Context::set_split(std::vector<std::string> words) {
  // A policy that does not fit the graph throws here, and the old one stays.
  std::unique_ptr<ir::SplitPolicy> policy = ir::make_split_policy(words);
  if (executable_)
    go_on_with(jit::clone(*executable_, std::move(policy)));
  else
    executable_ = make_executable(std::move(policy));
  split_ = std::move(words);
}

std::unique_ptr<Executable> Context::make_executable(std::unique_ptr<ir::SplitPolicy> policy) {
  auto made = std::make_unique<Executable>(jit::create(session(), graph(), std::move(policy)));
  made->set_tracing(true);
  made->set_hooks_at(hooks_at);
  return made;
}

Executable& Context::executable() {
  if (!executable_) executable_ = make_executable(ir::make_split_policy(split_));
  return *executable_;
}

bool Context::interrupted() const noexcept { return InterruptScope::pending(); }

InterruptScope::InterruptScope() {
  if (pipe2(interrupt_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
    interrupt_pipe[0] = interrupt_pipe[1] = -1;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;
  sigaction(SIGINT, &action, nullptr);
}
InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
  for (int& end : interrupt_pipe)
    if (end >= 0) close(std::exchange(end, -1));
}
bool InterruptScope::pending() noexcept { return interrupt_pending.load(); }
int InterruptScope::descriptor() noexcept { return interrupt_pipe[0]; }
void InterruptScope::clear() noexcept {
  char bytes[64];
  while (interrupt_pipe[0] >= 0 && read(interrupt_pipe[0], bytes, sizeof bytes) > 0) {
  }
  interrupt_pending.store(false);
}

}  // namespace riffle::driver
