// What LLVM is told about a GPU.
#pragma once

#include "codegen/emit/compile_module.h"
#include "codegen/nvptx/nvptx_codegen.h"

namespace riffle::codegen {

/// Throws CompileError for a GPU, PTX version or optimisation level that is not in our table.
CodeTarget code_target(const NvptxTarget& target);

}  // namespace riffle::codegen
