#include "codegen/nvptx/matmul_tiles.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "riffle/error.h"

namespace riffle::codegen {
namespace {

/// `cost`: time an element, relative to the largest tile on a full GPU. Smaller tiles read shared
/// memory more often for each multiply-add; they win when the large ones leave processors idle.
struct Row {
  MatmulTile tile;
  double cost;
};
constexpr std::array kFourBytes = {
    Row{{128, 128, 8, 8, 8}, 1.0}, Row{{128, 64, 16, 8, 4}, 1.15}, Row{{64, 128, 16, 4, 8}, 1.15},
    Row{{64, 64, 16, 4, 4}, 1.4},  Row{{32, 64, 32, 2, 4}, 1.9},   Row{{64, 32, 32, 4, 2}, 1.9},
    Row{{32, 32, 32, 2, 2}, 2.6},  Row{{16, 64, 32, 1, 4}, 3.0},   Row{{64, 16, 32, 4, 1}, 3.0},
    Row{{16, 16, 32, 1, 1}, 5.0},
};
constexpr std::array kEightBytes = {
    Row{{64, 64, 8, 4, 4}, 1.0},  Row{{32, 64, 16, 2, 4}, 1.3}, Row{{64, 32, 16, 4, 2}, 1.3},
    Row{{32, 32, 16, 2, 2}, 1.8}, Row{{16, 16, 16, 1, 1}, 3.5},
};

/// Streaming multiprocessors of a common GPU of that generation.
std::int64_t processors(int sm) {
  return sm >= 90 ? 132 : sm == 89 ? 128 : sm >= 86 ? 84 : sm >= 80 ? 108 : 68;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

MatmulTile choose_tile(const MatmulBody& body, std::int64_t batches, std::int64_t element, int sm) {
  const Row* best = nullptr;
  double best_time = std::numeric_limits<double>::infinity();
  auto consider = [&](const Row& row) {
    const std::int64_t blocks =
        batches * divide_up(body.m, row.tile.bm) * divide_up(body.n, row.tile.bn);
    const double time = static_cast<double>(divide_up(blocks, processors(sm))) *
                        static_cast<double>(row.tile.bm * row.tile.bn) * row.cost;
    if (time < best_time) best = &row, best_time = time;
  };
  if (element == 8)
    std::ranges::for_each(kEightBytes, consider);
  else
    std::ranges::for_each(kFourBytes, consider);
  return best->tile;
}

/// Elements of one access: as many as 16 bytes hold, every access aligned, inside or outside as a
/// whole, and an equal number for each thread.
std::int64_t access_of(const TileLoad& load, bool along_outer, std::int64_t k,
                       std::int64_t threads) {
  const std::int64_t stride = along_outer ? load.outer_stride : load.depth_stride;
  if (stride != 1) return 1;
  std::int64_t multiple =
      std::gcd(load.offset, along_outer ? load.depth_stride : load.outer_stride);
  for (std::int64_t batch : load.batch_strides) multiple = std::gcd(multiple, batch);
  multiple = std::gcd(multiple, along_outer ? load.extent : k);
  const std::int64_t side = along_outer ? load.bo : load.bk;
  std::int64_t width = 16 / size_of(load.dtype);
  while (width > 1 &&
         (multiple % width != 0 || side % width != 0 || load.bo * load.bk % (threads * width) != 0))
    width /= 2;
  return width;
}

TileLoad plan_load(const MatmulBody::Side& side, DType dtype, std::int64_t extent,
                   std::int64_t outer_stride, std::int64_t depth_stride, std::int64_t bo,
                   std::int64_t bk, std::int64_t k, std::int64_t threads) {
  TileLoad load{.operand = side.operand,
                .dtype = dtype,
                .offset = side.offset,
                .extent = extent,
                .outer_stride = outer_stride,
                .depth_stride = depth_stride,
                .batch_strides = side.batch_strides,
                .bo = bo,
                .bk = bk};
  const std::int64_t outer = access_of(load, true, k, threads);
  const std::int64_t depth = access_of(load, false, k, threads);
  const bool along_outer =
      outer != depth ? outer > depth : std::abs(outer_stride) <= std::abs(depth_stride);
  load.along = along_outer ? TileLoad::Along::outer : TileLoad::Along::depth;
  load.width = along_outer ? outer : depth;
  load.per_thread = bo * bk / (threads * load.width);
  return load;
}

}  // namespace

DeviceMatmulPlan plan_device_matmul(const MatmulBody& body, DType a, DType b, int sm) {
  if (body.dtype == DType::boolean)
    throw CompileError({.what = "a matmul of booleans is not defined",
                        .where = "matmul",
                        .hint = "cast the operands to i32"});
  DeviceMatmulPlan plan;
  plan.accumulator = compute_dtype(body.dtype);
  plan.batches = element_count(body.batch);
  const std::int64_t element = size_of(plan.accumulator);
  plan.tile = choose_tile(body, plan.batches, element, sm);
  const MatmulTile& t = plan.tile;
  plan.tiles_m = divide_up(body.m, t.bm);
  plan.tiles_n = divide_up(body.n, t.bn);
  plan.group_m = std::min<std::int64_t>(t.tm, 16 / element);
  plan.group_n = std::min<std::int64_t>(t.tn, 16 / element);
  plan.padding = 16 / element;
  plan.a = plan_load(body.a, a, body.m, body.a.row_stride, body.a.column_stride, t.bm, t.bk, body.k,
                     t.threads());
  plan.b = plan_load(body.b, b, body.n, body.b.column_stride, body.b.row_stride, t.bn, t.bk, body.k,
                     t.threads());
  return plan;
}

}  // namespace riffle::codegen
