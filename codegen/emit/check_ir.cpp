// The list of instructions, types and intrinsics that code generation has been seen to handle.
#include "codegen/emit/check_ir.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "riffle/error.h"

namespace riffle::codegen {
namespace {

[[noreturn]] void reject(const std::string& what, const std::string& where) {
  throw CompileError({.what = "generated IR contains " + what + ", which no kernel may",
                      .where = where,
                      .hint = "this is a bug of riffle; `backend K reference` works around it"});
}

bool is_allowed_type(const llvm::Type* type) {
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
    return vector->getNumElements() <= 1024 && is_allowed_type(vector->getElementType());
  if (const auto* integer = llvm::dyn_cast<llvm::IntegerType>(type))
    return integer->getBitWidth() <= 64;
  if (const auto* array = llvm::dyn_cast<llvm::ArrayType>(type))
    return is_allowed_type(array->getElementType());
  if (const auto* structure = llvm::dyn_cast<llvm::StructType>(type))  // of a compare-and-swap
    return llvm::all_of(structure->elements(), is_allowed_type);
  return type->isFloatTy() || type->isDoubleTy() || type->isHalfTy() || type->isPointerTy() ||
         type->isVoidTy() || type->isLabelTy() || type->isMetadataTy() || type->isTokenTy();
}

bool is_allowed_opcode(unsigned opcode) {
  using llvm::Instruction;
  switch (opcode) {
    case Instruction::Ret:
    case Instruction::Br:
    case Instruction::Switch:
    case Instruction::Unreachable:
    case Instruction::FNeg:
    case Instruction::Add:
    case Instruction::FAdd:
    case Instruction::Sub:
    case Instruction::FSub:
    case Instruction::Mul:
    case Instruction::FMul:
    case Instruction::UDiv:
    case Instruction::SDiv:
    case Instruction::FDiv:
    case Instruction::URem:
    case Instruction::SRem:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::Alloca:
    case Instruction::Load:
    case Instruction::Store:
    case Instruction::GetElementPtr:
    case Instruction::Trunc:
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::FPToSI:
    case Instruction::UIToFP:
    case Instruction::SIToFP:
    case Instruction::FPTrunc:
    case Instruction::FPExt:
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
    case Instruction::BitCast:
    case Instruction::ICmp:
    case Instruction::FCmp:
    case Instruction::PHI:
    case Instruction::Call:
    case Instruction::Select:
    case Instruction::ExtractElement:
    case Instruction::InsertElement:
    case Instruction::ShuffleVector:
    case Instruction::Freeze:
      return true;
    default:
      return false;  // FRem is a call of fmod, among others
  }
}

bool is_allowed_intrinsic(llvm::Intrinsic::ID id) {
  using namespace llvm;
  switch (id) {
    case Intrinsic::fma:
    case Intrinsic::sqrt:
    case Intrinsic::fabs:
    case Intrinsic::floor:
    case Intrinsic::roundeven:
    case Intrinsic::maximum:
    case Intrinsic::minimum:
    case Intrinsic::abs:
    case Intrinsic::smin:
    case Intrinsic::smax:
    case Intrinsic::umin:
    case Intrinsic::umax:
    case Intrinsic::cttz:
    case Intrinsic::ctlz:
    case Intrinsic::fptosi_sat:
    case Intrinsic::masked_load:
    case Intrinsic::masked_store:
    case Intrinsic::masked_gather:
    case Intrinsic::masked_scatter:
    case Intrinsic::vector_reduce_or:
    case Intrinsic::prefetch:
    case Intrinsic::assume:
    case Intrinsic::experimental_noalias_scope_decl:
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
      return true;
    default:
      return false;
  }
}

bool is_device_opcode(unsigned opcode) {
  return opcode == llvm::Instruction::AtomicCmpXchg || opcode == llvm::Instruction::AtomicRMW ||
         opcode == llvm::Instruction::ExtractValue;
}

bool is_device_intrinsic(llvm::Intrinsic::ID id) {
  using namespace llvm;
  switch (id) {
    case Intrinsic::nvvm_read_ptx_sreg_tid_x:
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_y:
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_z:
    case Intrinsic::nvvm_barrier0:
    case Intrinsic::nvvm_shfl_sync_bfly_i32:
    case Intrinsic::nvvm_shfl_sync_idx_i32:
    case Intrinsic::nvvm_vote_ballot_sync:
    case Intrinsic::nvvm_cp_async_cg_shared_global_16:
    case Intrinsic::nvvm_cp_async_cg_shared_global_16_s:
    case Intrinsic::nvvm_cp_async_ca_shared_global_8:
    case Intrinsic::nvvm_cp_async_ca_shared_global_8_s:
    case Intrinsic::nvvm_cp_async_ca_shared_global_4:
    case Intrinsic::nvvm_cp_async_ca_shared_global_4_s:
    case Intrinsic::nvvm_cp_async_commit_group:
    case Intrinsic::nvvm_cp_async_wait_group:
    case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16:
    case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16:
    case Intrinsic::nvvm_f2tf32_rna:
    case Intrinsic::nvvm_mma_m16n8k8_row_col_tf32:
    case Intrinsic::nvvm_mma_m16n8k16_row_col_bf16:
    case Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_ir(const llvm::Module& module, IrRules rules, const std::string& where) {
  if (rules == IrRules::any) return;
  const bool device = rules == IrRules::device_kernels;
  for (const llvm::Function& function : module) {
    if (function.isDeclaration()) {
      if (!function.isIntrinsic()) reject("a call of '" + function.getName().str() + "'", where);
      if (!is_allowed_intrinsic(function.getIntrinsicID()) &&
          !(device && is_device_intrinsic(function.getIntrinsicID())))
        reject("the intrinsic '" + function.getName().str() + "'", where);
      continue;
    }
    const std::string place = where + ", @" + function.getName().str();
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
      const unsigned opcode = instruction.getOpcode();
      if (!is_allowed_opcode(opcode) && !(device && is_device_opcode(opcode)))
        reject(std::string("the instruction '") + instruction.getOpcodeName() + "'", place);
      if (!is_allowed_type(instruction.getType())) reject("a type without a lowering", place);
      for (const llvm::Use& operand : instruction.operands())
        if (!is_allowed_type(operand->getType())) reject("a type without a lowering", place);
      if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) {
        if (call->isInlineAsm()) reject("inline assembly", place);
        if (!call->getCalledFunction() && rules != IrRules::launches)
          reject("an indirect call", place);
      }
      if (llvm::isa<llvm::FPMathOperator>(instruction) && instruction.getFastMathFlags().any())
        reject("fast-math flags", place);
    }
  }
}

}  // namespace riffle::codegen
