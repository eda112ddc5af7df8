// ScalarBuilder: the arithmetic that one element of an elementwise op is written in.
//
// The op blocks and ir/math.h write each scalar function once against this interface; code
// generation implements it with LLVM IR (on vectors for the host, on scalars for NVPTX). Every
// operation rounds to the scalar's dtype, to nearest even; nothing is contracted. A Scalar's dtype
// may be any DType; arithmetic on bf16 and f16 computes in f32 and rounds to the dtype, which is
// exact rounding for + − × ÷ and sqrt.
#pragma once

#include <cstdint>

#include "riffle/types.h"

namespace riffle::ir {

/// A handle that only its ScalarBuilder understands (for LLVM: a Value, scalar or vector).
struct Scalar {
  void* handle = nullptr;
  DType dtype = DType::f32;
};

enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge };  // floats: ordered, except ne

class ScalarBuilder {
 public:
  virtual ~ScalarBuilder() = default;

  virtual Scalar constant(DType dtype, double value) = 0;
  /// An i32 or i64 constant, or the float of those bits for f32 (i32 bits) and f64 (i64 bits).
  virtual Scalar constant_bits(DType dtype, std::uint64_t bits) = 0;

  virtual Scalar add(Scalar a, Scalar b) = 0;
  virtual Scalar sub(Scalar a, Scalar b) = 0;
  virtual Scalar mul(Scalar a, Scalar b) = 0;
  virtual Scalar div(Scalar a, Scalar b) = 0;  ///< integers: truncates; x/0 and MIN/-1 give 0
  virtual Scalar neg(Scalar a) = 0;            ///< floats: flips the sign bit
  virtual Scalar abs(Scalar a) = 0;
  virtual Scalar sqrt(Scalar a) = 0;  ///< correctly rounded
  virtual Scalar floor(Scalar a) = 0;
  virtual Scalar round_even(Scalar a) = 0;  ///< to the nearest integer, ties to even
  /// a·b + c rounded once; f32 and f64 only. The only fusion there is, always asked for by name.
  virtual Scalar fma(Scalar a, Scalar b, Scalar c) = 0;

  /// Result is boolean.
  virtual Scalar compare(Compare how, Scalar a, Scalar b) = 0;
  virtual Scalar select(Scalar condition, Scalar a, Scalar b) = 0;
  /// Integers and booleans.
  virtual Scalar bit_and(Scalar a, Scalar b) = 0;
  virtual Scalar bit_or(Scalar a, Scalar b) = 0;
  virtual Scalar bit_xor(Scalar a, Scalar b) = 0;
  virtual Scalar shift_left(Scalar a, int bits) = 0;
  virtual Scalar shift_right(Scalar a, int bits) = 0;  ///< logical
  virtual Scalar shift_right_arithmetic(Scalar a, int bits) = 0;

  /// Numeric conversion, as `to` documents it: float → int truncates and saturates, NaN → 0;
  /// anything → bool is (x != 0); float → narrower float rounds to nearest even, keeps denormals.
  virtual Scalar cast(Scalar a, DType to) = 0;
  /// f32 ↔ i32, f64 ↔ i64.
  virtual Scalar bitcast(Scalar a, DType to) = 0;
};

}  // namespace riffle::ir
