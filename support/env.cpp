#include "support/env.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

namespace riffle {
namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"RIFFLE_CACHE_DIR", "where compiled kernels are kept; empty or unset: $XDG_CACHE_HOME/riffle"},
    {"RIFFLE_CPU", "compile for this CPU instead of the host's (a lesser one: x86-64-v3)"},
    {"RIFFLE_PTXAS", "NVIDIA's assembler, for registers and spills in show kernels"},
    {"RIFFLE_THREADS", "number of threads that compute; unset: the cores of this machine"},
    {"RIFFLE_CUDA_DRIVER",
     "libcuda.so.1 to load for device cuda; \"none\": CUDA is off; unset: the system's"},
    {"RIFFLE_EMULATOR", "folder or file of the emulator's libcuda.so.1, for device cuda-emulated"},
    {"RIFFLE_NCCL", "libnccl.so.2 to load for collectives between GPUs; unset: the system's"},
    {"CUDA_VISIBLE_DEVICES", "which GPUs the CUDA driver shows; set and empty: CUDA is off"},
    {"XDG_CACHE_HOME", "base of the kernel cache when RIFFLE_CACHE_DIR is unset"},
    {"HOME", "base of the kernel cache and of the command history when nothing else says"},
    {"PATH", "where ptxas is looked for when RIFFLE_PTXAS is unset"},
    {"NO_COLOR", "set: no colour in output"},
    {"TERM", "\"dumb\": no colour, no progress bar"},
    {"COLUMNS", "width of tables and timelines; unset: the terminal's"},
};

/// getenv of a row; nullptr when unset.
const char* value_of(std::string_view name) {
  const auto* row = std::find_if(std::begin(kVariables), std::end(kVariables),
                                 [&](const EnvironmentVariable& v) { return v.name == name; });
  assert(row != std::end(kVariables) && "not in the table of environment variables");
  if (row == std::end(kVariables)) return nullptr;
  return std::getenv(std::string(row->name).c_str());
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() noexcept { return kVariables; }

std::optional<std::string> environment(std::string_view name) {
  const char* value = value_of(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool environment_is_empty(std::string_view name) {
  const char* value = value_of(name);
  return value != nullptr && *value == '\0';
}

}  // namespace riffle
