// Hostile safetensors: sizes are checked before anything is allocated.
#include "io/safetensors.h"

#include "fuzz/temporary_file.h"
#include "riffle/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const riffle::fuzz::TemporaryFile file(data, size);
  try {
    riffle::io::read_safetensors(file.path());
  } catch (const riffle::Error&) {
  }
  return 0;
}
