// Vector clocks: which operations happen before which, by API calls alone. A component is a
// sequence of operations (a stream, a lane of a graph, the host); its ticks count from 1.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

class VectorClock {
 public:
  void join(const VectorClock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }
  void advance(std::size_t component, std::uint64_t tick) {
    if (ticks_.size() <= component) ticks_.resize(component + 1);
    ticks_[component] = std::max(ticks_[component], tick);
  }
  bool covers(std::size_t component, std::uint64_t tick) const {
    return component < ticks_.size() && ticks_[component] >= tick;
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

/// The host's component. All host threads share it: what one has waited for, the others count as
/// having seen, for the emulator cannot see how they tell each other.
inline constexpr std::size_t kHostComponent = 0;

class Components {
 public:
  Components() : ticks_(1) {}
  /// One for a new sequence: an old one that ended, if the host has waited for its end, so that
  /// nothing new is taken to be ordered after it by mistake.
  std::size_t take(const VectorClock& host) {
    for (std::size_t i = 0; i < ended_.size(); ++i) {
      const std::size_t component = ended_[i];
      if (!host.covers(component, ticks_[component])) continue;
      ended_.erase(ended_.begin() + static_cast<std::ptrdiff_t>(i));
      return component;
    }
    ticks_.push_back(0);
    return ticks_.size() - 1;
  }
  void give_back(std::size_t component) { ended_.push_back(component); }
  std::uint64_t next_tick(std::size_t component) { return ++ticks_[component]; }

 private:
  std::vector<std::uint64_t> ticks_;
  std::vector<std::size_t> ended_;
};

}  // namespace emulator
