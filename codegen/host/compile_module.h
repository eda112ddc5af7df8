// One LLVM module → object bytes: the part of host code generation that kernels do not see.
#pragma once

#include <functional>
#include <string>

#include "codegen/host/host_codegen.h"

namespace llvm {
class Module;
class LLVMContext;
}  // namespace llvm

namespace riffle::codegen {

struct ModuleOptions {
  bool optimise = true;
  bool check_ir = true;    ///< false: for tests of what LLVM itself rejects
  bool want_text = false;  ///< IR after optimisation, and assembly, instead of an object
};

struct ModuleResult {
  std::vector<std::byte> object;
  HostText text;
};

/// Makes a context and a module for the target, lets `fill` write functions into it, optimises and
/// generates code. Everything LLVM reports, and a fatal error inside LLVM, becomes a CompileError
/// that names `where`. Thread-safe.
ModuleResult compile_module(const HostTarget& target, const std::string& where,
                            const ModuleOptions& options,
                            const std::function<void(llvm::Module&)>& fill);

/// As compile_module with LLVM IR text: for tests.
ModuleResult compile_text(const HostTarget& target, const std::string& llvm_ir,
                          const ModuleOptions& options);

}  // namespace riffle::codegen
