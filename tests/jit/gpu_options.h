// Sessions on the GPU under test.
#pragma once

#include "riffle/session.h"
#include "tests/support/gpu_under_test.h"

namespace riffle::test {

inline SessionOptions gpu_options() {
  return {.device = gpu_under_test(), .cache_directory = "", .kept_modules = 400};
}

}  // namespace riffle::test
