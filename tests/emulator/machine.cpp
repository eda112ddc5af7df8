#include "tests/emulator/machine.h"

#include <fstream>
#include <sstream>

namespace emulator::testing {

std::string read_data(const std::string& name) {
  std::ifstream file(std::string(RIFFLE_SOURCE_DIR) + "/tests/emulator/data/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace emulator::testing
