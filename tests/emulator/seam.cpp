// Until the PTX parser is linked in.
#include "emulator/ptx/module.h"

namespace emulator::ptx {

__attribute__((weak)) SyntaxError::SyntaxError(int line, std::string what)
    : line(line), text("line " + std::to_string(line) + ": " + what) {}

}  // namespace emulator::ptx
