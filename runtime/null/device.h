// The null device's own view of what it was asked to do.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace riffle::runtime {

/// Work that reached its turn on a stream since the device was made.
struct NullCounts {
  std::int64_t launches = 0, copies = 0, fills = 0, bytes = 0;  ///< bytes: copied and filled
};
/// `device` must come from make_null_device.
NullCounts null_counts(const Device& device) noexcept;

}  // namespace riffle::runtime
