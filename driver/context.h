// What a driver's commands share: the session, the loaded graph, its executable, data and settings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/output.h"
#include "io/dataset.h"
#include "jit/session.h"

namespace riffle::driver {

/// Data bound to a graph: which inputs its columns feed, and how it is batched.
struct BoundData {
  io::Dataset data;
  io::TrainTestSplit split;
  std::string features, labels;  ///< names of inputs
  std::int64_t batch = 0;
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  ///< trained so far
};

struct LossPoint {
  std::int64_t step = 0;
  double loss = 0;
};

class Context {
 public:
  Context(SessionOptions options, Output& output);

  Output& output() noexcept { return output_; }
  /// Made on first use, so that `version` and `help` need no device.
  Session& session();
  const SessionOptions& session_options() const noexcept { return options_; }
  /// A change of device, threads, fusion, cache or memory takes a new session. What a user gave and
  /// what was trained goes on in it; a note says what does not. When it throws, nothing changed.
  void set_session_options(SessionOptions options);

  void load(Graph graph);
  /// Cuts anew; all else goes on, or a note says what does not. When it throws (UsageError),
  /// nothing changed.
  void set_split(std::vector<std::string> words);
  const std::vector<std::string>& split_words() const noexcept { return split_; }
  const Graph& graph() const;  ///< UsageError when none is loaded
  /// The loaded graph's executable, created on first use after load, split or a change of device.
  Executable& executable();
  bool has_executable() const noexcept { return executable_ != nullptr; }

  /// Set while a command runs and Ctrl-C came.
  bool interrupted() const noexcept;

  std::optional<BoundData> data;
  std::vector<LossPoint> losses;
  std::vector<Json> earlier_runs;       ///< what a report says of steps before this executable's
  std::optional<double> test_accuracy;  ///< of the last eval on data
  bool timer = false, quit = false;
  HooksAt hooks_at = HooksAt::gradient;  ///< of this executable and those to come
  std::vector<HookId> partition_line_hooks;
  std::vector<std::string> history;  ///< commands as typed
  int scripts_inside = 0;            ///< `source` within `source`

 private:
  std::unique_ptr<Executable> make_executable(std::unique_ptr<ir::SplitPolicy> policy);
  void go_on_with(Executable fresh);
  void keep_run();  ///< for the report, before the executable goes

  Output& output_;
  SessionOptions options_;
  std::vector<std::string> split_ = {"none"};
  std::optional<Graph> graph_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Executable> executable_;
};

/// While it lives, SIGINT cancels the running steps of every Context's session until `clear` (no
/// SA_RESTART, so that blocking reads return too).
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static bool pending() noexcept;
  /// Readable while an interrupt is pending; −1 without one.
  static int descriptor() noexcept;
  static void clear() noexcept;
};

}  // namespace riffle::driver
