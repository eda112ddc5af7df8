// Arithmetic of reductions: ranks in order, each step rounded to the type.
#pragma once

#include <cstddef>
#include <span>

#include "emulator/nccl/abi.h"

namespace emulator::nccl {

/// Bytes of an element; 0 for a type that is not known.
std::size_t size_of(ncclDataType_t type) noexcept;
const char* name_of(ncclDataType_t type) noexcept;
const char* name_of_op(ncclRedOp_t op) noexcept;

/// out[i] = in[0][i] op in[1][i] op …, `count` elements. ncclAvg adds, then divides by the number
/// of ranks (whole numbers: towards zero). min and max are NaN where any rank's is.
void reduce(std::span<const std::byte* const> in, std::byte* out, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op) noexcept;

}  // namespace emulator::nccl
