// An open file of the operating system's, for code that answers for its errors itself.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

namespace riffle {

/// Owns a descriptor, closed on exec. Nothing throws: false or errno says what went wrong.
class FileDescriptor {
 public:
  FileDescriptor(const std::string& path, int flags, mode_t mode = 0644) noexcept;
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// 0, or errno: closing is where a full disk may first be reported.
  int close() noexcept;

 private:
  int descriptor_;
};

/// Writes all of it, through interrupts; 0, or errno.
int write_all(int descriptor, std::span<const std::byte> bytes) noexcept;
/// Fills `bytes` or ends at the file's end; the number read, or −1 with errno.
std::ptrdiff_t read_all(int descriptor, std::span<std::byte> bytes) noexcept;

}  // namespace riffle
