// LoopBody → one grid: a thread computes one vector of points.
//
// Dimensions that every access walks as one are merged. The dimension along which most accesses are
// contiguous becomes vector lanes, so that neighbouring threads move neighbouring 16-byte pieces.
// Up to kStridedBlocks blocks each thread has one vector; beyond, threads stride over the grid and
// share the set-up of their addresses among several. Loads that are contiguous along another
// dimension go by way of transpose.cpp.
#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kStridedBlocks = 1 << 16;
/// Below so many threads a narrower vector, which makes more of them, is faster.
constexpr std::int64_t kWantedThreads = 1 << 15;

}  // namespace

void emit_device_loop(DeviceKernelWriter& kernel, const LoopBody& original) {
  LoopBody body = original;
  const std::int64_t points = element_count(body.space);
  if (points == 0) return;
  std::vector<Affine*> affines;
  auto collect = [&](Affine& affine) { affines.push_back(&affine); };
  for_each_affine(body.exprs, collect);
  for_each_affine(body.stores, collect);
  collapse(body.space, 0, affines);

  kernel.grid([&](NvptxContext& c) -> GridShape {
    llvm::IRBuilder<>& ir = c.ir;
    const std::vector<Expr>* exprs = &body.exprs;
    const std::vector<Store>* stores = &body.stores;
    const std::int32_t lane_dim = best_lane_dim(body.space, 0, {&exprs, 1}, {&stores, 1});
    const TurnedLoads turned = turned_loads(body, lane_dim);
    if (!turned.exprs.empty()) return emit_transposing_loop(c, body, lane_dim, turned);
    const std::int64_t columns = lane_dim < 0 ? 1 : body.space[static_cast<std::size_t>(lane_dim)];
    const std::int64_t rows = points / columns;
    int width = access_width(c, {&exprs, 1}, {&stores, 1}, lane_dim, columns, rows > 1);
    while (width > 1 && points / width < kWantedThreads) width /= 2;

    Shape row_sizes;
    std::vector<std::size_t> row_dims;
    for (std::size_t d = 0; d < body.space.size(); ++d)
      if (static_cast<std::int32_t>(d) != lane_dim) {
        row_sizes.push_back(body.space[d]);
        row_dims.push_back(d);
      }
    const std::int64_t vectors = columns / width;
    const std::int64_t left = columns - vectors * width;  // only when there is one row
    const std::int64_t items = rows * vectors + left;
    const std::int64_t blocks = divide_up(items, kThreads);
    const GridShape shape{.blocks = {std::min(blocks, kStridedBlocks), 1, 1}, .threads = kThreads};

    auto point = [&](const Values& row, llvm::Value* column, int lanes_wide) {
      Lanes lanes{.indices = Values(body.space.size()),
                  .lane_dim = lanes_wide == 1 ? -1 : lane_dim,
                  .width = lanes_wide,
                  .mask = nullptr,
                  .lane_alignment = lanes_wide};
      for (std::size_t k = 0; k < row_dims.size(); ++k) lanes.indices[row_dims[k]] = row[k];
      if (lane_dim >= 0) lanes.indices[static_cast<std::size_t>(lane_dim)] = column;
      emit_stores(c, body.stores, emit_exprs(c, body.exprs, lanes, {}), body.exprs, lanes);
    };
    auto item = [&](llvm::Value* i) {
      if (rows > 1) {
        llvm::Value* column = vectors == 1 ? c.index(0) : ir.CreateURem(i, c.index(vectors));
        llvm::Value* row = vectors == 1 ? i : ir.CreateUDiv(i, c.index(vectors));
        point(unravel(c, row, row_sizes), ir.CreateNSWMul(column, c.index(width)), width);
        return;
      }
      const Values row(row_dims.size(), c.index(0));
      if (left == 0) return point(row, ir.CreateNSWMul(i, c.index(width)), width);
      llvm::Value* whole = ir.CreateICmpSLT(i, c.index(vectors));
      emit_if(c, whole, [&] { point(row, ir.CreateNSWMul(i, c.index(width)), width); });
      emit_if(c, ir.CreateNot(whole),
              [&] { point(row, ir.CreateNSWAdd(i, c.index(vectors * width - vectors)), 1); });
    };

    llvm::Value* first = c.thread_of_grid(shape.blocks[0], kThreads);
    if (blocks > kStridedBlocks) {
      emit_for(c, first, c.index(items), shape.blocks[0] * kThreads, item);
    } else {
      if (items % kThreads != 0) c.keep_threads(ir.CreateICmpSLT(first, c.index(items)));
      item(first);
    }
    ir.CreateRetVoid();
    return shape;
  });
}

}  // namespace riffle::codegen
