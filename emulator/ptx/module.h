// A parsed PTX module: what the assembler's text says, before decoding for execution.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emulator::ptx {

/// Where in the text, for every message. Lines count from 1.
struct SyntaxError : std::exception {
  SyntaxError(int line, std::string what);
  const char* what() const noexcept override { return text.c_str(); }
  int line;
  std::string text;  ///< "line 12: expected ';' after operand, found 'x'"
};

/// A .global or .const variable: allocated by the driver when the module is loaded.
struct Variable {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  std::vector<std::byte> initial;  ///< `bytes` long, or empty: not initialised
};

struct Parameter {
  std::uint32_t bytes = 0, alignment = 1;
  std::uint32_t offset = 0;  ///< in the parameter block that run_kernel takes
};

struct Kernel;  ///< ptx/program.h: registers, blocks, instructions

/// What the driver asks of a kernel.
struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0, local_bytes = 0;
  std::uint32_t registers = 0;       ///< declared 32-bit registers: an upper bound, not ptxas's
  std::uint32_t max_threads = 1024;  ///< .maxntid / .reqntid product, or the device's limit
  std::uint32_t required_threads[3] = {0, 0, 0};  ///< .reqntid; zeros: none
};

struct Module {
  int version_major = 0, version_minor = 0;  ///< .version
  std::string target;                        ///< "sm_80", "sm_90a"
  std::vector<Variable> variables;
  std::vector<KernelInfo> kernels;
  std::vector<std::shared_ptr<const Kernel>> bodies;  ///< parallel to kernels
  std::vector<std::string> warnings;                  ///< un-suffixed f32 mul that feeds an add, …
};

/// Throws SyntaxError. Never crashes on hostile text.
Module parse(std::string_view text);

}  // namespace emulator::ptx
