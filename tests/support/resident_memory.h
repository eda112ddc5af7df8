// How much memory this process has, for tests of what must not grow. Under a sanitizer
// (sanitizer.h) quarantine and shadow grow on their own: count objects there instead.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace riffle::test {

inline std::int64_t resident_kib() {
  std::int64_t total = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace riffle::test
