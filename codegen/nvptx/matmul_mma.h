// How a matmul of bf16 or f16, and of f32 where tf32 is asked for, is cut for tensor cores: decided
// from its shape, strides and the GPU.
//
// Bits depend on m·n, k and the dtype alone, never on strides or on the GPU: a value that crosses a
// cut may lie otherwise than one that does not, and the results must be the same. So every matmul
// whose dtype is bf16 or f16 goes this way on GPUs that can, whatever its strides; each sum is one
// chain of mma instructions in increasing k, 16 terms each (tf32: 8); and `splits`, which breaks
// the chain, comes from the shape alone. Without tf32 a matmul whose dtype is f32 never goes this
// way, even where its operands' slots are narrower: in another split the conversion may be another
// partition's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/kernel_spec.h"
#include "codegen/nvptx/nvptx_codegen.h"

namespace riffle::codegen {

/// A block of threads computes bm × bn elements, bk steps of k at a time, `stages` tiles of the
/// operands being in shared memory or on their way to it. Its warps lie warps_m × warps_n.
struct MmaTile {
  std::int64_t bm = 0, bn = 0, bk = 0, warps_m = 0, warps_n = 0, stages = 0;
  std::int64_t threads() const { return 32 * warps_m * warps_n; }
  std::int64_t warp_rows() const { return bm / warps_m; }
  std::int64_t warp_columns() const { return bn / warps_n; }
};

/// One operand; `outer` stands for m or n, `depth` for k. Shared memory holds rows of 16-byte
/// chunks, along the dimension in which the operand lies side by side; the chunks of a row are
/// permuted (swizzle) so that 8 rows' chunks lie in different banks.
struct MmaLoad {
  std::int32_t operand = -1;
  DType dtype = DType::bf16;            ///< in memory
  std::int64_t offset = 0, extent = 0;  ///< extent: m or n
  std::int64_t outer_stride = 0, depth_stride = 0;
  std::vector<std::int64_t> batch_strides;
  bool along_outer = false;  ///< chunks lie along m or n, otherwise along k
  std::int64_t rows = 0;     ///< of chunks in a tile
  std::int64_t chunks = 0;   ///< in a row: 4, 8, 16 or 32
  /// Elements copied at once, by cp.async; 0: one after the other by loads and a store, what lies
  /// at odd places or is of another dtype.
  std::int64_t piece = 0;
  std::int64_t bytes() const { return rows * chunks * 16; }
};

struct MmaPlan {
  DType dtype = DType::bf16;  ///< in shared memory; f32 is rounded to tf32 on the way to registers
  MmaTile tile;
  /// Columns of the product are the rows that the tile speaks of: the result lies side by side
  /// along m.
  bool swapped = false;
  MmaLoad a, b;  ///< swapped: of the matmul's B and A
  std::int64_t rows = 0, columns = 0, k = 0;
  std::int64_t tiles_m = 0, tiles_n = 0, batches = 0;
  /// The sum over k in `splits` parts of `steps_per_split` · bk (the last may be shorter), added in
  /// order by a second grid.
  std::int64_t splits = 1, steps = 0, steps_per_split = 0;
  std::int64_t chunk() const { return 16 / size_of(dtype); }  ///< elements
  std::int64_t scratch_bytes() const {
    return splits == 1 ? 0 : splits * batches * rows * columns * 4;
  }
};

/// Whether tensor cores compute it. `a`, `b`: the operands' dtypes.
bool suits_mma(const MatmulBody& body, DType a, DType b, const NvptxTarget& target);
MmaPlan plan_mma(const MatmulBody& body, DType a, DType b, int sm, bool swapped);

class DeviceKernelWriter;
/// One grid, or two where the sum is split.
void emit_device_mma(DeviceKernelWriter& kernel, const MatmulBody& body);

}  // namespace riffle::codegen
