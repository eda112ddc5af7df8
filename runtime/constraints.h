// Which commands of a Schedule must be ordered, whatever orders them: the conflicts over bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/schedule.h"

namespace riffle::runtime {

/// One command's use of a non-empty range of a buffer, cut along the buffer's bounds.
struct BufferUse {
  std::int32_t command = -1;
  std::int32_t first_segment = 0, end_segment = 0;
  bool reads = false, writes = false, frees = false;
};
/// A buffer cut where any range begins or ends: segment i is [bounds[i], bounds[i + 1]).
struct BufferUses {
  std::vector<std::int64_t> bounds;
  std::vector<BufferUse> uses;  ///< in the order of commands
  std::size_t segments() const { return bounds.empty() ? 0 : bounds.size() - 1; }
};
/// By buffer. The references of the schedule must be valid.
std::vector<BufferUses> uses_by_buffer(const Schedule& schedule);

/// `first` must be over before `second` begins. The bytes are a sample of those in conflict;
/// buffer −1: an opaque hook is concerned.
struct Constraint {
  std::int32_t first = -1, second = -1;
  ByteRange bytes;
};
/// Enough pairs: if all are ordered, so is every conflict. Pairs on one stream are left out.
std::vector<Constraint> constraints(const Schedule& schedule, std::span<const BufferUses> buffers);

}  // namespace riffle::runtime
