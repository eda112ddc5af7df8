// Expression lists → LLVM IR: what the emitters of every target share.
//
// A target's emitter makes one llvm::Function (or several) a KernelSpec, fills an EmitContext and
// decides which points are evaluated where; emit_exprs and emit_stores then write the points down.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <span>
#include <vector>

#include "codegen/kernel_spec.h"

namespace riffle::codegen {

/// In what the code for one target differs from another's, as far as expressions see it.
struct EmitTraits {
  bool masked_vectors = true;  ///< masked loads of contiguous vectors are instructions
  bool gathers = false;        ///< so are gathers of 4- and 8-byte elements
  bool maximum_f32 = true;     ///< llvm.maximum and llvm.minimum, which keep NaN, are instructions
  bool maximum_f64 = true;
  /// Load f16 as half: NVPTX packs and unpacks vectors of i16 that become half.
  bool half_loads = false;
};

/// What an emitter works with. The function is open; the insertion point of `ir` is where code
/// goes.
struct EmitContext {
  llvm::Module& module;
  llvm::Function* function;
  llvm::IRBuilder<>& ir;
  const KernelProgram& program;
  const KernelSpec& spec;
  EmitTraits traits;
  /// Of loop indices and element offsets: i64, or i32 where every offset fits.
  llvm::IntegerType* index_type = nullptr;
  std::vector<llvm::Value*> operand_addresses;  ///< available everywhere
  std::vector<llvm::MDNode*> access_tags;       ///< TBAA: operands that cannot overlap differ
  /// Loads of these operands see the same bytes during the whole kernel.
  std::vector<bool> constant_operands;
  std::int64_t operand_alignment = 1;  ///< bytes
  /// Writes the code that puts an i64 index and its bound in the status word.
  std::function<void(llvm::Value* value, std::int64_t size)> report_index;

  llvm::Value* operand(std::int32_t index) const;
  DType operand_dtype(std::int32_t index) const;
  const TensorType& operand_type(std::int32_t index) const;
  /// Tells LLVM which operand a load, a store or a masked intrinsic touches, so that it can move
  /// accesses of different operands past each other.
  void tag(llvm::Value* access, std::int32_t operand) const;
  /// As which type elements are loaded.
  llvm::Type* load_type(DType dtype) const;
  /// An index_type constant.
  llvm::ConstantInt* index(std::int64_t value) const;
};

/// TBAA tags: operands whose bytes may be the same get the same one.
std::vector<llvm::MDNode*> access_tags(llvm::LLVMContext& context, const KernelSpec& spec);

/// How the points of one vector of an expression list are addressed: `width` consecutive values of
/// loop dimension `lane_dim`, starting at indices[lane_dim]; the other dimensions are uniform.
struct Lanes {
  std::vector<llvm::Value*> indices;  ///< index_type, one a loop dimension
  std::int32_t lane_dim = -1;         ///< -1 when width is 1
  int width = 1;
  /// i1 vector of active lanes, or null when all are. Loads and stores of inactive lanes do not
  /// touch memory.
  llvm::Value* mask = nullptr;
  /// indices[lane_dim] is a multiple of it.
  std::int64_t lane_alignment = 1;
};

/// What emit_exprs need not compute: expressions that are known, and ones that nobody asks for.
struct ExprChoice {
  std::vector<llvm::Value*> known;  ///< empty, or one an expression; null: not known
  std::vector<bool> wanted;         ///< empty: all
};
/// The expressions that `ids` depend on, themselves included.
std::vector<bool> dependencies(const std::vector<Expr>& exprs, std::span<const ExprId> ids);

/// Evaluates an expression list; `carried` are the values for Expr::carried (scalars or vectors of
/// `width`; bf16, f16 and bool in the registers' form that scalar_llvm.h documents). Returns one
/// value per expression (null: not wanted); one that is the same in every lane stays a scalar
/// (`widen` makes it a vector, emit_stores takes either). May end in another basic block than it
/// began in (reports of bad indices branch).
std::vector<llvm::Value*> emit_exprs(EmitContext& context, const std::vector<Expr>& exprs,
                                     const Lanes& lanes, std::span<llvm::Value* const> carried,
                                     const ExprChoice& choice = {});
void emit_stores(EmitContext& context, const std::vector<Store>& stores,
                 std::span<llvm::Value* const> values, const std::vector<Expr>& exprs,
                 const Lanes& lanes);
/// `index` (i64, scalar or vector) where it lies in [0, size), else 0 and a report in the status
/// word; lanes where `mask` is false do not report. Null mask: all do.
llvm::Value* checked_index(EmitContext& context, llvm::Value* index, std::int64_t size,
                           llvm::Value* mask);
/// A scalar repeated in every lane; a vector, and anything when width is 1, as it is.
llvm::Value* widen(EmitContext& context, llvm::Value* value, int width);
/// if (condition) body()
void emit_if(EmitContext& context, llvm::Value* condition, const std::function<void()>& body);

/// The largest power of two, at most `limit` bytes, that divides the address of a vector that
/// starts at `affine` in lanes that are addressed as `lanes` says.
std::int64_t alignment_of(const EmitContext& context, std::int32_t operand, const Affine& affine,
                          const Lanes& lanes, std::int64_t limit);

}  // namespace riffle::codegen
