// The code of a partition as text: kernels, LLVM IR, assembly, PTX.
#pragma once

#include <string>

#include "driver/context.h"

namespace riffle::driver {

/// KernelSpecs; on a GPU with the grids that they launch, and registers and spills where ptxas is
/// installed.
std::string kernels_text(Context& context, std::size_t partition);
/// `what`: "llvm", "asm" or "ptx". Throws UsageError, BackendAbsent where the device has no such
/// form.
std::string code_text(Context& context, std::size_t partition, const std::string& what);

}  // namespace riffle::driver
