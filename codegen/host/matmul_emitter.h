// The parts that emit_matmul is put together from. Start reading at MatmulEmitter::emit in
// matmul.cpp; what the words mean is in matmul_plan.h.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "codegen/host/host_emit.h"
#include "codegen/host/loops.h"
#include "codegen/host/matmul_plan.h"

namespace riffle::codegen {

class MatmulEmitter {
 public:
  MatmulEmitter(HostContext& context, const MatmulBody& body);
  runtime::KernelGeometry emit();

 private:
  /// Where a task stands: set up once a task, read by all parts.
  struct Task {
    std::vector<llvm::Value*> batch;      ///< indices
    llvm::Value *lanes_base, *rows_base;  ///< offsets of the operands' first elements
    llvm::Value *panel_begin, *panel_end, *tile_begin, *tile_end;
  };
  /// Memory to ask for while a register tile works: `step` elements further each step of k.
  struct Prefetch {
    llvm::Type* type = nullptr;
    llvm::Value* base = nullptr;  ///< null: none
    std::int64_t step = 0;
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
  /// All panels of the task, whose lanes lie side by side.
  void copy_panels(const Task& task, const Depth& depth);
  void pack_panel(const Task& task, const Depth& depth, llvm::Value* panel_start,
                  llvm::Value* destination);
  /// Tiles first … first + count - 1, one after the other in the scratch.
  void pack_tiles(const Task& task, const Depth& depth, llvm::Value* first, llvm::Value* count);

  /// k in the block by `step` (a power of two): block(k, step), then block(k, what is left over).
  void in_steps(const Depth& depth, int step,
                const std::function<void(llvm::Value* k, std::int64_t count)>& block);
  /// The columns of a block of `width` rows and square() columns that lie along its rows, as one
  /// vector of accumulators a column; of rows and columns beyond the counts, zeros.
  Values load_columns(DType stored, const std::function<llvm::Value*(int row)>& row_address,
                      std::int64_t rows, std::int64_t columns);
  /// Columns that a block has: as many elements as 16 bytes hold.
  int square() const {
    return std::min(plan_.width, static_cast<int>(16 / size_of(plan_.accumulator)));
  }

  // matmul_tile.cpp
  /// rows × lanes() sums at `sums`: from zero in the first block of k, else continued.
  void register_tile(const Depth& depth, llvm::Value* panel, llvm::Value* rows, llvm::Value* sums,
                     const Prefetch& prefetch);

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
  /// The first lane (or row) of a panel (or tile). The last one starts early rather than end late:
  /// it computes some elements again, which nobody stores.
  llvm::Value* start_of(llvm::Value* index, std::int64_t size, std::int64_t extent);
  llvm::Value* tile_start(llvm::Value* tile) {
    return start_of(tile, plan_.rows, plan_.rows_side.extent);
  }
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

  llvm::Value* first_lanes(int width, std::int64_t count);  ///< a constant mask

  HostContext& c_;
  llvm::IRBuilder<>& ir_;
  const MatmulBody& body_;
  MatmulPlan plan_;
  llvm::Type* element_ = nullptr;  ///< the accumulator's
  llvm::Type* vector_ = nullptr;   ///< width of them
  llvm::Value* lanes_operand_ = nullptr;
  llvm::Value* rows_operand_ = nullptr;
};

}  // namespace riffle::codegen
