// The order in which a reduction combines its elements: a function of the op's shape alone.
//
// Over reduced index r = 0 … R-1 (row-major over the reduced dimensions):
//  * last dimension kept: acc = x[0]; acc = acc ⊕ x[1]; … one after the other. (Vector lanes run
//    over kept elements.)
//  * last dimension reduced: kLanes accumulators; lane j folds x[j], x[j + kLanes], … starting from
//    its first element; lanes without an element do not take part; then, for width = kLanes/2 …
//    1: lane j = lane j ⊕ lane j + width, where lane j + width < min(R, kLanes) had an element.
//  R = 0 gives the identity: 0 for sum, 1 for prod, −inf / +inf (or the integer limits) for max /
//  min. Accumulators have the value's compute dtype (f32 for bf16 and f16), rounded once at the
//  end. max, min: NaN wins; of −0 and +0 the larger is +0. argmax: the first of equal maxima; NaN
//  is the largest.
#pragma once

#include <cstdint>

namespace riffle::codegen {
inline constexpr std::int64_t kLanes = 64;
}
