// Shared by the host emitters (loop, row, matmul, scatter): one llvm::Function a KernelSpec.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <span>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {

/// What an emitter works with. The function has the HostKernel signature and an open entry block;
/// the emitter fills it, ends it with `ret void`, and returns the geometry.
struct EmitContext {
  llvm::Module& module;
  llvm::Function* function;
  llvm::IRBuilder<>& ir;
  const KernelProgram& program;
  const KernelSpec& spec;
  const HostTarget& target;
  std::vector<llvm::Value*> operand_addresses;  ///< loaded in the entry block
  std::vector<llvm::MDNode*> access_tags;       ///< TBAA: operands that cannot overlap differ

  llvm::Value* task_begin() const { return function->getArg(1); }
  llvm::Value* task_end() const { return function->getArg(2); }
  llvm::Value* scratch() const { return function->getArg(3); }
  llvm::Value* status() const { return function->getArg(4); }
  /// Loads the operand's address (marked invariant, 64-byte aligned; noalias where it may be).
  llvm::Value* operand(std::int32_t index) const;
  DType operand_dtype(std::int32_t index) const;
  const TensorType& operand_type(std::int32_t index) const;
  /// Tells LLVM which operand a load, a store or a masked intrinsic touches, so that it can move
  /// accesses of different operands past each other.
  void tag(llvm::Value* access, std::int32_t operand) const;
};

runtime::KernelGeometry emit_loop(EmitContext& context, const LoopBody& body);
runtime::KernelGeometry emit_row(EmitContext& context, const RowBody& body);
runtime::KernelGeometry emit_matmul(EmitContext& context, const MatmulBody& body);
runtime::KernelGeometry emit_scatter(EmitContext& context, const ScatterBody& body);

/// How the points of one vector of an expression list are addressed: `width` consecutive values of
/// loop dimension `lane_dim`, starting at indices[lane_dim]; the other dimensions are uniform.
struct Lanes {
  std::vector<llvm::Value*> indices;  ///< i64, one a loop dimension
  std::int32_t lane_dim = -1;         ///< -1 when width is 1
  int width = 1;
  /// i1 vector of active lanes, or null when all are. Loads and stores of inactive lanes do not
  /// touch memory.
  llvm::Value* mask = nullptr;
};

/// Evaluates an expression list; `carried` are the values for Expr::carried (scalars or vectors of
/// `width`; bf16, f16 and bool in the registers' form that scalar_llvm.h documents). Returns one
/// value per expression; one that is the same in every lane stays a scalar (`widen` makes it a
/// vector, emit_stores takes either). May end in another basic block than it began in (reports of
/// bad indices branch).
std::vector<llvm::Value*> emit_exprs(EmitContext& context, const std::vector<Expr>& exprs,
                                     const Lanes& lanes, std::span<llvm::Value* const> carried);
void emit_stores(EmitContext& context, const std::vector<Store>& stores,
                 std::span<llvm::Value* const> values, const std::vector<Expr>& exprs,
                 const Lanes& lanes);
/// `index` (i64, scalar or vector) where it lies in [0, size), else 0 and a report in the status
/// word; lanes where `mask` is false do not report. Null mask: all do.
llvm::Value* checked_index(EmitContext& context, llvm::Value* index, std::int64_t size,
                           llvm::Value* mask);
/// A scalar repeated in every lane; a vector, and anything when width is 1, as it is.
llvm::Value* widen(EmitContext& context, llvm::Value* value, int width);

}  // namespace riffle::codegen
