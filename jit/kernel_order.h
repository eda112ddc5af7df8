// Questions about a KernelProgram's kernels and slots that placing them in a Schedule asks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel_spec.h"

namespace riffle::jit {

/// The kernels that write each slot, in order: none (inputs, and tensors without elements), one, or
/// several that write disjoint parts (cat).
std::vector<std::vector<std::int32_t>> writers_of(const codegen::KernelProgram& program);

/// May the bytes of `out` be those of `in`? Only if one kernel reads `in` for the last time where,
/// element by element, it writes `out`.
bool may_overwrite(const codegen::KernelProgram& program, std::int32_t out, std::int32_t in);

/// An order of the kernels that may run, in which the slots of `first` are complete as early as
/// they can be, in that order; what none of them needs comes last, in the program's order.
/// Gradients are then ready in the graph's order, and before the cotangent that the next partition
/// waits for, so that their hooks have the longest time to hide.
std::vector<std::int32_t> order_for(const codegen::KernelProgram& program,
                                    std::span<const std::int32_t> first);

}  // namespace riffle::jit
