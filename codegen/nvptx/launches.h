// The host object of a partition whose kernels run on a GPU: PTX, tables, launch functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {

/// Writes the table that runtime/kernel_abi.h describes into a module for the host: `codes[i]` is
/// what program.kernels[i] became. Returns the launch functions' names.
std::vector<std::string> emit_launches(llvm::Module& module, const KernelProgram& program,
                                       const NvptxTarget& target, const std::string& prefix,
                                       const std::string& ptx,
                                       const std::vector<DeviceCode>& codes);

}  // namespace riffle::codegen
