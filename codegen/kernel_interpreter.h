// Runs KernelPrograms on host memory, one scalar at a time: the bit-exact oracle for compiled
// kernels, and what fusion is tested with, no LLVM needed.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codegen/kernel_spec.h"
#include "runtime/kernel_abi.h"

namespace riffle::codegen {

/// Runs one kernel. `operands` are the addresses of kernel.operands. Reports out-of-range indices
/// in `status` as compiled kernels do. Single-threaded, slow.
void interpret(const KernelProgram& program, const KernelSpec& kernel,
               std::span<std::byte* const> operands, runtime::KernelStatus& status);

/// Bytes of the outputs, given the bytes of the inputs followed by the parameters. Throws
/// GraphError when a size does not fit, DeviceError when an index is out of range.
std::vector<std::vector<std::byte>> interpret(
    const KernelProgram& program, std::span<const std::vector<std::byte>> inputs_then_parameters);

}  // namespace riffle::codegen
