// How one matmul is cut into tiles, blocks and tasks: all of it decided from the shape, none of it
// changes bits (every element is one chain of fused multiply-adds in increasing k).
//
// The two operands get roles. Vector lanes run along one dimension of the product ("lanes", m or
// n), single elements of the other operand are broadcast ("rows"). The lanes' operand is packed
// into panels of `lanes()` elements a step of k; the rows' operand is read in place where its
// elements lie along k. When one operand is small and the other would have to be transposed, the
// small one becomes the lanes', whichever side it stands on: the large one is then never copied.
//
//   task = (batch, block of panels, block of tiles)
//     for blocks of k:  pack the panels → for groups of tiles: pack the tiles →
//       for panels: for tiles: the register tile → sums;  after the last block of k: the epilogue
#pragma once

#include <cstdint>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {

enum class Packing : std::uint8_t {
  none,        ///< read in place
  contiguous,  ///< lanes or tile rows lie side by side: copied (and converted)
  transposed,  ///< elements lie along k: lanes are transposed block by block, rows copied as rows
  elements,    ///< any strides: one element after the other
};

struct MatmulPlan {
  /// One operand in its role: `along` is the stride of m or n, `deep` that of k, in elements.
  struct Operand {
    std::int32_t operand = -1;
    std::int64_t offset = 0, extent = 0, along = 0, deep = 0;
    std::vector<std::int64_t> batch_strides;
    DType dtype = DType::f32;
    Packing packing = Packing::none;
  };

  DType accumulator = DType::f32;
  Operand lanes_side, rows_side;
  bool lanes_are_m = false;          ///< otherwise the lanes run along n
  bool epilogue_transposes = false;  ///< its lanes run along the rows' dimension

  std::int64_t k = 0, k_block = 0;
  int width = 16, vectors = 4, rows = 6;  ///< the register tile: rows × (vectors · width)
  std::int64_t panels = 0, tiles = 0;     ///< in the whole product
  std::int64_t panel_block = 0, panel_blocks = 0;
  std::int64_t tile_block = 0, tile_blocks = 0, group = 1;  ///< group: tiles between epilogues
  std::int64_t batches = 0, tasks = 0;

  // Scratch, in bytes.
  std::int64_t panels_at = 0, tiles_at = 0, sums_at = 0, corner_at = 0, scratch_bytes = 0;

  std::int64_t lanes() const { return std::int64_t{vectors} * width; }
  std::int64_t k_blocks() const { return k == 0 ? 1 : (k + k_block - 1) / k_block; }
  /// Steps of k that a packed panel or row has room for.
  std::int64_t panel_depth() const { return (k_block + width - 1) / width * width; }
  /// Row stride of rows packed as rows; the extra vector keeps rows out of one cache set.
  std::int64_t packed_row_stride() const { return panel_depth() + width; }
  /// Elements from one packed tile to the next.
  std::int64_t packed_tile_stride() const {
    return rows * (rows_side.packing == Packing::transposed ? packed_row_stride() : panel_depth());
  }
  /// Elements between the tile's rows, and between steps of k, as the register tile reads them.
  std::int64_t row_stride() const;
  std::int64_t row_deep() const;
  std::int64_t panel_deep() const {
    return lanes_side.packing == Packing::none ? lanes_side.deep : lanes();
  }
};

/// `a` and `b`: dtypes of the operands in memory. Throws CompileError for dtypes that have no
/// matmul.
MatmulPlan plan_matmul(const MatmulBody& body, DType a, DType b, const HostTarget& target);

}  // namespace riffle::codegen
