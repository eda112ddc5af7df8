// A file in memory that holds one input: what readers of files are fuzzed through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace riffle::fuzz {

class TemporaryFile {
 public:
  TemporaryFile(const std::uint8_t* data, std::size_t size);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace riffle::fuzz
