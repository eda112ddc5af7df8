#include "runtime/device.h"

#include <algorithm>
#include <cstring>

namespace riffle::runtime {

// Memory that the host cannot see is its device's own affair; on the null device nothing is kept
// and zeros come back.
void Buffer::write(std::int64_t offset, std::span<const std::byte> from) {
  if (host() && !from.empty()) std::memcpy(host() + offset, from.data(), from.size());
}

void Buffer::read(std::int64_t offset, std::span<std::byte> to) {
  if (host() && !to.empty())
    std::memcpy(to.data(), host() + offset, to.size());
  else
    std::ranges::fill(to, std::byte{0});
}

void Stream::enqueue_native(std::function<void(void*)>, const Command*) {
  throw DeviceError({.what = "this device's streams are none of a driver's",
                     .hint = "HookStream::call, or a session on device cuda"});
}

}  // namespace riffle::runtime
