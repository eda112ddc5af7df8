// Which GPU the CUDA suites run on: the emulated one, or what RIFFLE_TEST_GPU names ("cuda", as
// scripts/gpu_check does on a machine that has one).
#pragma once

#include <cstdlib>
#include <string>

namespace riffle::test {

inline std::string gpu_under_test() {
  const char* name = std::getenv("RIFFLE_TEST_GPU");
  return name == nullptr || *name == '\0' ? "cuda-emulated" : name;
}
inline bool gpu_is_emulated() { return gpu_under_test().starts_with("cuda-emulated"); }

}  // namespace riffle::test
