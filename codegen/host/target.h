// Checks and questions about a HostTarget, for the emitters.
#pragma once

#include <string_view>

#include "codegen/emit/compile_module.h"
#include "codegen/host/host_codegen.h"

namespace riffle::codegen {

/// Throws CompileError for a triple, CPU, feature or setting that is not in our tables.
void check_target(const HostTarget& target);

/// As LLVM is told.
CodeTarget code_target(const HostTarget& target);

/// Masked loads, stores and gathers are instructions of every element size.
bool has_avx512(const HostTarget& target);

}  // namespace riffle::codegen
