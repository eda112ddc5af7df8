#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "codegen/nvptx/matmul_mma.h"

namespace riffle::codegen {
namespace {

/// `cost`: time an element, relative to the largest tile on a full GPU. All fit in the 48 KiB of
/// shared memory that every kernel has; `from`: the GPU from which on a row is considered.
struct Row {
  MmaTile tile;
  double cost;
  int from = 80;
};
constexpr std::array kTiles = {
    Row{{128, 128, 32, 2, 4, 3}, 1.0}, Row{{128, 64, 32, 2, 2, 4}, 1.2},
    Row{{64, 128, 32, 2, 2, 4}, 1.2},  Row{{64, 64, 64, 2, 2, 3}, 1.45, 90},
    Row{{64, 64, 32, 2, 2, 4}, 1.5},   Row{{32, 64, 64, 1, 2, 4}, 2.2},
    Row{{64, 32, 64, 2, 1, 4}, 2.2},   Row{{32, 32, 64, 2, 2, 4}, 3.2},
};
/// Where the sum is split there are few elements and each has many terms.
constexpr MmaTile kSplitTile{64, 64, 32, 2, 2, 4};

/// Parts of a split sum begin at multiples of it; a multiple of every tile's bk.
constexpr std::int64_t kPart = 64;
constexpr std::int64_t kLeastTerms = 512;  ///< of a part; fewer cost more to add than they save
constexpr std::int64_t kMostSplits = 16;
/// Blocks of kSplitTile that fill a GPU. One number for all of them, because it shows in the bits.
constexpr std::int64_t kFull = 128;

/// Streaming multiprocessors of a common GPU of that generation.
std::int64_t processors(int sm) { return sm >= 90 ? 132 : sm == 89 ? 128 : sm >= 86 ? 84 : 108; }

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

MmaTile choose_tile(const MmaPlan& plan, int sm) {
  if (plan.splits > 1) return kSplitTile;
  const Row* best = nullptr;
  double best_time = std::numeric_limits<double>::infinity();
  for (const Row& row : kTiles) {
    if (sm < row.from) continue;
    const std::int64_t blocks =
        plan.batches * divide_up(plan.rows, row.tile.bm) * divide_up(plan.columns, row.tile.bn);
    const double time = static_cast<double>(divide_up(blocks, processors(sm))) *
                        static_cast<double>(row.tile.bm * row.tile.bn) * row.cost;
    if (time < best_time) best = &row, best_time = time;
  }
  return best->tile;
}

MmaLoad plan_load(const MatmulBody::Side& side, DType dtype, std::int64_t extent,
                  std::int64_t outer_stride, std::int64_t depth_stride, std::int64_t block,
                  const MmaPlan& plan) {
  if (extent == 1) outer_stride = 0;  // whatever it was, nothing else is read
  MmaLoad load{.operand = side.operand,
               .dtype = dtype,
               .offset = side.offset,
               .extent = extent,
               .outer_stride = outer_stride,
               .depth_stride = depth_stride,
               .batch_strides = side.batch_strides};
  load.along_outer =
      depth_stride != 1 && (outer_stride == 1 || std::abs(outer_stride) <= std::abs(depth_stride));
  load.rows = load.along_outer ? plan.tile.bk : block;
  load.chunks = (load.along_outer ? block : plan.tile.bk) / plan.chunk();
  if (dtype != plan.dtype) return load;
  // Every piece begins at a multiple of its own size, which is 4, 8 or 16 bytes.
  std::int64_t multiple = std::gcd(load.offset, load.along_outer ? depth_stride : outer_stride);
  for (std::int64_t stride : load.batch_strides) multiple = std::gcd(multiple, stride);
  load.piece = (load.along_outer ? outer_stride : depth_stride) == 1 ? plan.chunk() : 1;
  while (multiple % load.piece != 0) load.piece /= 2;
  if (load.piece * size_of(dtype) < 4) load.piece = 0;
  return load;
}

}  // namespace

bool suits_mma(const MatmulBody& body, DType a, DType b, const NvptxTarget& target) {
  if (target.sm < 80 || body.k == 0) return false;
  const auto fits_tf32 = [](DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  };
  if (body.dtype == DType::f32) return target.tf32 && fits_tf32(a) && fits_tf32(b);
  return (body.dtype == DType::bf16 || body.dtype == DType::f16) && a == body.dtype &&
         b == body.dtype;
}

MmaPlan plan_mma(const MatmulBody& body, DType a_dtype, DType b_dtype, int sm, bool swapped) {
  MmaPlan plan{
      .dtype = body.dtype, .swapped = swapped, .rows = body.m, .columns = body.n, .k = body.k};
  if (swapped) std::swap(plan.rows, plan.columns);
  plan.batches = element_count(body.batch);
  // Elements, not blocks: a batch of rows may have become one taller matrix.
  const std::int64_t blocks =
      divide_up(plan.batches * body.m * body.n, kSplitTile.bm * kSplitTile.bn);
  const std::int64_t wanted = std::min({kFull / blocks, plan.k / kLeastTerms, kMostSplits});
  std::int64_t part = plan.k;
  if (wanted > 1) {
    part = divide_up(divide_up(plan.k, wanted), kPart) * kPart;
    plan.splits = divide_up(plan.k, part);
  }
  plan.tile = choose_tile(plan, sm);
  if (plan.dtype == DType::f32) plan.tile.bk /= 2;  // the same bytes
  const MmaTile& t = plan.tile;
  plan.steps = divide_up(plan.k, t.bk);
  plan.steps_per_split = divide_up(part, t.bk);
  plan.tiles_m = divide_up(plan.rows, t.bm);
  plan.tiles_n = divide_up(plan.columns, t.bn);
  MmaLoad a = plan_load(body.a, a_dtype, body.m, body.a.row_stride, body.a.column_stride,
                        swapped ? t.bn : t.bm, plan);
  MmaLoad b = plan_load(body.b, b_dtype, body.n, body.b.column_stride, body.b.row_stride,
                        swapped ? t.bm : t.bn, plan);
  plan.a = std::move(swapped ? b : a);
  plan.b = std::move(swapped ? a : b);
  return plan;
}

}  // namespace riffle::codegen
