// What generated IR may consist of.
#pragma once

#include <string>

namespace llvm {
class Module;
}

namespace riffle::codegen {

/// Throws CompileError when the module has something that our emitters never write: LLVM answers
/// some of it by a library call, by other bits, or by ending the process.
void check_ir(const llvm::Module& module, const std::string& where);

}  // namespace riffle::codegen
