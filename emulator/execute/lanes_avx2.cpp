// The loops of lanes.inl for machines with AVX2 and FMA (its flags are set in CMakeLists.txt).
#include <type_traits>

#include "emulator/execute/float16.h"
#include "emulator/execute/lanes.h"
#include "emulator/execute/warp.h"

namespace emulator::avx2 {
#include "emulator/execute/lanes.inl"
}  // namespace emulator::avx2
