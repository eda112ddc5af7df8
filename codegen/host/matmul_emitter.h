// The parts that emit_matmul is put together from. Start reading at MatmulEmitter::emit in
// matmul.cpp; what the words mean is in matmul_plan.h.
#pragma once

#include <functional>
#include <vector>

#include "codegen/host/emit.h"
#include "codegen/host/loops.h"
#include "codegen/host/matmul_plan.h"

namespace riffle::codegen {

class MatmulEmitter {
 public:
  MatmulEmitter(EmitContext& context, const MatmulBody& body);
  runtime::KernelGeometry emit();

 private:
  /// Where a task stands: set up once a task, read by all parts.
  struct Task {
    std::vector<llvm::Value*> batch;      ///< indices
    llvm::Value *lanes_base, *rows_base;  ///< offsets of the operands' first elements
    llvm::Value *panel_begin, *panel_end, *tile_begin, *tile_end;
  };
  struct Depth {
    llvm::Value *begin, *size;  ///< of the block of k
    llvm::Value* is_last;       ///< i1
  };

  // matmul.cpp
  Task enter_task(llvm::Value* task);
  llvm::Value* pack_panels(const Task& task, const Depth& depth, llvm::Value* packed);
  void groups(const Task& task, const Depth& depth);

  // matmul_pack.cpp
  void pack_panel(const Task& task, const Depth& depth, llvm::Value* panel_start,
                  llvm::Value* destination);
  void pack_tile(const Task& task, const Depth& depth, llvm::Value* tile_start,
                 llvm::Value* destination);

  /// k in the block by vectors: block(k, width), then once block(k, what the shape leaves over).
  void in_steps(const Depth& depth,
                const std::function<void(llvm::Value* k, std::int64_t count)>& block);

  // matmul_tile.cpp
  /// rows × lanes() sums at `sums`: from zero in the first block of k, else continued.
  void register_tile(const Depth& depth, llvm::Value* panel, llvm::Value* rows, llvm::Value* sums,
                     llvm::Value* prefetch);
  /// width vectors of width lanes → their transpose, in registers.
  void transpose(std::vector<llvm::Value*>& block);

  // matmul_epilogue.cpp
  void epilogue(const Task& task, llvm::Value* panel, llvm::Value* first_tile,
                llvm::Value* tile_count, llvm::Value* sums);
  /// Rows [begin, end) of the product against lanes [lane_begin, lane_end), whose sums start at
  /// `sums` with lanes() elements a row.
  void finish_direct(const Task& task, llvm::Value* begin, llvm::Value* end,
                     llvm::Value* lane_begin, llvm::Value* lane_end, llvm::Value* sums);
  void finish_transposed(const Task& task, llvm::Value* begin, llvm::Value* end,
                         llvm::Value* lane_begin, llvm::Value* lane_end, llvm::Value* sums);
  /// One vector of the epilogue: `count` lanes from `source`; all of `width` when that is enough.
  void finish_vector(const Task& task, llvm::Value* lane_index, llvm::Value* row_index,
                     bool lanes_are_m, llvm::Value* count, bool always_full, llvm::Value* source);

  // Small things.
  llvm::Value* number(std::int64_t value) {
    return ir_.getInt64(static_cast<std::uint64_t>(value));
  }
  llvm::Value* add(llvm::Value* a, llvm::Value* b) { return ir_.CreateNSWAdd(a, b); }
  llvm::Value* scaled(llvm::Value* a, std::int64_t factor) {
    return ir_.CreateNSWMul(a, number(factor));
  }
  llvm::Value* least(llvm::Value* a, llvm::Value* b) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }
  llvm::Value* most(llvm::Value* a, llvm::Value* b) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
  }
  llvm::Value* at(llvm::Type* type, llvm::Value* pointer, llvm::Value* index) {
    return ir_.CreateInBoundsGEP(type, pointer, index);
  }
  llvm::Value* scratch_at(std::int64_t bytes) {
    return ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), c_.scratch(), bytes);
  }
  llvm::Align element_align() const;  ///< of the accumulator
  void when(llvm::Value* condition, const std::function<void()>& then,
            const std::function<void()>& otherwise = {});
  /// Elements of `side` at `address` (memory form) as accumulators; the first `count` lanes.
  llvm::Value* load_converted(const MatmulPlan::Operand& side, llvm::Value* address, int width,
                              std::int64_t count);

  EmitContext& c_;
  llvm::IRBuilder<>& ir_;
  const MatmulBody& body_;
  MatmulPlan plan_;
  llvm::Type* element_ = nullptr;  ///< the accumulator's
  llvm::Type* vector_ = nullptr;   ///< width of them
  llvm::Value* lanes_operand_ = nullptr;
  llvm::Value* rows_operand_ = nullptr;
};

}  // namespace riffle::codegen
