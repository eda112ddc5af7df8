#include "fuzz/temporary_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace riffle::fuzz {

TemporaryFile::TemporaryFile(const std::uint8_t* data, std::size_t size)
    : descriptor_(memfd_create("input", MFD_CLOEXEC)),
      path_("/proc/self/fd/" + std::to_string(descriptor_)) {
  if (descriptor_ < 0) std::abort();
  for (std::size_t done = 0; done < size;) {
    const ssize_t wrote = write(descriptor_, data + done, size - done);
    if (wrote <= 0) std::abort();
    done += static_cast<std::size_t>(wrote);
  }
}
TemporaryFile::~TemporaryFile() { close(descriptor_); }

}  // namespace riffle::fuzz
