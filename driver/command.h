// A command: one row in a family's table (commands_*.cpp), from which dispatch, `help` and
// completion follow.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/context.h"

namespace riffle::driver {

/// Words after the command's name, as typed; quotes removed.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}

  bool empty() const noexcept { return next_ >= words_.size(); }
  std::size_t left() const noexcept { return words_.size() - next_; }
  /// Takes the next word; UsageError naming `what` when there is none.
  std::string take(std::string_view what);
  /// Takes the next word if it is `word`.
  bool take_if(std::string_view word);
  /// Takes `--name VALUE` from anywhere in what is left; the default when it is not there.
  std::string option(std::string_view name, std::string default_value);
  std::int64_t integer_option(std::string_view name, std::int64_t default_value);
  bool has_option(std::string_view name) const;
  std::int64_t take_integer(std::string_view what);
  std::vector<std::string> take_rest();
  /// UsageError when words are left over.
  void finish() const;

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

std::int64_t parse_integer(std::string_view text, std::string_view what);
double parse_number(std::string_view text, std::string_view what);

/// What the words of a command may be, for completion.
enum class Completes : std::uint8_t { nothing, file, words, parameter, value, command };

struct Command {
  std::string_view name, usage, help;
  void (*run)(Context&, Arguments&);
  Completes completes = Completes::nothing;
  /// Words for Completes::words, separated by spaces.
  std::string_view words{};
};

/// A numeric comparison that failed: exit status 3.
class ComparisonFailed : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "ComparisonFailed"; }
};
/// A back end that is asked for and absent: exit status 77.
class BackendAbsent : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "BackendAbsent"; }
};

std::span<const Command> graph_commands();     // load, split, show, print, tensors, dump …
std::span<const Command> training_commands();  // init, data, optimizer, step, train, eval, time
std::span<const Command> hook_commands();      // hook
std::span<const Command> check_commands();     // compare, bisect
std::span<const Command> report_commands();    // trace, report, overlap, explain
std::span<const Command> general_commands();   // set, timer, device, backend, help, quit …

/// All of them, in the order of `help`.
std::vector<const Command*> all_commands();
const Command* find_command(std::string_view name);

}  // namespace riffle::driver
