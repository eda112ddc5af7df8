// Which LLVM generates code, and how often it gave up.
#pragma once

#include <cstddef>
#include <string>

namespace riffle::codegen {

/// Fatal errors inside LLVM that were turned into exceptions so far in this process.
std::size_t llvm_fatal_errors() noexcept;
std::string llvm_version();

}  // namespace riffle::codegen
