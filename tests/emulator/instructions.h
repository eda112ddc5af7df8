// One instruction, its inputs and what it must give: rows of the tables of instructions_*_test.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator::testing {

struct Case {
  std::string text;   ///< "add.f32 %d, %a, %b;": uses %d, and of %a, %b, %c what it needs
  std::string types;  ///< of %d, %a, %b, %c: "f32 f32 f32"; a "pred" result gives 0 or 1
  std::vector<std::uint64_t> inputs;
  std::uint64_t expected = 0;
};

/// One module with a kernel for each case: k0, k1, …
std::string module_of(const std::vector<Case>& cases);
/// Runs each case in all lanes of a warp, then in some lanes of one, and compares.
void run_cases(const std::vector<Case>& cases);

}  // namespace emulator::testing
