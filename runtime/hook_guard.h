// HookGuard: catches a hook that writes bytes which it does not declare (ExecutorOptions).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ordering.h"
#include "runtime/schedule.h"

namespace riffle::runtime {

/// The bytes around a hook that must not change while it runs: all of its operands' buffers, except
/// what it declares to write and what commands that may run at the same time write.
std::vector<ByteRange> guarded_bytes(const Schedule& schedule, const Ordering& ordering,
                                     std::int32_t hook);

/// Checksums of ranges; `base[b]` is the host address of buffer b.
std::vector<std::uint64_t> checksums(const std::vector<ByteRange>& ranges,
                                     const std::vector<std::byte*>& base);

}  // namespace riffle::runtime
