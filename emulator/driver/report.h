// What the emulator noticed: faults of kernels, races, misuse of the API, leaks. One line each,
// what repeats counted.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace emulator {

class Report {
 public:
  /// `kind` is the line's first word: "fault", "race", "misuse", "leak" or "note".
  /// Lines of equal `key` are the same thing noticed again; the first one's text stays.
  void add(const std::string& kind, const std::string& text, const std::string& key = "");
  /// The lines, each ended by a newline.
  std::string text() const;
  /// Lines of a kind; all kinds but notes where `kind` is empty.
  std::size_t count(const std::string& kind) const;
  void clear();

 private:
  struct Line {
    std::string kind, text, key;
    std::size_t times = 1;
  };
  mutable std::mutex mutex_;
  std::vector<Line> lines_;
  std::size_t dropped_ = 0;
};

}  // namespace emulator
