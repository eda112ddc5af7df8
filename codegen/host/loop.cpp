// LoopBody → LLVM IR: independent points, cut into tasks of a few microseconds.
//
// Dimensions that every access walks as one are merged; one dimension becomes vector lanes, the
// others rows. A task is a range of rows by a range of lanes. Where a load strides along the lanes
// (a transpose) the range of lanes is short, so that the cache lines it gathers from are still
// there for the next rows.
#include <algorithm>

#include "codegen/host/loops.h"

namespace riffle::codegen {

namespace {
/// Lanes in a task of a body that gathers: their cache lines fit into L1.
constexpr std::int64_t kGatheredLanes = 128;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
}  // namespace

runtime::KernelGeometry emit_loop(HostContext& c, const LoopBody& original) {
  llvm::IRBuilder<>& ir = c.ir;
  LoopBody body = original;
  const std::int64_t points = element_count(body.space);
  if (points == 0) {
    ir.CreateRetVoid();
    return {.tasks = 0};
  }
  std::vector<Affine*> affines;
  auto collect = [&](Affine& affine) { affines.push_back(&affine); };
  for_each_affine(body.exprs, collect);
  for_each_affine(body.stores, collect);
  collapse(body.space, 0, affines);

  const std::vector<Expr>* exprs = &body.exprs;
  const std::vector<Store>* stores = &body.stores;
  const std::int32_t lane_dim = best_lane_dim(body.space, 0, {&exprs, 1}, {&stores, 1});
  const auto lane = static_cast<std::size_t>(lane_dim);
  const std::int64_t columns = lane_dim < 0 ? 1 : body.space[lane];
  const std::int64_t rows = points / columns;
  int width = lane_dim < 0 ? 1 : fit_width(c.target, vector_width(c.target, {&exprs, 1}), columns);

  Shape row_sizes;
  std::vector<std::size_t> row_dims;
  for (std::size_t d = 0; d < body.space.size(); ++d)
    if (static_cast<std::int32_t>(d) != lane_dim) {
      row_sizes.push_back(body.space[d]);
      row_dims.push_back(d);
    }
  const bool gathers = lane_dim >= 0 && std::ranges::any_of(body.exprs, [&](const Expr& expr) {
                         return expr.kind == Expr::Kind::load && expr.address.strides[lane] != 0 &&
                                expr.address.strides[lane] != 1;
                       });

  // A gathered element brings a whole cache line along.
  const double element_ns = cost_ns(c.target, body.exprs, body.stores) + (gathers ? 0.8 : 0.0);
  const std::int64_t per_task = elements_per_task(element_ns);
  const std::int64_t task_columns =
      std::min(columns, gathers ? kGatheredLanes : ceil_div(per_task, 64) * 64);
  const std::int64_t column_blocks = ceil_div(columns, task_columns);
  const std::int64_t task_rows = std::clamp<std::int64_t>(per_task / task_columns, 1, rows);
  const std::int64_t row_blocks = ceil_div(rows, task_rows);

  auto point = [&](const Values& row_indices, llvm::Value* column, int lanes, llvm::Value* mask) {
    Lanes at{.indices = Values(body.space.size()),
             .lane_dim = lanes == 1 ? -1 : lane_dim,
             .width = lanes,
             .mask = mask};
    for (std::size_t k = 0; k < row_dims.size(); ++k) at.indices[row_dims[k]] = row_indices[k];
    if (lane_dim >= 0) at.indices[lane] = column;
    const Values values = emit_exprs(c, body.exprs, at, {});
    emit_stores(c, body.stores, values, body.exprs, at);
  };
  auto constant = [&](std::int64_t v) { return ir.getInt64(static_cast<std::uint64_t>(v)); };
  auto range = [&](llvm::Value* block, std::int64_t size, std::int64_t blocks,
                   std::int64_t total) -> std::pair<llvm::Value*, llvm::Value*> {
    if (blocks == 1) return {constant(0), constant(total)};
    llvm::Value* begin = ir.CreateNSWMul(block, constant(size));
    llvm::Value* end = ir.CreateNSWAdd(begin, constant(size));
    if (total % size != 0)
      end = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, constant(total));
    return {begin, end};
  };

  emit_for(c, c.task_begin(), c.task_end(), 1, [&](llvm::Value* task) {
    llvm::Value* row_block =
        column_blocks == 1 ? task : ir.CreateUDiv(task, constant(column_blocks));
    llvm::Value* column_block = row_blocks == 1      ? task
                                : column_blocks == 1 ? constant(0)
                                                     : ir.CreateURem(task, constant(column_blocks));
    const auto [row_begin, row_end] = range(row_block, task_rows, row_blocks, rows);
    const auto [column_begin, column_end] =
        range(column_block, task_columns, column_blocks, columns);
    emit_for(c, row_begin, row_end, 1, [&](llvm::Value* row) {
      const Values row_indices = unravel(c, row, row_sizes);
      const bool exact = columns % width == 0 && (column_blocks == 1 || task_columns % width == 0);
      for_lanes(c, column_begin, column_end, width, exact,
                [&](llvm::Value* column, int lanes, llvm::Value* mask) {
                  point(row_indices, column, lanes, mask);
                });
    });
  });
  ir.CreateRetVoid();
  return {.tasks = row_blocks * column_blocks,
          .scratch_bytes = 0,
          .work_ns = static_cast<double>(points) * element_ns};
}

}  // namespace riffle::codegen
