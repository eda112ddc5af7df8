// parse(): text → tree → kernels that can run.
#include "emulator/ptx/module.h"

#include <algorithm>

#include "emulator/execute/decode.h"
#include "emulator/ptx/program.h"
#include "emulator/ptx/syntax.h"

namespace emulator::ptx {
namespace {

constexpr std::uint32_t kMostParameterBytes = 32764;

}  // namespace

Module parse(std::string_view text) {
  SyntaxTree tree = parse_syntax(text);
  Module module;
  module.version_major = tree.version_major;
  module.version_minor = tree.version_minor;
  module.target = tree.target;
  for (const auto& function : tree.functions) {
    if (!function->kernel || !function->defined) continue;
    KernelInfo info;
    info.name = function->name;
    std::uint64_t offset = 0;
    for (Symbol* symbol : function->parameters) {
      offset = (offset + symbol->alignment - 1) / symbol->alignment * symbol->alignment;
      symbol->offset = static_cast<std::uint32_t>(offset);
      info.parameters.push_back(
          {static_cast<std::uint32_t>(symbol->bytes), symbol->alignment, symbol->offset});
      offset += symbol->bytes;
      if (offset > kMostParameterBytes)
        throw SyntaxError(function->line, function->name + " has too many bytes of parameters");
    }
    info.parameter_bytes = static_cast<std::uint32_t>(offset);
    info.registers =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(function->registers, 0xffffffffu));
    if (function->max_threads) info.max_threads = function->max_threads;
    std::copy(std::begin(function->required_threads), std::end(function->required_threads),
              info.required_threads);
    auto kernel = std::make_shared<const Kernel>(decode(tree, *function, module.warnings));
    info.static_shared_bytes = kernel->static_shared_bytes;
    info.local_bytes = kernel->local_bytes;
    module.kernels.push_back(std::move(info));
    module.bodies.push_back(std::move(kernel));
  }
  module.variables = std::move(tree.variables);
  return module;
}

}  // namespace emulator::ptx
