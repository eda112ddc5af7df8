// The text form: what parses is printed and parsed again to the same graph; everything else is a
// riffle::Error.
#include <cstdlib>
#include <string_view>

#include "ir/passes.h"
#include "ir/text.h"
#include "riffle/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace riffle;
  try {
    const ir::Graph graph =
        ir::parse(std::string_view(reinterpret_cast<const char*>(data), size), "input");
    const std::string text = ir::print(graph);
    if (ir::print(ir::parse(text, "printed")) != text) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
