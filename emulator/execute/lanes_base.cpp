// The loops of lanes.inl for any machine.
#include <type_traits>

#include "emulator/execute/float16.h"
#include "emulator/execute/lanes.h"
#include "emulator/execute/warp.h"

namespace emulator::base {
#include "emulator/execute/lanes.inl"
}  // namespace emulator::base
