// LlvmScalarBuilder: the ScalarBuilder that emits LLVM IR, on scalars or on fixed vectors.
//
// Two forms of an element:
//
//     dtype   in registers                              in memory
//     f32     float                                     float
//     f64     double                                    double
//     bf16    float whose value is a bf16               i16, the bits
//     f16     float whose value is an f16               i16, the bits
//     i64     i64                                       i64
//     i32     i32                                       i32
//     bool    i1                                        i8, 0 or 1 (any non-zero byte reads as
//     true)
//
// So arithmetic on bf16 and f16 is the f32 instruction and a rounding, and a chain of operations
// converts from and to memory form only at its ends. With width 1 a register is a scalar, otherwise
// a vector of `width` lanes.
//
// No instruction carries a fast-math flag, and fma appears only where it was asked for by name.
// Code relies on hardware for fma, rounding to integers and f16 conversion, because LLVM would
// otherwise call libm: missing_scalar_feature says what a CPU lacks. The bits are those of
// ir/scalar_eval.h.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "ir/scalar_builder.h"

namespace llvm {
class MCSubtargetInfo;
}

namespace riffle::codegen {

/// The element type of `dtype` in registers and in memory (see above), for one lane.
llvm::Type* register_type(llvm::LLVMContext& context, DType dtype);
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype);
/// <width x type>, or the type itself for width 1.
llvm::Type* with_width(llvm::Type* type, int width);

/// The feature ("fma", "f16c") that the code of this builder needs and the CPU lacks; empty if
/// none.
std::string missing_scalar_feature(const llvm::MCSubtargetInfo& subtarget,
                                   const std::string& triple);

/// Emits at the insertion point of `ir`, which must outlive it. Cheap to make.
class LlvmScalarBuilder final : public ir::ScalarBuilder {
 public:
  LlvmScalarBuilder(llvm::IRBuilder<>& ir, int width) : ir_(ir), width_(width) {}

  int width() const noexcept { return width_; }

  /// A value in register form as a Scalar, and back.
  static ir::Scalar wrap(llvm::Value* value, DType dtype) { return {value, dtype}; }
  static llvm::Value* unwrap(ir::Scalar a) { return static_cast<llvm::Value*>(a.handle); }
  /// One lane in register form → all lanes.
  ir::Scalar splat(llvm::Value* value, DType dtype);
  /// Memory form (scalar or vector, as wide as this builder; f16 also as half) → register form, and
  /// back. to_memory
  /// of a bf16 or f16 does not round: in register form the value is already rounded.
  ir::Scalar from_memory(llvm::Value* value, DType dtype);
  llvm::Value* to_memory(ir::Scalar a);

  llvm::Type* register_type(DType dtype) const;
  llvm::Type* memory_type(DType dtype) const;

  ir::Scalar constant(DType dtype, double value) override;
  ir::Scalar constant_bits(DType dtype, std::uint64_t bits) override;
  ir::Scalar add(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar sub(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar mul(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar div(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar neg(ir::Scalar a) override;
  ir::Scalar abs(ir::Scalar a) override;
  ir::Scalar sqrt(ir::Scalar a) override;
  ir::Scalar floor(ir::Scalar a) override;
  ir::Scalar round_even(ir::Scalar a) override;
  ir::Scalar fma(ir::Scalar a, ir::Scalar b, ir::Scalar c) override;
  ir::Scalar compare(ir::Compare how, ir::Scalar a, ir::Scalar b) override;
  ir::Scalar select(ir::Scalar condition, ir::Scalar a, ir::Scalar b) override;
  ir::Scalar bit_and(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar bit_or(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar bit_xor(ir::Scalar a, ir::Scalar b) override;
  ir::Scalar shift_left(ir::Scalar a, int bits) override;
  ir::Scalar shift_right(ir::Scalar a, int bits) override;
  ir::Scalar shift_right_arithmetic(ir::Scalar a, int bits) override;
  ir::Scalar cast(ir::Scalar a, DType to) override;
  ir::Scalar bitcast(ir::Scalar a, DType to) override;

 private:
  /// An f32 register rounded to `dtype` (bf16, f16), or unchanged for the other dtypes.
  ir::Scalar rounded(llvm::Value* value, DType dtype);
  llvm::Value* round_to_bf16(llvm::Value* value);
  llvm::Value* narrow_f64_to_odd(llvm::Value* value);
  llvm::Value* integer(DType dtype, std::uint64_t value) const;

  llvm::IRBuilder<>& ir_;
  int width_;
};

}  // namespace riffle::codegen
