#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "riffle/error.h"
#include "support/file_descriptor.h"

namespace riffle::io {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int code,
                       std::string hint = {}) {
  throw IoError({.what = what + ": " + std::strerror(code),
                 .where = path,
                 .hint = std::move(hint),
                 .foreign = strerrorname_np(code) ? strerrorname_np(code) : ""});
}

/// Owns zlib's state for one gzip file.
struct Inflater {
  Inflater() : started(inflateInit2(&stream, 15 + 16) == Z_OK) {}
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
  bool started;
};
constexpr std::size_t kMostFed = std::size_t{1} << 30;  // at once: zlib counts in 32 bits

}  // namespace

std::vector<std::byte> read_file(const std::string& path, std::int64_t most_bytes) {
  FileDescriptor file(path, O_RDONLY | O_NONBLOCK);  // or a FIFO would wait for its writer
  if (!file) fail("cannot open", path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("cannot look at", path, errno);
  if (!S_ISREG(status.st_mode)) throw IoError({.what = "is not a regular file", .where = path});
  if (status.st_size > most_bytes)
    throw IoError({.what = "is too large: " + std::to_string(status.st_size) + " bytes, at most " +
                           std::to_string(most_bytes),
                   .where = path});
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  const std::ptrdiff_t filled = read_all(file.get(), bytes);
  if (filled < 0) fail("cannot read", path, errno);
  bytes.resize(static_cast<std::size_t>(filled));  // less when it shrank meanwhile
  return bytes;
}

std::string read_text(const std::string& path, std::int64_t most_bytes) {
  const std::vector<std::byte> bytes = read_file(path, most_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace {

/// Names nothing: of this process, of this call.
std::string free_name_beside(const std::string& target) {
  static std::atomic<unsigned> serial{0};
  for (;;) {
    std::string name =
        target + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(serial.fetch_add(1));
    struct stat status{};
    if (::lstat(name.c_str(), &status) != 0) return name;  // else left by a process that died
  }
}

/// Straight into what cannot be replaced: a device, a pipe.
void write_into(const std::string& path, std::span<const std::byte> bytes) {
  FileDescriptor file(path, O_WRONLY | O_NOCTTY);
  if (!file) fail("cannot write", path, errno);
  int code = write_all(file.get(), bytes);
  if (const int closed = file.close(); code == 0) code = closed;
  if (code != 0) fail("cannot write", path, code);
}

}  // namespace

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  // Renaming over /dev/null would put a file in its place, and over a link would lose the link.
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail("cannot write", path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_into(path, bytes);
  const std::string target = exists ? std::filesystem::canonical(path).string() : path;

  const std::string temporary = free_name_beside(target);
  FileDescriptor file(temporary, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) fail("cannot write", path, errno);
  int code = write_all(file.get(), bytes);
  if (const int closed = file.close(); code == 0) code = closed;
  if (code == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    fail("cannot write", path, code, code == ENOSPC ? "free some disk space" : "");
  }
}

void write_text(const std::string& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

std::vector<std::byte> read_maybe_gzip(const std::string& path, std::int64_t most_bytes) {
  std::vector<std::byte> packed = read_file(path, most_bytes);
  const bool gzip =
      packed.size() >= 2 && packed[0] == std::byte{0x1f} && packed[1] == std::byte{0x8b};
  if (!gzip) return packed;

  Inflater inflater;
  z_stream& stream = inflater.stream;
  if (!inflater.started) throw IoError({.what = "cannot start unpacking", .where = path});
  std::span<const std::byte> left(packed);
  std::vector<std::byte> unpacked, chunk(std::size_t{1} << 16);
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const std::span<const std::byte> next = left.first(std::min(left.size(), kMostFed));
      left = left.subspan(next.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(next.data()));
      stream.avail_in = static_cast<uInt>(next.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = chunk.size() - stream.avail_out;
    if (static_cast<std::int64_t>(unpacked.size() + got) > most_bytes)
      throw IoError(
          {.what = "unpacks to more than " + std::to_string(most_bytes) + " bytes", .where = path});
    unpacked.insert(unpacked.end(), chunk.begin(),
                    chunk.begin() + static_cast<std::ptrdiff_t>(got));
    // A file may be several gzip files, one behind the other.
    if (status == Z_STREAM_END && stream.avail_in + left.size() > 0) status = inflateReset(&stream);
    if (got == 0 && status == Z_OK && stream.avail_in + left.size() == 0) break;
  }
  if (status != Z_STREAM_END)
    throw IoError({.what = "gzip data is damaged or cut short",
                   .where = path,
                   .foreign = "zlib " + std::to_string(status)});
  return unpacked;
}

}  // namespace riffle::io
