// What generated IR may consist of.
#pragma once

#include <cstdint>
#include <string>

namespace llvm {
class Module;
}

namespace riffle::codegen {

enum class IrRules : std::uint8_t {
  kernels,         ///< of a CPU
  device_kernels,  ///< of a GPU: also its special registers, barriers, shuffles, compare-and-swap,
                   ///< asynchronous copies, matrix fragments and their products
  launches,        ///< of a CPU; calls through pointers
  any,             ///< unchecked: for tests of what LLVM itself rejects
};

/// Throws CompileError when the module has something that our emitters never write: LLVM answers
/// some of it by a library call, by other bits, or by ending the process.
void check_ir(const llvm::Module& module, IrRules rules, const std::string& where);

}  // namespace riffle::codegen
