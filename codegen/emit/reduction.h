// Accumulators of a row body in LLVM values: codegen/reduction_order.h, on vectors.
//
// Lanes without an element hold a neutral value (−0 for a float sum, −inf for max …): combining
// with it is exact, so they need no test. `start` is that value.
#pragma once

#include <vector>

#include "codegen/emit/emit.h"
#include "codegen/reduction_order.h"

namespace riffle::codegen {

/// One accumulator of `width` lanes; argmax keeps the index beside the value.
struct Accumulated {
  llvm::Value* value = nullptr;
  llvm::Value* index = nullptr;  ///< i64; argmax only
};

class Reducer {
 public:
  Reducer(EmitContext& context, const RowBody::Reduction& reduction)
      : c_(context),
        kind_(reduction.kind),
        result_(reduction.dtype),
        dtype_(compute_dtype(reduction.dtype)) {}

  bool keeps_index() const noexcept { return kind_ == ReduceKind::argmax; }

  /// The neutral value in every lane.
  Accumulated start(int width) const;
  /// Elements in register form of `dtype`, at reduced positions `position`, position + 1, … (as
  /// one lane when `lanes_are_columns`: all lanes at the same position).
  Accumulated elements(llvm::Value* value, DType dtype, llvm::Value* position, int width,
                       bool lanes_are_columns) const;
  /// a ⊕ b, a before b.
  Accumulated combine(const Accumulated& a, const Accumulated& b, int width) const;
  /// Lanes of `b` where the mask holds, else of `a`; a null mask means everywhere.
  Accumulated select(llvm::Value* mask, const Accumulated& b, const Accumulated& a) const;
  /// The tree over kLanes lanes held in vectors of `width` (the missing last ones are neutral).
  Accumulated fold_lanes(std::vector<Accumulated> vectors, int width) const;
  /// Rounded to the result's dtype, in register form; argmax gives the index.
  llvm::Value* finish(const Accumulated& a, int width) const;
  /// The result over no elements.
  llvm::Value* empty() const;

 private:
  llvm::Value* extreme(llvm::Value* a, llvm::Value* b, bool is_max, int width) const;

  EmitContext& c_;
  ReduceKind kind_;
  DType result_, dtype_;
};

}  // namespace riffle::codegen
