#include "codegen/host/matmul_plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "riffle/error.h"

namespace riffle::codegen {
namespace {

// Cycles an element, on one core. They decide between plans, so only their ratios matter.
constexpr double kCopy = 0.15, kCopyTile = 0.6, kTranspose = 0.45, kElement = 2.0;
/// Calls that each pack the same panels for themselves, when nothing else is known …
constexpr double kCalls = 4;
/// … but with so few tiles all of them go to one task, and tasks divide the panels.
constexpr std::int64_t kFewTiles = 16;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

struct RegisterTile {
  int vectors = 1, rows = 1;
  double cycles = 0;  ///< of the whole product, per step of k
};

/// The tile that covers lanes × rows in the fewest cycles: two multiply-adds and two loads a
/// cycle, and at least the four cycles of latency that a multiply-add takes.
RegisterTile choose_tile(std::int64_t lanes, std::int64_t rows, int width, int registers,
                         int most_rows, bool powers_of_two) {
  RegisterTile best;
  best.cycles = std::numeric_limits<double>::infinity();
  for (int vectors = 1; vectors <= 8; ++vectors) {
    if (vectors > divide_up(lanes, width)) break;
    // One register for each vector of lanes and one for the broadcast element.
    const int fit = (registers - 1 - vectors) / vectors;
    for (int r = 1; r <= std::min<std::int64_t>({fit, most_rows, rows}); ++r) {
      if (powers_of_two && (r & (r - 1)) != 0 && r != rows) continue;
      const double step =
          std::max({r * vectors / 2.0, (vectors + r) / 2.0, 4.0}) + 0.15 * (r + vectors) / 10;
      const double cycles = static_cast<double>(divide_up(lanes, vectors * std::int64_t{width})) *
                            static_cast<double>(divide_up(rows, r)) * step;
      if (cycles < best.cycles) best = {vectors, r, cycles};
    }
  }
  return best;
}

Packing rows_packing(const MatmulPlan::Operand& side, DType accumulator) {
  if (side.deep == 1 || side.extent == 1)
    return side.dtype == accumulator && side.deep == 1 ? Packing::none
           : side.deep == 1                            ? Packing::transposed
                                                       : Packing::elements;
  return side.along == 1 ? Packing::contiguous : Packing::elements;
}

Packing lanes_packing(const MatmulPlan::Operand& side, DType accumulator, std::int64_t lanes,
                      std::int64_t tiles, std::int64_t element) {
  if (side.along == 1) {
    // In place a step of k touches another page when rows are long: that pays for a copy unless
    // the panel is used once or twice only. A panel wider than the operand would overrun it.
    const bool near = side.deep * element < 1024;
    if (side.dtype == accumulator && side.extent >= lanes && (tiles <= 2 || near))
      return Packing::none;
    return Packing::contiguous;
  }
  return side.deep == 1 ? Packing::transposed : Packing::elements;
}

double cost_of(Packing packing, bool tile) {
  switch (packing) {
    case Packing::none:
      return 0;
    case Packing::contiguous:
      return tile ? kCopyTile : kCopy;
    case Packing::transposed:
      return tile ? kCopy : kTranspose;
    case Packing::elements:
      return kElement;
  }
  return 0;
}

struct Candidate {
  MatmulPlan plan;
  double compute = 0, pack_lanes = 0, pack_rows = 0, epilogue = 0;
  double total() const {
    return compute + (plan.tiles <= kFewTiles ? 1 : kCalls) * pack_lanes + pack_rows + epilogue;
  }
};

Candidate with_roles(MatmulPlan plan, const HostTarget& target) {
  Candidate c;
  const std::int64_t element = size_of(plan.accumulator);
  MatmulPlan::Operand& lanes = plan.lanes_side;
  MatmulPlan::Operand& rows = plan.rows_side;
  const int registers = target.vector_bytes == 64 ? 32 : 16;
  rows.packing = rows_packing(rows, plan.accumulator);
  // Rows read in place that lie a multiple of 4 KiB apart share one set of the L1 cache.
  const bool collide = rows.packing == Packing::none && rows.along * element % 1024 == 0;
  const RegisterTile tile =
      choose_tile(lanes.extent, rows.extent, plan.width, registers, collide ? 8 : 14,
                  rows.packing == Packing::contiguous);  // copied as one vector a step of k
  plan.vectors = tile.vectors;
  plan.rows = tile.rows;
  plan.panels = divide_up(lanes.extent, plan.lanes());
  plan.tiles = divide_up(rows.extent, plan.rows);
  lanes.packing =
      lanes_packing(lanes, plan.accumulator, plan.lanes(), plan.tiles, size_of(lanes.dtype));

  const auto k = static_cast<double>(plan.k);
  c.compute = tile.cycles * k;
  c.pack_lanes = cost_of(lanes.packing, false) * static_cast<double>(lanes.extent) * k;
  c.pack_rows = cost_of(rows.packing, true) * static_cast<double>(rows.extent) * k;
  c.epilogue = (plan.epilogue_transposes ? 1.0 : 0.4) * static_cast<double>(lanes.extent) *
               static_cast<double>(rows.extent);
  c.plan = std::move(plan);
  return c;
}

/// Blocks of k, then blocks of panels and tiles: enough tasks for the threads, packing kept cheap.
void cut(Candidate& c, const HostTarget& target) {
  MatmulPlan& plan = c.plan;
  const std::int64_t element = size_of(plan.accumulator);
  // A panel's block of k takes an eighth of L2, a block of panels half of it.
  std::int64_t deepest = target.l2_bytes / 8 / (plan.lanes() * element);
  deepest = std::max<std::int64_t>(round_up(deepest, plan.width), 4 * plan.width);
  const std::int64_t k_blocks = std::max<std::int64_t>(1, divide_up(plan.k, deepest));
  plan.k_block = std::max<std::int64_t>(1, divide_up(plan.k, k_blocks));
  if (k_blocks > 1) plan.k_block = round_up(plan.k_block, plan.width);

  const std::int64_t panel_bytes = plan.panel_depth() * plan.lanes() * element;
  const std::int64_t most_panels = std::max<std::int64_t>(1, target.l2_bytes / 2 / panel_bytes);
  // Tiles are finished in groups where the epilogue transposes blocks of them, and packed in
  // groups where their rows lie side by side: so each line of the operand is read once.
  const bool in_groups = plan.epilogue_transposes || plan.rows_side.packing == Packing::contiguous;
  plan.group =
      in_groups ? std::max<std::int64_t>(1, std::min(plan.tiles, divide_up(48, plan.rows))) : 1;

  // About 6 µs of work at least for a task; sixteen tasks balance what there is of threads.
  const double cycles = c.compute + c.pack_lanes + c.pack_rows + c.epilogue;
  const auto wanted = static_cast<std::int64_t>(
      std::clamp(cycles * static_cast<double>(plan.batches) / 16000.0, 1.0, 16.0));
  const std::int64_t wanted_each =
      divide_up(wanted, std::max<std::int64_t>(1, std::min(plan.batches, wanted)));

  // Each block of tiles packs the panels again, each block of panels the tiles.
  double best = std::numeric_limits<double>::infinity();
  const std::int64_t fewest = divide_up(plan.panels, most_panels);
  const std::int64_t groups = divide_up(plan.tiles, plan.group);
  // A large operand is read once, in runs as wide as a block: two panels at least, for the
  // prefetchers' and the TLB's sake.
  const bool once = plan.tiles <= kFewTiles && plan.panels >= 8;
  const std::int64_t most_blocks = once ? plan.panels / 2 : plan.panels;
  for (std::int64_t blocks = fewest; blocks <= std::max(fewest, std::min(most_blocks, wanted_each));
       ++blocks) {
    const std::int64_t panel_block = divide_up(plan.panels, blocks);
    const std::int64_t panel_blocks = divide_up(plan.panels, panel_block);
    // Half as many tasks rather than packing more than a twelfth of the time.
    for (std::int64_t want = wanted_each; want >= 1; want /= 2) {
      const std::int64_t tile_block =
          once ? plan.tiles
               : divide_up(groups, std::min(groups, divide_up(want, panel_blocks))) * plan.group;
      const std::int64_t tile_blocks = divide_up(plan.tiles, tile_block);
      const double packing = c.pack_lanes * static_cast<double>(tile_blocks) +
                             c.pack_rows * static_cast<double>(panel_blocks);
      const double ragged = c.compute * 0.5 *
                            static_cast<double>(panel_block * panel_blocks - plan.panels) /
                            static_cast<double>(plan.panels);
      // Four threads stand for any number: what counts is that there are tasks for all of them,
      // and rather more than fewer.
      const std::int64_t tasks = panel_blocks * tile_blocks;
      const std::int64_t all = std::min<std::int64_t>(tasks * plan.batches, 1000);
      const double uneven =
          static_cast<double>(divide_up(all, 4)) / static_cast<double>(all) +
          0.05 * static_cast<double>(std::max<std::int64_t>(0, wanted_each - tasks)) /
              static_cast<double>(wanted_each);
      const double work = c.compute + c.epilogue + packing + ragged;
      const double cost = wanted > 1 ? work * uneven : work;
      if (cost < best) {
        best = cost;
        plan.panel_block = panel_block;
        plan.panel_blocks = panel_blocks;
        plan.tile_block = tile_block;
        plan.tile_blocks = tile_blocks;
      }
    }
  }
  plan.tasks = plan.batches * plan.panel_blocks * plan.tile_blocks;
}

void lay_out_scratch(MatmulPlan& plan) {
  const std::int64_t element = size_of(plan.accumulator);
  std::int64_t at = 0;
  auto take = [&](std::int64_t elements) {
    const std::int64_t begin = at;
    at += round_up(elements * element, 64);
    return begin;
  };
  plan.panels_at = take(plan.lanes_side.packing == Packing::none
                            ? 0
                            : plan.panel_block * plan.panel_depth() * plan.lanes());
  plan.tiles_at = take(plan.rows_side.packing == Packing::none
                           ? 0
                           : std::min(plan.group, plan.tile_block) * plan.packed_tile_stride());
  const std::int64_t groups =
      plan.k_blocks() > 1 ? divide_up(plan.tile_block, plan.group) * plan.panel_block : 1;
  // The epilogue may look past the last row and lane by one block of width × width.
  plan.sums_at =
      take(groups * plan.group * plan.rows * plan.lanes() + plan.width * (plan.lanes() + 1));
  plan.corner_at = take(plan.epilogue_transposes ? plan.width * 4 : 0);
  plan.scratch_bytes = at;
}

}  // namespace

std::int64_t MatmulPlan::row_stride() const {
  switch (rows_side.packing) {
    case Packing::none:
      return rows_side.along;
    case Packing::transposed:
      return packed_row_stride();
    default:
      return 1;
  }
}

std::int64_t MatmulPlan::row_deep() const {
  switch (rows_side.packing) {
    case Packing::none:
      return rows_side.deep;
    case Packing::transposed:
      return 1;
    default:
      return rows;
  }
}

MatmulPlan plan_matmul(const MatmulBody& body, DType a, DType b, const HostTarget& target) {
  const DType accumulator = compute_dtype(body.dtype);
  for (DType dtype : {body.dtype, a, b})
    if (dtype == DType::boolean || compute_dtype(dtype) != accumulator)
      throw CompileError({.what = "no matmul of " + std::string(name_of(a)) + " by " +
                                  std::string(name_of(b)) + " to " +
                                  std::string(name_of(body.dtype)),
                          .hint = "cast both operands to one of f32, f64, bf16, f16, i32, i64"});

  MatmulPlan plan;
  plan.accumulator = accumulator;
  plan.k = body.k;
  plan.batches = element_count(body.batch);
  plan.width = static_cast<int>(target.vector_bytes / size_of(accumulator));
  if (plan.batches == 0 || body.m == 0 || body.n == 0) return plan;  // no tasks

  const MatmulPlan::Operand m_side{.operand = body.a.operand,
                                   .offset = body.a.offset,
                                   .extent = body.m,
                                   .along = body.a.row_stride,
                                   .deep = body.a.column_stride,
                                   .batch_strides = body.a.batch_strides,
                                   .dtype = a};
  const MatmulPlan::Operand n_side{.operand = body.b.operand,
                                   .offset = body.b.offset,
                                   .extent = body.n,
                                   .along = body.b.column_stride,
                                   .deep = body.b.row_stride,
                                   .batch_strides = body.b.batch_strides,
                                   .dtype = b};
  // The epilogue's lanes run where the first result lies side by side.
  bool epilogue_along_m = false;
  if (!body.stores.empty()) {
    const std::vector<std::int64_t>& strides = body.stores.front().address.strides;
    const std::size_t m = body.batch.size();
    epilogue_along_m = strides[m] == 1 && strides[m + 1] != 1 && body.m > 1;
  }

  std::array<Candidate, 2> candidates;
  for (const bool lanes_are_m : {false, true}) {
    MatmulPlan one = plan;
    one.lanes_are_m = lanes_are_m;
    one.lanes_side = lanes_are_m ? m_side : n_side;
    one.rows_side = lanes_are_m ? n_side : m_side;
    one.epilogue_transposes = lanes_are_m != epilogue_along_m;
    candidates[lanes_are_m] = with_roles(std::move(one), target);
  }
  Candidate& best = candidates[1].total() < candidates[0].total() ? candidates[1] : candidates[0];
  cut(best, target);
  lay_out_scratch(best.plan);
  return std::move(best.plan);
}

}  // namespace riffle::codegen
