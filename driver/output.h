// Where results go: text or, with --json, one object a result, to stdout; progress and errors to
// stderr. Thread-safe: hooks print from their own thread.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace riffle::driver {

using Json = nlohmann::ordered_json;

class Output {
 public:
  struct Options {
    bool json = false;
    bool color = false;          ///< of errors, on stderr
    bool heading_color = false;  ///< of headings on stdout
    bool progress = false;       ///< stderr is a terminal: bars may redraw
    int width = 100;
  };
  explicit Output(Options options) : options_(options) {}

  /// Prints `text` (a newline is added when it lacks one) or, as JSON, `object`.
  void result(const Json& object, std::string_view text);
  /// A remark about what is going on; stderr. `note: …`.
  void note(std::string_view text);
  /// Replaces the progress line on a terminal; prints nothing elsewhere. Empty: clears it.
  void progress(std::string_view line);
  /// An error's line on stderr; as JSON, an object with "error".
  void error(std::string_view where, std::string_view kind, std::string_view message);

  const Options& options() const noexcept { return options_; }

 private:
  void clear_progress();
  Options options_;
  std::mutex mutex_;
  bool progress_shown_ = false;
};

}  // namespace riffle::driver
