// The elementary functions, written once against a ScalarBuilder for every target: branch-free
// polynomials that vectorise, no libm. docs/numerics.md has the error bounds and special values.
//
// Every function takes any floating dtype. f32 and f64 have their own code; bf16 and f16 compute in
// f32 and round once to the dtype. The two operands of math_pow have one dtype.
#pragma once

#include "ir/scalar_builder.h"

namespace riffle::ir {

Scalar math_exp(ScalarBuilder& b, Scalar x);
Scalar math_expm1(ScalarBuilder& b, Scalar x);
Scalar math_log(ScalarBuilder& b, Scalar x);
Scalar math_log1p(ScalarBuilder& b, Scalar x);
Scalar math_sin(ScalarBuilder& b, Scalar x);
Scalar math_cos(ScalarBuilder& b, Scalar x);
Scalar math_tanh(ScalarBuilder& b, Scalar x);
Scalar math_erf(ScalarBuilder& b, Scalar x);
Scalar math_rsqrt(ScalarBuilder& b, Scalar x);
/// Special values as C's pow: pow(x, 0) = pow(1, y) = 1 even for NaN, negative x needs an integer
/// y.
Scalar math_pow(ScalarBuilder& b, Scalar x, Scalar y);

}  // namespace riffle::ir
