#include "driver/context.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

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

void on_interrupt(int) {
  const int code = errno;
  interrupt_pending.store(true);
  if (interrupt_pipe[1] >= 0 && write(interrupt_pipe[1], "!", 1) < 0) errno = 0;  // full: enough
  errno = code;
}

std::unique_ptr<Session> make_session(const SessionOptions& options) {
  auto session = std::make_unique<Session>(options);
  jit::cancel_while(*session, interrupt_pending);
  return session;
}

}  // namespace

Context::Context(SessionOptions options, Output& output)
    : output_(output), options_(std::move(options)) {}

Session& Context::session() {
  if (!session_) session_ = make_session(options_);
  return *session_;
}

void Context::set_session_options(SessionOptions options) {
  auto fresh = make_session(options);  // throws before anything is dropped
  executable_.reset();
  partition_line_hooks.clear();  // they went with the executable
  initialised = false;
  session_ = std::move(fresh);
  options_ = std::move(options);
}

void Context::load(Graph graph) {
  constexpr std::size_t kMostRuns = 4;
  if (executable_ && !jit::spans(*executable_).empty()) {
    earlier_runs.push_back(run_report(*this));
    if (earlier_runs.size() > kMostRuns) earlier_runs.erase(earlier_runs.begin());
  }
  executable_.reset();
  graph_ = std::move(graph);
  split_ = {"none"};
  data.reset();
  losses.clear();
  test_accuracy.reset();
  initialised = false;
  partition_line_hooks.clear();
}

const Graph& Context::graph() const {
  if (!graph_)
    throw UsageError({.what = "no graph is loaded",
                      .hint = "load examples/graph_break.rfl, or type a graph at the prompt"});
  return *graph_;
}

void Context::set_split(std::vector<std::string> words) {
  std::unique_ptr<ir::SplitPolicy> policy = ir::make_split_policy(words);
  split_ = std::move(words);
  if (!executable_) return;
  // Parameters, inputs, optimizer and hooks stay as they are: only the cuts change.
  Executable fresh = jit::clone(*executable_, std::move(policy));
  jit::copy_hooks(*executable_, fresh);
  fresh.set_tracing(true);
  *executable_ = std::move(fresh);
}

Executable& Context::executable() {
  if (!executable_) {
    executable_ = std::make_unique<Executable>(
        jit::create(session(), graph(), ir::make_split_policy(split_)));
    executable_->set_tracing(true);
    executable_->set_hooks_at(hooks_at);
  }
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
