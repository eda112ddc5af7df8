// Counted loops over SSA values, and the shape of a kernel's iteration space.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen/emit/emit.h"

namespace riffle::codegen {

using Values = std::vector<llvm::Value*>;
/// Emits one iteration; gets the induction variable and the carried values, returns their next
/// ones.
using LoopStep = std::function<Values(llvm::Value* i, std::span<llvm::Value* const> carried)>;

/// for (i = begin; i < end; i += step), the test at the bottom (LLVM then needs no loop rotation).
/// Returns the carried values after the last iteration.
Values emit_for(EmitContext& context, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                const Values& initial, const LoopStep& body);
/// Without carried values.
void emit_for(EmitContext& context, llvm::Value* begin, llvm::Value* end, std::int64_t step,
              const std::function<void(llvm::Value* i)>& body);

/// Calls `visit` for every affine of a body's parts: what collapsing dimensions must keep equal.
void for_each_affine(std::vector<Expr>& exprs, const std::function<void(Affine&)>& visit);
void for_each_affine(std::vector<Store>& stores, const std::function<void(Affine&)>& visit);

/// Drops dimensions of size 1 and merges neighbours that every affine walks as one. `first` is the
/// affine dimension that shape[0] stands for; dimensions outside the shape are left alone.
void collapse(Shape& shape, std::size_t first, std::span<Affine* const> affines);

/// How well each dimension of the body suits vector lanes; the best one, or -1 when there is none.
/// Counts accesses of stride 1 and penalises strided ones; stores count more.
std::int32_t best_lane_dim(const Shape& shape, std::size_t first,
                           std::span<const std::vector<Expr>* const> exprs,
                           std::span<const std::vector<Store>* const> stores);

/// indices[d] of a row-major linear position.
Values unravel(EmitContext& context, llvm::Value* position, std::span<const std::int64_t> sizes);

}  // namespace riffle::codegen
