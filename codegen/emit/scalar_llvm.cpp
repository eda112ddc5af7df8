#include "codegen/emit/scalar_llvm.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/TargetParser/Triple.h>

#include <cassert>
#include <cmath>
#include <limits>

#include "riffle/error.h"
#include "support/float16.h"

namespace riffle::codegen {

using ir::Compare;
using ir::Scalar;
using llvm::Value;

namespace {

Value* raw(Scalar a) { return LlvmScalarBuilder::unwrap(a); }

[[noreturn]] void unsupported(const char* operation, DType dtype) {
  throw CompileError({.what = std::string(operation) + " is not defined on " +
                              std::string(name_of(dtype)) + " elements",
                      .where = "code generation",
                      .hint = "cast the operand first"});
}

template <class Integer>
std::uint64_t saturated(double value) {
  if (value != value) return 0;
  // 2^31 and 2^63 are exact in f64; the largest i64 is not.
  const double limit = -static_cast<double>(std::numeric_limits<Integer>::min());
  if (value >= limit) return static_cast<std::uint64_t>(std::numeric_limits<Integer>::max());
  if (value <= -limit) return static_cast<std::uint64_t>(std::numeric_limits<Integer>::min());
  return static_cast<std::uint64_t>(static_cast<Integer>(value));
}

bool is_half(DType d) { return d == DType::bf16 || d == DType::f16; }

}  // namespace

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return llvm::Type::getFloatTy(context);
    case DType::f64:
      return llvm::Type::getDoubleTy(context);
    case DType::i64:
      return llvm::Type::getInt64Ty(context);
    case DType::i32:
      return llvm::Type::getInt32Ty(context);
    case DType::boolean:
      return llvm::Type::getInt1Ty(context);
  }
  llvm_unreachable("all dtypes are handled");
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  if (is_half(dtype)) return llvm::Type::getInt16Ty(context);
  if (dtype == DType::boolean) return llvm::Type::getInt8Ty(context);
  return register_type(context, dtype);
}

llvm::Type* with_width(llvm::Type* type, int width) {
  return width == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(width));
}

std::string missing_scalar_feature(const llvm::MCSubtargetInfo& subtarget,
                                   const std::string& triple) {
  if (!llvm::Triple(triple).isX86()) return {};  // AArch64 and NVPTX have them all
  for (const char* feature : {"fma", "f16c", "sse4.1"})
    if (!subtarget.checkFeatures(std::string("+") + feature)) return feature;
  return {};
}

llvm::Type* LlvmScalarBuilder::register_type(DType dtype) const {
  return with_width(codegen::register_type(ir_.getContext(), dtype), width_);
}
llvm::Type* LlvmScalarBuilder::memory_type(DType dtype) const {
  return with_width(codegen::memory_type(ir_.getContext(), dtype), width_);
}

Value* LlvmScalarBuilder::integer(DType dtype, std::uint64_t value) const {
  return llvm::ConstantInt::get(register_type(dtype), value);
}

Scalar LlvmScalarBuilder::splat(Value* value, DType dtype) {
  return wrap(width_ == 1 ? value : ir_.CreateVectorSplat(static_cast<unsigned>(width_), value),
              dtype);
}

// ---- forms -------------------------------------------------------------------------------------

Scalar LlvmScalarBuilder::from_memory(Value* value, DType dtype) {
  switch (dtype) {
    case DType::bf16: {
      Value* wide = ir_.CreateZExt(value, register_type(DType::i32));
      return wrap(ir_.CreateBitCast(ir_.CreateShl(wide, 16), register_type(DType::f32)), dtype);
    }
    case DType::f16: {
      Value* half = ir_.CreateBitCast(value, with_width(ir_.getHalfTy(), width_));  // or it is one
      return wrap(ir_.CreateFPExt(half, register_type(DType::f32)), dtype);
    }
    case DType::boolean:
      return wrap(ir_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())), dtype);
    default:
      return wrap(value, dtype);
  }
}

Value* LlvmScalarBuilder::to_memory(Scalar a) {
  switch (a.dtype) {
    case DType::bf16: {
      Value* bits = ir_.CreateBitCast(raw(a), register_type(DType::i32));
      return ir_.CreateTrunc(ir_.CreateLShr(bits, 16), memory_type(DType::bf16));
    }
    case DType::f16: {
      Value* half = ir_.CreateFPTrunc(raw(a), with_width(ir_.getHalfTy(), width_));
      return ir_.CreateBitCast(half, memory_type(DType::f16));
    }
    case DType::boolean:
      return ir_.CreateZExt(raw(a), memory_type(DType::boolean));
    default:
      return raw(a);
  }
}

/// Integer code: LLVM's fptrunc to bfloat is vcvtneps2bf16, which flushes denormals, or a call.
Value* LlvmScalarBuilder::round_to_bf16(Value* value) {
  Value* bits = ir_.CreateBitCast(value, register_type(DType::i32));
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(bits, 16), integer(DType::i32, 1));
  Value* up = ir_.CreateAdd(ir_.CreateAdd(bits, integer(DType::i32, 0x7fff)), odd);
  Value* quiet = ir_.CreateOr(bits, integer(DType::i32, 0x00400000));
  Value* chosen = ir_.CreateSelect(ir_.CreateFCmpUNO(value, value), quiet, up);
  Value* kept = ir_.CreateAnd(chosen, integer(DType::i32, 0xffff0000));
  return ir_.CreateBitCast(kept, value->getType());
}

Scalar LlvmScalarBuilder::rounded(Value* value, DType dtype) {
  if (dtype == DType::bf16) value = round_to_bf16(value);
  // vcvtps2ph and NEON's fcvt keep denormals whatever MXCSR and FPCR say.
  if (dtype == DType::f16)
    value = ir_.CreateFPExt(ir_.CreateFPTrunc(value, with_width(ir_.getHalfTy(), width_)),
                            value->getType());
  return wrap(value, dtype);
}

/// f64 → f32 in round-to-odd, so that a rounding to bf16 or f16 that follows is exact
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
Value* LlvmScalarBuilder::narrow_f64_to_odd(Value* value) {
  Value* nearest = ir_.CreateFPTrunc(value, register_type(DType::f32));
  Value* back = ir_.CreateFPExt(nearest, value->getType());
  Value* bits = ir_.CreateBitCast(nearest, register_type(DType::i32));
  Value* magnitude = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
  Value* back_magnitude = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back);
  Value* step = ir_.CreateSelect(ir_.CreateFCmpOLT(back_magnitude, magnitude),
                                 integer(DType::i32, 1), integer(DType::i32, 0xffffffff));
  Value* is_even =
      ir_.CreateICmpEQ(ir_.CreateAnd(bits, integer(DType::i32, 1)), integer(DType::i32, 0));
  Value* adjust = ir_.CreateAnd(is_even, ir_.CreateFCmpONE(back, value));
  Value* chosen = ir_.CreateSelect(adjust, ir_.CreateAdd(bits, step), bits);
  return ir_.CreateBitCast(chosen, nearest->getType());
}

// ---- constants ---------------------------------------------------------------------------------

Scalar LlvmScalarBuilder::constant(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return wrap(
          llvm::ConstantFP::get(register_type(dtype), llvm::APFloat(static_cast<float>(value))),
          dtype);
    case DType::f64:
      return wrap(llvm::ConstantFP::get(register_type(dtype), llvm::APFloat(value)), dtype);
    case DType::bf16:
      return wrap(llvm::ConstantFP::get(register_type(dtype),
                                        llvm::APFloat(bf16_to_f32(f64_to_bf16(value)))),
                  dtype);
    case DType::f16:
      return wrap(
          llvm::ConstantFP::get(register_type(dtype), llvm::APFloat(f16_to_f32(f64_to_f16(value)))),
          dtype);
    case DType::i64:
      return wrap(integer(dtype, saturated<std::int64_t>(value)), dtype);
    case DType::i32:
      return wrap(integer(dtype, saturated<std::int32_t>(value)), dtype);
    case DType::boolean:
      return wrap(integer(dtype, value != 0 ? 1 : 0), dtype);
  }
  llvm_unreachable("all dtypes are handled");
}

Scalar LlvmScalarBuilder::constant_bits(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::i64:
    case DType::i32:
      return wrap(integer(dtype, bits), dtype);
    case DType::f32: {
      const auto low = static_cast<std::uint32_t>(bits);
      return wrap(
          llvm::ConstantFP::get(register_type(dtype),
                                llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, low))),
          dtype);
    }
    case DType::f64:
      return wrap(
          llvm::ConstantFP::get(register_type(dtype),
                                llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits))),
          dtype);
    default:
      unsupported("constant_bits", dtype);
  }
}

// ---- arithmetic --------------------------------------------------------------------------------

Scalar LlvmScalarBuilder::add(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::boolean) return bit_or(a, b);
  if (is_integer(a.dtype)) return wrap(ir_.CreateAdd(raw(a), raw(b)), a.dtype);
  return rounded(ir_.CreateFAdd(raw(a), raw(b)), a.dtype);
}

Scalar LlvmScalarBuilder::sub(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::boolean) unsupported("subtraction", a.dtype);
  if (is_integer(a.dtype)) return wrap(ir_.CreateSub(raw(a), raw(b)), a.dtype);
  return rounded(ir_.CreateFSub(raw(a), raw(b)), a.dtype);
}

Scalar LlvmScalarBuilder::mul(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::boolean) return bit_and(a, b);
  if (is_integer(a.dtype)) return wrap(ir_.CreateMul(raw(a), raw(b)), a.dtype);
  return rounded(ir_.CreateFMul(raw(a), raw(b)), a.dtype);
}

Scalar LlvmScalarBuilder::div(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (a.dtype == DType::boolean) unsupported("division", a.dtype);
  if (is_floating(a.dtype)) return rounded(ir_.CreateFDiv(raw(a), raw(b)), a.dtype);
  // x/0 and MIN/-1 trap in hardware and are undefined in LLVM: divide by 1 there, then give 0.
  const std::uint64_t min = a.dtype == DType::i64 ? 1ULL << 63 : 1ULL << 31;
  Value* zero = ir_.CreateICmpEQ(raw(b), integer(a.dtype, 0));
  Value* overflows = ir_.CreateAnd(
      ir_.CreateICmpEQ(raw(a), integer(a.dtype, min)),
      ir_.CreateICmpEQ(raw(b), llvm::Constant::getAllOnesValue(register_type(a.dtype))));
  Value* bad = ir_.CreateOr(zero, overflows);
  Value* safe = ir_.CreateSelect(bad, integer(a.dtype, 1), raw(b));
  Value* quotient = ir_.CreateSDiv(raw(a), safe);
  return wrap(ir_.CreateSelect(bad, integer(a.dtype, 0), quotient), a.dtype);
}

Scalar LlvmScalarBuilder::neg(Scalar a) {
  if (a.dtype == DType::boolean) unsupported("negation", a.dtype);
  return wrap(is_integer(a.dtype) ? ir_.CreateNeg(raw(a)) : ir_.CreateFNeg(raw(a)), a.dtype);
}

Scalar LlvmScalarBuilder::abs(Scalar a) {
  if (a.dtype == DType::boolean) return a;
  if (is_integer(a.dtype))
    return wrap(ir_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, raw(a), ir_.getFalse()), a.dtype);
  return wrap(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, raw(a)), a.dtype);
}

Scalar LlvmScalarBuilder::sqrt(Scalar a) {
  if (!is_floating(a.dtype)) unsupported("sqrt", a.dtype);
  return rounded(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, raw(a)), a.dtype);
}

// The integer below or nearest to a bf16 or f16 is one too: these need no second rounding.
Scalar LlvmScalarBuilder::floor(Scalar a) {
  if (!is_floating(a.dtype)) return a;
  return wrap(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, raw(a)), a.dtype);
}
Scalar LlvmScalarBuilder::round_even(Scalar a) {
  if (!is_floating(a.dtype)) return a;
  return wrap(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, raw(a)), a.dtype);
}

Scalar LlvmScalarBuilder::fma(Scalar a, Scalar b, Scalar c) {
  assert(a.dtype == b.dtype && b.dtype == c.dtype);
  if (a.dtype != DType::f32 && a.dtype != DType::f64) unsupported("fma", a.dtype);
  return wrap(
      ir_.CreateIntrinsic(llvm::Intrinsic::fma, {raw(a)->getType()}, {raw(a), raw(b), raw(c)}),
      a.dtype);
}

// ---- comparisons, bits -------------------------------------------------------------------------

Scalar LlvmScalarBuilder::compare(Compare how, Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  using P = llvm::CmpInst::Predicate;
  struct Row {
    P floating, is_signed, is_unsigned;
  };
  static constexpr Row rows[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  const Row& row = rows[static_cast<int>(how)];
  const P predicate = is_floating(a.dtype)        ? row.floating
                      : a.dtype == DType::boolean ? row.is_unsigned
                                                  : row.is_signed;
  return wrap(ir_.CreateCmp(predicate, raw(a), raw(b)), DType::boolean);
}

Scalar LlvmScalarBuilder::select(Scalar condition, Scalar a, Scalar b) {
  assert(condition.dtype == DType::boolean && a.dtype == b.dtype);
  return wrap(ir_.CreateSelect(raw(condition), raw(a), raw(b)), a.dtype);
}

Scalar LlvmScalarBuilder::bit_and(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (is_floating(a.dtype)) unsupported("bit_and", a.dtype);
  return wrap(ir_.CreateAnd(raw(a), raw(b)), a.dtype);
}
Scalar LlvmScalarBuilder::bit_or(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (is_floating(a.dtype)) unsupported("bit_or", a.dtype);
  return wrap(ir_.CreateOr(raw(a), raw(b)), a.dtype);
}
Scalar LlvmScalarBuilder::bit_xor(Scalar a, Scalar b) {
  assert(a.dtype == b.dtype);
  if (is_floating(a.dtype)) unsupported("bit_xor", a.dtype);
  return wrap(ir_.CreateXor(raw(a), raw(b)), a.dtype);
}

Scalar LlvmScalarBuilder::shift_left(Scalar a, int bits) {
  if (!is_integer(a.dtype)) unsupported("a shift", a.dtype);
  return wrap(ir_.CreateShl(raw(a), static_cast<std::uint64_t>(bits)), a.dtype);
}
Scalar LlvmScalarBuilder::shift_right(Scalar a, int bits) {
  if (!is_integer(a.dtype)) unsupported("a shift", a.dtype);
  return wrap(ir_.CreateLShr(raw(a), static_cast<std::uint64_t>(bits)), a.dtype);
}
Scalar LlvmScalarBuilder::shift_right_arithmetic(Scalar a, int bits) {
  if (!is_integer(a.dtype)) unsupported("a shift", a.dtype);
  return wrap(ir_.CreateAShr(raw(a), static_cast<std::uint64_t>(bits)), a.dtype);
}

// ---- conversions -------------------------------------------------------------------------------

Scalar LlvmScalarBuilder::cast(Scalar a, DType to) {
  if (a.dtype == to) return a;
  Value* value = raw(a);
  llvm::Type* type = register_type(to);

  if (to == DType::boolean)
    return compare(Compare::ne, a, wrap(llvm::Constant::getNullValue(value->getType()), a.dtype));
  if (a.dtype == DType::boolean)
    return wrap(is_floating(to) ? ir_.CreateUIToFP(value, type) : ir_.CreateZExt(value, type), to);
  if (is_integer(a.dtype)) {
    if (is_integer(to)) return wrap(ir_.CreateSExtOrTrunc(value, type), to);
    if (!is_half(to)) return wrap(ir_.CreateSIToFP(value, type), to);
    // By way of f64, which holds every i32 and all i64 up to 2^53: one rounding.
    return rounded(narrow_f64_to_odd(ir_.CreateSIToFP(value, register_type(DType::f64))), to);
  }
  if (is_integer(to))
    return wrap(ir_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, value->getType()}, {value}),
                to);
  if (to == DType::f64) return wrap(ir_.CreateFPExt(value, type), to);
  if (a.dtype == DType::f64)
    return is_half(to) ? rounded(narrow_f64_to_odd(value), to)
                       : wrap(ir_.CreateFPTrunc(value, type), to);
  return rounded(value, to);
}

Scalar LlvmScalarBuilder::bitcast(Scalar a, DType to) {
  const bool legal =
      (a.dtype == DType::f32 && to == DType::i32) || (a.dtype == DType::i32 && to == DType::f32) ||
      (a.dtype == DType::f64 && to == DType::i64) || (a.dtype == DType::i64 && to == DType::f64);
  if (!legal) unsupported("bitcast", a.dtype);
  return wrap(ir_.CreateBitCast(raw(a), register_type(to)), to);
}

}  // namespace riffle::codegen
