// Checks and questions about a HostTarget, for the emitters.
#pragma once

#include <string_view>

#include "codegen/host/host_codegen.h"

namespace riffle::codegen {

/// Throws CompileError for a triple, CPU, feature or setting that is not in our tables.
void check_target(const HostTarget& target);

/// Masked loads, stores and gathers are instructions of every element size.
bool has_avx512(const HostTarget& target);

/// What a sanitizer's passes call: the only symbols that code may leave undefined, and that are
/// looked up in the process.
bool is_sanitizer_symbol(std::string_view name);

}  // namespace riffle::codegen
