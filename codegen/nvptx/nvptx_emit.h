// The emitters of a GPU: one or several grids a KernelSpec, each an llvm::Function with the
// parameters that runtime::DeviceLaunch describes (operands…, scratch, status).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/emit/emit.h"
#include "codegen/nvptx/nvptx_codegen.h"

namespace riffle::codegen {

struct NvptxContext : EmitContext {
  const NvptxTarget& target;
  llvm::Value *scratch = nullptr, *status = nullptr;

  /// %tid.x, %ctaid.x … as index_type; `count`: how many there are.
  llvm::Value* thread(std::int64_t count) const;
  llvm::Value* block(std::int64_t count, int dimension = 0) const;
  /// Its number among all threads of a grid of one dimension.
  llvm::Value* thread_of_grid(std::int64_t blocks, std::int64_t threads) const;
  void barrier() const;
  /// An array in the block's shared memory, 16-byte aligned.
  llvm::Value* shared_array(llvm::Type* element, std::int64_t count, const std::string& name) const;
  /// The value of the lane whose number differs in the bits of `bits`; any register type of
  /// scalar_llvm.h, scalar or vector. `members`: an i32 mask of the lanes that take part.
  llvm::Value* shuffle_xor(llvm::Value* value, int bits, llvm::Value* members) const;
  /// An i32: bit n is lane n's condition. All lanes of the warp take part.
  llvm::Value* ballot(llvm::Value* condition) const;
  /// Ends threads where the condition is false; code goes on in the others.
  void keep_threads(llvm::Value* condition) const;
};

struct GridShape {
  std::int64_t blocks[3] = {1, 1, 1};
  std::int64_t threads = 1;
};

/// One grid as the table of runtime::DeviceGrid holds it.
struct Grid {
  std::string symbol;
  GridShape shape;
  std::int64_t shared_bytes = 0;  ///< dynamic
};

/// What a KernelSpec became.
struct DeviceCode {
  std::vector<Grid> grids;  ///< none: nothing to compute
  std::int64_t scratch_bytes = 0;
  double work_ns = 0;  ///< rough time on a mid-sized GPU
};

/// Collects the grids of one KernelSpec.
class DeviceKernelWriter {
 public:
  DeviceKernelWriter(llvm::Module& module, const KernelProgram& program, const KernelSpec& spec,
                     const NvptxTarget& target, std::string symbol);

  /// Writes a function: `body` fills it, ends it with `ret void` and says how it is launched.
  /// Grids run one after the other.
  void grid(const std::function<GridShape(NvptxContext&)>& body);
  DType operand_dtype(std::int32_t operand) const;
  const NvptxTarget& target() const { return target_; }
  /// Device memory that the grids of one launch share; uninitialised.
  void need_scratch(std::int64_t bytes) { code_.scratch_bytes = bytes; }
  DeviceCode finish() { return std::move(code_); }

 private:
  llvm::Module& module_;
  const KernelProgram& program_;
  const KernelSpec& spec_;
  const NvptxTarget& target_;
  std::string symbol_;
  bool narrow_index_;
  DeviceCode code_;
};

void emit_device_loop(DeviceKernelWriter& kernel, const LoopBody& body);
void emit_device_row(DeviceKernelWriter& kernel, const RowBody& body);
void emit_device_matmul(DeviceKernelWriter& kernel, const MatmulBody& body);
void emit_device_scatter(DeviceKernelWriter& kernel, const ScatterBody& body);

/// Loads that are contiguous along another dimension than the stores (transpose.cpp).
struct TurnedLoads {
  std::int32_t across = -1;  ///< that dimension
  std::vector<std::size_t> exprs;
};
TurnedLoads turned_loads(const LoopBody& body, std::int32_t lane_dim);
GridShape emit_transposing_loop(NvptxContext& context, const LoopBody& body, std::int32_t lane_dim,
                                const TurnedLoads& turned);

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The widest vector (elements) along dimension `lane_dim` with which every store and most loads
/// move whole 16-byte pieces, and in which `count` is divisible where `exact` asks for it.
int access_width(const EmitContext& context, std::span<const std::vector<Expr>* const> exprs,
                 std::span<const std::vector<Store>* const> stores, std::int32_t lane_dim,
                 std::int64_t count, bool exact);

/// True when all offsets and counts of the kernel fit in 31 bits.
bool fits_narrow_index(const KernelProgram& program, const KernelSpec& spec);

}  // namespace riffle::codegen
