// Golden files: tests/FOLDER/golden/NAME holds what a text must be.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace riffle::test {

/// `path` is relative to tests/. With RIFFLE_UPDATE_GOLDEN set the file is written instead: look at
/// the difference before committing it.
inline void expect_golden(const std::string& actual, const std::string& path) {
  const std::string full = std::string(RIFFLE_SOURCE_DIR) + "/tests/" + path;
  if (std::getenv("RIFFLE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream file(full, std::ios::binary);
    file << actual;
    ASSERT_TRUE(file.good()) << "cannot write " << full;
    return;
  }
  std::ifstream file(full, std::ios::binary);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(actual, expected.str()) << "differs from " << full;
}

}  // namespace riffle::test
