// Ordering: which commands of a Schedule happen before which, by streams and events.
//
// Vector clocks: of each command, how many commands of every stream are known to be over when it
// begins. Needs a schedule whose references are valid (the verifier checks them first).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/schedule.h"

namespace riffle::runtime {

class Ordering {
 public:
  /// `ignored[i]`: pretend that command i (a Wait) is not there. May be empty.
  explicit Ordering(const Schedule& schedule, const std::vector<bool>& ignored = {});

  /// Is `first` over when `second` begins? A Collective is over only for those behind a Wait for
  /// its event. False for first == second.
  bool before(std::int32_t first, std::int32_t second) const;
  bool ordered(std::int32_t a, std::int32_t b) const { return before(a, b) || before(b, a); }

  /// Of a Wait: the command (Record or Collective) that it waits for; −1 if there is none earlier.
  std::int32_t recorded_by(std::int32_t wait) const { return recorded_by_[wait]; }
  /// Of a Collective: the Waits for it that count.
  std::span<const std::int32_t> waits_for(std::int32_t collective) const;

 private:
  bool begun_before(std::int32_t first, std::int32_t second) const {
    return clocks_[static_cast<std::size_t>(second) * streams_ + stream_[first]] > position_[first];
  }

  std::size_t streams_;
  std::vector<std::int32_t> stream_, position_;  // of each command; position on its stream
  std::vector<std::int32_t> clocks_;             // commands × streams; a command counts itself
  std::vector<std::int32_t> recorded_by_;
  std::vector<std::int32_t> collective_;  // of each command: index into waits_, or −1
  std::vector<std::vector<std::int32_t>> waits_;
};

}  // namespace riffle::runtime
