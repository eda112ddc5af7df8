// Hostile PTX for the emulator's parser: a SyntaxError or a module.
#include <string_view>

#include "emulator/ptx/module.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    emulator::ptx::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const emulator::ptx::SyntaxError&) {
  }
  return 0;
}
