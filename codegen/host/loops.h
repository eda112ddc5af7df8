// How a loop over elements becomes vectors and tasks of a CPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen/emit/loops.h"
#include "codegen/host/host_emit.h"

namespace riffle::codegen {

/// Elements of a vector in which a body computes: full registers of its widest common dtype.
int vector_width(const HostTarget& target, std::span<const std::vector<Expr>* const> exprs);

/// width lanes starting at `start`, those below `end` active: an i1 vector.
llvm::Value* lanes_below(HostContext& context, llvm::Value* start, llvm::Value* end, int width);

/// One vector of lanes: its first index, its width and its mask (null: all active).
using LaneStep = std::function<void(llvm::Value* i, int width, llvm::Value* mask)>;
/// [begin, end) in steps of `width`; what is left over runs masked, or one by one where the target
/// masks poorly. `exact`: nothing is ever left over.
void for_lanes(HostContext& context, llvm::Value* begin, llvm::Value* end, int width, bool exact,
               const LaneStep& body);

/// The constant mask of `active` leading lanes, or null when that is all of them.
llvm::Value* leading_lanes(HostContext& context, std::int64_t active, int width);

/// A vector's width for `count` elements: not much wider than there are elements.
int fit_width(const HostTarget& target, int width, std::int64_t count);

/// Elements that make a task worth handing to a thread.
std::int64_t elements_per_task(double element_ns);

/// Rough nanoseconds of one evaluation of each expression on one core, for KernelGeometry.
double cost_ns(const HostTarget& target, const std::vector<Expr>& exprs,
               const std::vector<Store>& stores);

}  // namespace riffle::codegen
