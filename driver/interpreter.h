// Interpreter: text → commands → results, errors with their place, exit status.
#pragma once

#include <istream>
#include <string>
#include <string_view>

#include "driver/context.h"

namespace riffle::driver {

/// DESIGN's exit statuses.
enum ExitStatus : int {
  kOk = 0,
  kCommandFailed = 1,
  kBadUsage = 2,
  kComparisonFailed = 3,
  kCommunicationFailed = 4,
  kBackendAbsent = 77,
  kInterrupted = 130,
};

class Interpreter {
 public:
  Interpreter(Context& context, bool keep_going) : context_(context), keep_going_(keep_going) {}

  /// Runs commands separated by newlines and semicolons; a graph may stand among them. `name` is
  /// the file's, for places. Returns the status of the first failure, kOk without one. Stops at a
  /// failure unless keep_going.
  int run(std::string_view text, const std::string& name);
  /// For the REPL: one line typed; lines are gathered until an open `{` is closed.
  int run_line(const std::string& line, int line_number);
  bool inside_graph() const noexcept { return !pending_.empty(); }
  void drop_pending() { pending_.clear(); }

 private:
  int run_command(std::string_view text, const std::string& name, int line, int column);

  Context& context_;
  bool keep_going_;
  std::string pending_;  // an unfinished graph typed at the prompt
  int pending_line_ = 1;
};

/// Runs a file's commands in the same context (`source`, scripts). Throws what a command threw.
void run_script(Context& context, const std::string& path);

}  // namespace riffle::driver
