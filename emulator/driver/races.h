// Finds accesses to the same bytes that nothing orders, whatever order they happened to run in.
//
// For each byte range the history holds the last write and the reads since that no later read is
// ordered after (several: one a stream, in the worst case). An access that ran later is a race with
// one of them unless its vector clock covers it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/driver/clock.h"
#include "emulator/memory/device_memory.h"

namespace emulator {

/// Who accesses: an operation, or the host.
struct Actor {
  std::size_t component = 0;
  std::uint64_t tick = 0;
  VectorClock clock;
  std::string what;  ///< "kernel k_add (operation #12, stream 2)"
};

class AccessHistory {
 public:
  struct Race {
    ByteRange range;
    std::shared_ptr<const Actor> before, after;  ///< in the order they ran
    bool before_writes = false, after_writes = false;
  };
  using Found = std::function<void(const Race&)>;

  /// Compares the accesses with those recorded and records them. Calls `found` at most once for
  /// each pair of actors and kind of conflict.
  void record(const std::shared_ptr<const Actor>& actor, const std::vector<ByteRange>& reads,
              const std::vector<ByteRange>& writes, const Found& found);
  /// Compares only, as a write: for a release of memory.
  void check(const std::shared_ptr<const Actor>& actor, ByteRange range, const Found& found) const;
  /// The bytes do not exist any more.
  void forget(ByteRange range);
  void clear() { segments_.clear(); }
  std::size_t segments() const { return segments_.size(); }

 private:
  struct Segment {
    std::uint64_t end = 0;
    std::shared_ptr<const Actor> writer;
    std::vector<std::shared_ptr<const Actor>> readers;
    bool same(const Segment& other) const {
      return writer == other.writer && readers == other.readers;
    }
  };
  using Segments = std::map<std::uint64_t, Segment>;

  Segments::iterator split(std::uint64_t at);
  void compare(const std::shared_ptr<const Actor>& actor, const Segment& segment, ByteRange range,
               bool writes, std::vector<Race>& races) const;
  void access(const std::shared_ptr<const Actor>& actor, ByteRange range, bool writes,
              std::vector<Race>& races);
  void join_neighbours(ByteRange range);

  Segments segments_;
};

}  // namespace emulator
