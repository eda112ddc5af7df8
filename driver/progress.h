// A progress line: a bar on a terminal, nothing elsewhere (results print their own lines).
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "driver/output.h"

namespace riffle::driver {

class Progress {
 public:
  Progress(Output& output, std::int64_t total, std::string_view what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Redraws at most twenty times a second.
  void advance(std::int64_t amount, std::string_view text);
  /// Rates count from here: each epoch's is its own, without the first one's compiling.
  void restart_clock();
  double rate() const;  ///< units per second since then

 private:
  Output& output_;
  std::int64_t total_, done_ = 0, done_before_ = 0;
  std::string_view what_;
  std::chrono::steady_clock::time_point begin_, drawn_;
};

}  // namespace riffle::driver
