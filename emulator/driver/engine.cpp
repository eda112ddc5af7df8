// Ties the driver to the PTX parser and the interpreter.
#include "emulator/driver/state.h"

namespace emulator {

Engine default_engine() { return {ptx::parse, run_kernel}; }

}  // namespace emulator
