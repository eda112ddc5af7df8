// EvalScalarBuilder: the ScalarBuilder that computes at once, on host numbers, with the very bits
// that generated code gives. For constant folding and for tests of ir/math.h without a JIT.
#pragma once

#include "ir/scalar_builder.h"

namespace riffle::ir {

/// A Scalar's handle holds the value itself: f32, bf16 and f16 as the bits of an f32 (rounded to
/// the dtype), f64 as its bits, integers sign-extended, bool as 0 or 1. Handles need 64-bit
/// pointers.
class EvalScalarBuilder final : public ScalarBuilder {
 public:
  Scalar constant(DType dtype, double value) override;
  Scalar constant_bits(DType dtype, std::uint64_t bits) override;
  Scalar add(Scalar a, Scalar b) override;
  Scalar sub(Scalar a, Scalar b) override;
  Scalar mul(Scalar a, Scalar b) override;
  Scalar div(Scalar a, Scalar b) override;
  Scalar neg(Scalar a) override;
  Scalar abs(Scalar a) override;
  Scalar sqrt(Scalar a) override;
  Scalar floor(Scalar a) override;
  Scalar round_even(Scalar a) override;
  Scalar fma(Scalar a, Scalar b, Scalar c) override;
  Scalar compare(Compare how, Scalar a, Scalar b) override;
  Scalar select(Scalar condition, Scalar a, Scalar b) override;
  Scalar bit_and(Scalar a, Scalar b) override;
  Scalar bit_or(Scalar a, Scalar b) override;
  Scalar bit_xor(Scalar a, Scalar b) override;
  Scalar shift_left(Scalar a, int bits) override;
  Scalar shift_right(Scalar a, int bits) override;
  Scalar shift_right_arithmetic(Scalar a, int bits) override;
  Scalar cast(Scalar a, DType to) override;
  Scalar bitcast(Scalar a, DType to) override;
};

/// An element of `dtype` from its bits in memory (bf16, f16: 16 bits; bool: a byte), and back.
Scalar scalar_from_memory(DType dtype, std::uint64_t bits) noexcept;
std::uint64_t scalar_to_memory(Scalar a) noexcept;

/// The value as a double (i64 beyond 2^53 rounds), for messages, tests and folding.
double scalar_value(Scalar a) noexcept;

}  // namespace riffle::ir
