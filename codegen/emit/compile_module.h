// One LLVM module → object bytes or assembler text: the part of code generation that kernels do not
// see.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/check_ir.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace riffle::codegen {

/// What LLVM is told about the machine. Whoever makes one has checked it against tables of ours:
/// LLVM only warns about names that it does not know.
struct CodeTarget {
  std::string triple, cpu, features;
  int opt_level = 3;
  bool is_device = false;  ///< text only; vectors are taken apart except in loads and stores
  int vector_bytes = 16;   ///< CPUs: registers wider than this are not used
  std::string sanitizer;   ///< CPUs: "", "address", "thread"
};

struct ModuleOptions {
  bool optimise = true;
  IrRules rules = IrRules::kernels;
  bool want_text = false;  ///< IR after optimisation, and assembly, instead of an object
};

struct ModuleResult {
  std::vector<std::byte> object;
  std::string llvm_ir, assembly;
};

/// Makes a context and a module for the target, lets `fill` write functions into it, optimises and
/// generates code. Everything LLVM reports, and a fatal error inside LLVM, becomes a CompileError
/// that names `where`. Thread-safe.
ModuleResult compile_module(const CodeTarget& target, const std::string& where,
                            const ModuleOptions& options,
                            const std::function<void(llvm::Module&)>& fill);

/// As compile_module with LLVM IR text: for tests.
ModuleResult compile_text(const CodeTarget& target, const std::string& llvm_ir,
                          const ModuleOptions& options);

/// What a sanitizer's passes call: the only symbols that code may leave undefined, and that are
/// looked up in the process.
bool is_sanitizer_symbol(std::string_view name);

}  // namespace riffle::codegen
