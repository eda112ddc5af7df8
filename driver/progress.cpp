#include "driver/progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace riffle::driver {
namespace {
using Clock = std::chrono::steady_clock;
constexpr int kBarWidth = 24;
}  // namespace

Progress::Progress(Output& output, std::int64_t total, std::string_view what)
    : output_(output),
      total_(std::max<std::int64_t>(1, total)),
      what_(what),
      begin_(Clock::now()) {}
Progress::~Progress() { output_.progress(""); }

void Progress::restart_clock() {
  begin_ = Clock::now();
  done_before_ = done_;
}

double Progress::rate() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return static_cast<double>(done_ - done_before_) / std::max(seconds, 1e-9);
}

void Progress::advance(std::int64_t amount, std::string_view text) {
  done_ += amount;
  const auto now = Clock::now();
  if (now - drawn_ < std::chrono::milliseconds(50)) return;
  drawn_ = now;
  const auto filled = static_cast<int>(kBarWidth * done_ / total_);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < filled ? "█" : "·";
  output_.progress(fmt::format("{} {} {:3d}%  {}  {:.0f} samples/s", what_, bar,
                               100 * done_ / total_, text, rate()));
}

}  // namespace riffle::driver
