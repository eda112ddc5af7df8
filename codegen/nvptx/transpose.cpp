// A LoopBody that reads along one dimension and writes along another: tiles of 32 × 32 points go
// through shared memory, so that loads and stores both move whole sectors.
//
//   threads x = 0 … 31, y = 0 … 7; dimension `across` is contiguous in the turned loads, `lane` in
//   the stores
//   1  thread (x, y) loads points (across = x, lane = y, y + 8 …) of every turned load
//   2  after a barrier it computes points (across = y, y + 8 …, lane = x)
//
// A tile's rows have one element more than needed: its columns then lie in different banks.
#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/nvptx/nvptx_emit.h"

namespace riffle::codegen {
namespace {

constexpr std::int64_t kTile = 32, kRows = 8, kPitch = kTile + 1, kThreads = kTile * kRows;
constexpr std::size_t kMostLoads = 4;       ///< tiles that fit in shared memory, of 8-byte elements
constexpr std::int64_t kWorthwhile = 4096;  ///< points

}  // namespace

TurnedLoads turned_loads(const LoopBody& body, std::int32_t lane_dim) {
  TurnedLoads none;
  if (lane_dim < 0 || element_count(body.space) < kWorthwhile) return none;
  const auto lane = static_cast<std::size_t>(lane_dim);
  if (body.space[lane] < kRows) return none;
  for (const Store& store : body.stores)
    if (store.address.strides[lane] != 1) return none;
  TurnedLoads turned;
  for (std::size_t e = 0; e < body.exprs.size(); ++e) {
    const Expr& expr = body.exprs[e];
    if (expr.kind != Expr::Kind::load || !expr.guards.empty() || !expr.indirect.empty()) continue;
    const std::int64_t stride = expr.address.strides[lane];
    if (stride == 0 || stride == 1) continue;
    for (std::size_t d = 0; d < body.space.size(); ++d) {
      if (d == lane || expr.address.strides[d] != 1 || body.space[d] < kRows) continue;
      if (turned.across >= 0 && turned.across != static_cast<std::int32_t>(d)) continue;
      turned.across = static_cast<std::int32_t>(d);
      turned.exprs.push_back(e);
      break;
    }
  }
  return turned.exprs.size() <= kMostLoads ? turned : none;
}

GridShape emit_transposing_loop(NvptxContext& c, const LoopBody& body, std::int32_t lane_dim,
                                const TurnedLoads& turned) {
  llvm::IRBuilder<>& ir = c.ir;
  const auto lane = static_cast<std::size_t>(lane_dim);
  const auto across = static_cast<std::size_t>(turned.across);
  const std::int64_t lane_size = body.space[lane], across_size = body.space[across];
  const std::int64_t lane_tiles = divide_up(lane_size, kTile);
  const std::int64_t across_tiles = divide_up(across_size, kTile);
  Shape others;
  std::vector<std::size_t> other_dims;
  for (std::size_t d = 0; d < body.space.size(); ++d)
    if (d != lane && d != across) {
      others.push_back(body.space[d]);
      other_dims.push_back(d);
    }
  const GridShape shape{.blocks = {element_count(others) * lane_tiles * across_tiles, 1, 1},
                        .threads = kThreads};

  llvm::Value* block = c.block(shape.blocks[0]);
  llvm::Value* across_start =
      ir.CreateNSWMul(ir.CreateURem(block, c.index(across_tiles)), c.index(kTile));
  llvm::Value* rest = ir.CreateUDiv(block, c.index(across_tiles));
  llvm::Value* lane_start =
      ir.CreateNSWMul(ir.CreateURem(rest, c.index(lane_tiles)), c.index(kTile));
  const Values other = unravel(c, ir.CreateUDiv(rest, c.index(lane_tiles)), others);
  llvm::Value* thread = c.thread(kThreads);
  llvm::Value* x = ir.CreateURem(thread, c.index(kTile));
  llvm::Value* y = ir.CreateUDiv(thread, c.index(kTile));

  /// The point (across, lane) when it lies inside the space.
  auto point = [&](llvm::Value* in_across, llvm::Value* in_lane,
                   const std::function<void(const Lanes&)>& visit) {
    Lanes lanes{.indices = Values(body.space.size())};
    for (std::size_t k = 0; k < other_dims.size(); ++k) lanes.indices[other_dims[k]] = other[k];
    lanes.indices[across] = ir.CreateNSWAdd(across_start, in_across);
    lanes.indices[lane] = ir.CreateNSWAdd(lane_start, in_lane);
    llvm::Value* inside = nullptr;
    if (across_size % kTile != 0)
      inside = ir.CreateICmpSLT(lanes.indices[across], c.index(across_size));
    if (lane_size % kTile != 0) {
      llvm::Value* below = ir.CreateICmpSLT(lanes.indices[lane], c.index(lane_size));
      inside = inside ? ir.CreateAnd(inside, below) : below;
    }
    if (!inside) return visit(lanes);
    emit_if(c, inside, [&] { visit(lanes); });
  };

  // Tiles hold memory form.
  std::vector<llvm::Value*> tiles;
  std::vector<llvm::Type*> types;
  for (std::size_t k = 0; k < turned.exprs.size(); ++k) {
    llvm::Type* type =
        memory_type(c.module.getContext(), c.operand_dtype(body.exprs[turned.exprs[k]].operand));
    types.push_back(type);
    tiles.push_back(c.shared_array(type, kTile * kPitch, "tile" + std::to_string(k)));
  }
  LlvmScalarBuilder builder(ir, 1);
  auto element = [&](std::size_t k, llvm::Value* in_lane, llvm::Value* in_across) {
    llvm::Value* index = ir.CreateNSWAdd(ir.CreateNSWMul(in_lane, c.index(kPitch)), in_across);
    return ir.CreateInBoundsGEP(types[k], tiles[k], index);
  };
  auto align = [&](std::size_t k) {
    return llvm::Align(static_cast<std::uint64_t>(types[k]->getScalarSizeInBits() / 8));
  };

  ExprChoice first;
  first.wanted.resize(body.exprs.size());
  for (std::size_t e : turned.exprs) first.wanted[e] = true;
  for (std::int64_t step = 0; step < kTile; step += kRows) {
    llvm::Value* in_lane = ir.CreateNSWAdd(y, c.index(step));
    point(x, in_lane, [&](const Lanes& lanes) {
      const Values values = emit_exprs(c, body.exprs, lanes, {}, first);
      for (std::size_t k = 0; k < tiles.size(); ++k) {
        const std::size_t e = turned.exprs[k];
        ir.CreateAlignedStore(
            builder.to_memory(LlvmScalarBuilder::wrap(values[e], body.exprs[e].dtype)),
            element(k, in_lane, x), align(k));
      }
    });
  }
  c.barrier();
  for (std::int64_t step = 0; step < kTile; step += kRows) {
    llvm::Value* in_across = ir.CreateNSWAdd(y, c.index(step));
    point(in_across, x, [&](const Lanes& lanes) {
      ExprChoice rest_of;
      rest_of.known.resize(body.exprs.size());
      for (std::size_t k = 0; k < tiles.size(); ++k) {
        const std::size_t e = turned.exprs[k];
        llvm::Value* value = ir.CreateAlignedLoad(types[k], element(k, x, in_across), align(k));
        rest_of.known[e] =
            LlvmScalarBuilder::unwrap(builder.from_memory(value, body.exprs[e].dtype));
      }
      emit_stores(c, body.stores, emit_exprs(c, body.exprs, lanes, {}, rest_of), body.exprs, lanes);
    });
  }
  ir.CreateRetVoid();
  return shape;
}

}  // namespace riffle::codegen
