#include "support/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace riffle {

FileDescriptor::FileDescriptor(const std::string& path, int flags, mode_t mode) noexcept
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
int FileDescriptor::close() noexcept {
  return ::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno;
}

int write_all(int descriptor, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;  // or it would try for ever
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

std::ptrdiff_t read_all(int descriptor, std::span<std::byte> bytes) noexcept {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return static_cast<std::ptrdiff_t>(filled);
}

}  // namespace riffle
