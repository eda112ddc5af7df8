// Whole files: read with a bound, written through a temporary name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace riffle::io {

/// Throws IoError (missing, not a regular file, unreadable, larger than `most_bytes`).
std::vector<std::byte> read_file(const std::string& path,
                                 std::int64_t most_bytes = std::int64_t{1} << 40);
std::string read_text(const std::string& path, std::int64_t most_bytes = std::int64_t{1} << 30);

/// Writes a temporary file beside it, then renames: readers see the old file or the whole new one.
/// A link is followed; a device or a pipe is written into, never replaced.
/// Throws IoError with the system's code and leaves nothing behind.
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_text(const std::string& path, std::string_view text);

/// The content of a gzip file (or of a plain one, unchanged). Throws IoError for damaged or
/// truncated data and when it unpacks to more than `most_bytes`.
std::vector<std::byte> read_maybe_gzip(const std::string& path,
                                       std::int64_t most_bytes = std::int64_t{1} << 32);

}  // namespace riffle::io
