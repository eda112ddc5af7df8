// Where the checkout lies: files that tests read. RIFFLE_TEST_SOURCE names it on a machine other
// than the one that built them (scripts/gpu_check).
#pragma once

#include <cstdlib>
#include <string>

namespace riffle::test {

inline std::string source_folder() {
  const char* given = std::getenv("RIFFLE_TEST_SOURCE");
  return given == nullptr || *given == '\0' ? RIFFLE_SOURCE_DIR : given;
}

}  // namespace riffle::test
