// RowBody → one grid: reductions in the order of codegen/reduction_order.h.
//
//   teams      (last dimension reduced) some threads of a warp share a row. Lane j of the order
//              belongs to one thread: with vectors of w elements thread t holds lanes w·t … w·t+w−1
//              and 64 / w threads make a team; without, 32 threads hold lanes t and t + 32. The
//              tree over lanes is butterfly shuffles, so that every thread of the team has the
//              result. A row that is short enough is unrolled: its elements stay in registers from
//              stage to stage.
//   columns    (last dimension kept) a thread folds the elements of one vector of outer points, one
//              after the other.
//   blocks     rows or columns that are long and few: row_block.cpp.
//
// Start reading at emit_device_row.
#include <algorithm>
#include <map>

#include "codegen/nvptx/row_parts.h"

namespace riffle::codegen {
namespace {

constexpr std::int64_t kThreads = 128;
/// Blocks of kLanes elements, or elements of a column, whose loads are in flight together.
constexpr std::int64_t kInFlight = 4, kColumnsInFlight = 8;
constexpr std::int64_t kWantedThreads = 1 << 15;

class RowEmitter {
 public:
  RowEmitter(NvptxContext& context, const RowProblem& row)
      : c_(context),
        ir_(context.ir),
        row_(row),
        body_(row.body),
        rows_(row.rows),
        length_(row.length),
        all_exprs_(row.exprs()),
        all_stores_(row.stores()) {}

  GridShape emit() { return body_.lanes && length_ > 0 ? emit_teams() : emit_columns(); }

 private:
  /// Outer indices with zeros for the inner dimensions.
  Lanes at_row(const Values& outer) const {
    Lanes lanes{.indices = outer};
    lanes.indices.resize(body_.outer.size() + body_.inner.size(), c_.index(0));
    return lanes;
  }

  void emit_final(const Lanes& lanes, const Values& carried) {
    const Values values = emit_exprs(c_, body_.final_exprs, lanes, carried);
    emit_stores(c_, body_.final_stores, values, body_.final_exprs, lanes);
  }

  // ---- teams -----------------------------------------------------------------------------------

  GridShape emit_teams() {
    const auto last = static_cast<std::int32_t>(body_.outer.size() + body_.inner.size()) - 1;
    width_ = access_width(c_, all_exprs_, all_stores_, last, body_.inner.back(), true);
    while (width_ > 2 && rows_ * (kLanes / width_) < kWantedThreads) width_ /= 2;
    slots_ = width_ == 1 ? 2 : 1;
    team_ = width_ == 1 ? 32 : kLanes / width_;
    if (block_suits_lanes(row_, team_)) return emit_row_block(c_, row_);
    const std::int64_t per_block = kThreads / team_;
    const GridShape shape{.blocks = {divide_up(rows_, per_block), 1, 1}, .threads = kThreads};

    llvm::Value* thread = c_.thread(kThreads);
    member_ = ir_.CreateURem(thread, c_.index(team_));
    llvm::Value* team = ir_.CreateUDiv(thread, c_.index(team_));
    llvm::Value* before = ir_.CreateNSWMul(c_.block(shape.blocks[0]), c_.index(per_block));
    llvm::Value* row = ir_.CreateNSWAdd(before, team);
    members_ = ir_.getInt32(0xffffffff);
    if (rows_ % per_block != 0) {
      llvm::Value* active = ir_.CreateICmpSLT(row, c_.index(rows_));
      if (rows_ % (32 / team_) != 0)  // a warp may lose some of its threads
        members_ = c_.ballot(active);
      c_.keep_threads(active);
    }
    const Lanes lanes = at_row(unravel(c_, row, body_.outer));
    Values carried;
    const bool unrolled = may_unroll(row_, divide_up(length_, kLanes) * width_ * slots_);
    for (const RowBody::Stage& stage : body_.stages)
      emit_team_stage(stage, lanes, unrolled, carried);
    if (!body_.final_stores.empty())
      emit_if(c_, ir_.CreateICmpEQ(member_, c_.index(0)), [&] { emit_final(lanes, carried); });
    ir_.CreateRetVoid();
    return shape;
  }

  void emit_team_stage(const RowBody::Stage& stage, const Lanes& row, bool unrolled,
                       Values& carried) {
    const std::vector<Reducer> reduce = reducers(c_, stage);
    RowState state = start_state(reduce, slots_, width_);

    const std::int64_t whole = length_ / kLanes;
    auto block = [&](llvm::Value* chunk_start, std::int64_t offset) {
      for (int slot = 0; slot < slots_; ++slot)
        emit_vector(stage, reduce, row, carried, position(chunk_start, offset, slot), slot, state,
                    unrolled ? &kept_[{offset, slot}] : nullptr);
    };
    std::int64_t done = 0;
    const std::int64_t step = unrolled ? whole : std::min(whole, kInFlight);
    if (!unrolled && whole > step) {
      done = whole / step * step;
      state = grouped(
          reduce,
          emit_for(c_, c_.index(0), c_.index(done * kLanes), step * kLanes, flat(reduce, state),
                   [&](llvm::Value* start, std::span<llvm::Value* const> old) {
                     state = grouped(reduce, old, slots_);
                     for (std::int64_t k = 0; k < step; ++k) block(start, k * kLanes);
                     return flat(reduce, state);
                   }),
          slots_);
    }
    for (; done < whole; ++done) block(c_.index(0), done * kLanes);
    if (length_ % kLanes != 0)
      for (int slot = 0; slot < slots_; ++slot) {
        const std::int64_t start = whole * kLanes + (slot == 0 ? 0 : 32);
        if (start >= length_) continue;
        llvm::Value* at = position(c_.index(0), whole * kLanes, slot);
        when(c_, ir_.CreateICmpSLT(at, c_.index(length_)), reduce, state, slots_,
             [&] { emit_vector(stage, reduce, row, carried, at, slot, state, nullptr); });
      }

    for (std::size_t r = 0; r < reduce.size(); ++r) carried.push_back(fold(reduce[r], state[r]));
  }

  /// Where in the row this thread's vector of a block of kLanes elements starts.
  llvm::Value* position(llvm::Value* chunk_start, std::int64_t offset, int slot) {
    llvm::Value* own = width_ == 1 ? member_ : ir_.CreateNSWMul(member_, c_.index(width_));
    return ir_.CreateNSWAdd(ir_.CreateNSWAdd(chunk_start, own),
                            c_.index(offset + (slot == 0 ? 0 : 32)));
  }

  void emit_vector(const RowBody::Stage& stage, const std::vector<Reducer>& reduce,
                   const Lanes& row, const Values& carried, llvm::Value* at, int slot,
                   RowState& state, KeptLoads* kept) {
    Lanes lanes = row;
    const Values inner = unravel(c_, at, body_.inner);
    std::ranges::copy(inner,
                      lanes.indices.begin() + static_cast<std::ptrdiff_t>(body_.outer.size()));
    lanes.width = width_;
    lanes.lane_dim = width_ == 1 ? -1 : static_cast<std::int32_t>(lanes.indices.size()) - 1;
    lanes.lane_alignment = width_;
    const Values values = emit_exprs(c_, stage.exprs, lanes, carried,
                                     kept ? kept->choice(stage.exprs) : ExprChoice{});
    if (kept) kept->keep(stage.exprs, values);
    emit_stores(c_, stage.stores, values, stage.exprs, lanes);
    for (std::size_t r = 0; r < reduce.size(); ++r) {
      const auto value = static_cast<std::size_t>(stage.reductions[r].value);
      const Accumulated x = reduce[r].elements(values[value], stage.exprs[value].dtype,
                                               ir_.CreateZExt(at, ir_.getInt64Ty()), width_, false);
      Accumulated& a = state[r][static_cast<std::size_t>(slot)];
      a = reduce[r].combine(a, x, width_);
    }
  }

  /// The tree. Combining is commutative, so both partners of a butterfly get the same bits.
  llvm::Value* fold(const Reducer& reducer, const std::vector<Accumulated>& slots) {
    Accumulated a = slots.size() == 1 ? slots[0] : reducer.combine(slots[0], slots[1], width_);
    for (std::int64_t partner = team_ / 2; partner > 0; partner /= 2) {
      const Accumulated other{
          .value = c_.shuffle_xor(a.value, static_cast<int>(partner), members_),
          .index =
              a.index ? c_.shuffle_xor(a.index, static_cast<int>(partner), members_) : nullptr};
      a = reducer.combine(a, other, width_);
    }
    return reducer.finish(reducer.fold_lanes({a}, width_), 1);
  }

  // ---- columns ---------------------------------------------------------------------------------

  GridShape emit_columns() {
    std::vector<const std::vector<Store>*> stores = all_stores_;
    stores.push_back(&body_.final_stores);
    const std::int32_t lane_dim = best_lane_dim(body_.outer, 0, all_exprs_, stores);
    const std::int64_t columns = lane_dim < 0 ? 1 : body_.outer[static_cast<std::size_t>(lane_dim)];
    int width = length_ == 0 ? 1 : access_width(c_, all_exprs_, stores, lane_dim, columns, true);
    while (width > 1 && rows_ / width < kWantedThreads) width /= 2;

    Shape other_sizes;
    std::vector<std::size_t> other_dims;
    for (std::size_t d = 0; d < body_.outer.size(); ++d)
      if (static_cast<std::int32_t>(d) != lane_dim) {
        other_sizes.push_back(body_.outer[d]);
        other_dims.push_back(d);
      }
    if (length_ > 0 && block_suits_columns(row_, rows_ / width)) return emit_row_block(c_, row_);
    // Few threads are spread over as many blocks as there may be processors.
    const std::int64_t items = rows_ / width;
    const std::int64_t threads = items >= (1 << 14) ? kThreads : 32;
    const GridShape shape{.blocks = {divide_up(items, threads), 1, 1}, .threads = threads};
    llvm::Value* item = c_.thread_of_grid(shape.blocks[0], threads);
    if (items % threads != 0) c_.keep_threads(ir_.CreateICmpSLT(item, c_.index(items)));

    const std::int64_t vectors = columns / width;
    Lanes lanes = at_row(Values(body_.outer.size(), c_.index(0)));
    llvm::Value* other = ir_.CreateUDiv(item, c_.index(vectors));
    const Values other_indices = unravel(c_, other, other_sizes);
    for (std::size_t k = 0; k < other_dims.size(); ++k)
      lanes.indices[other_dims[k]] = other_indices[k];
    if (lane_dim >= 0)
      lanes.indices[static_cast<std::size_t>(lane_dim)] =
          ir_.CreateNSWMul(ir_.CreateURem(item, c_.index(vectors)), c_.index(width));
    lanes.width = width;
    lanes.lane_dim = width == 1 ? -1 : lane_dim;
    lanes.lane_alignment = width;

    Values carried;
    for (const RowBody::Stage& stage : body_.stages) {
      const std::vector<Reducer> reduce = reducers(c_, stage);
      if (length_ == 0) {
        for (const Reducer& reducer : reduce) carried.push_back(reducer.empty());
        continue;
      }
      RowState state = start_state(reduce, 1, width);
      walk_columns(stage, reduce, lanes, 0, carried, width, state);
      for (std::size_t r = 0; r < reduce.size(); ++r)
        carried.push_back(reduce[r].finish(state[r][0], width));
    }
    emit_final(lanes, carried);
    ir_.CreateRetVoid();
    return shape;
  }

  /// Loops over inner dimensions from `dimension` on, the last one with several elements in flight.
  void walk_columns(const RowBody::Stage& stage, const std::vector<Reducer>& reduce,
                    const Lanes& lanes, std::size_t dimension, const Values& carried, int width,
                    RowState& state) {
    auto element = [&](const Lanes& at) {
      const Values values = emit_exprs(c_, stage.exprs, at, carried);
      emit_stores(c_, stage.stores, values, stage.exprs, at);
      llvm::Value* position = c_.index(0);
      for (std::size_t d = 0; d < body_.inner.size(); ++d)
        position = ir_.CreateNSWAdd(ir_.CreateNSWMul(position, c_.index(body_.inner[d])),
                                    at.indices[body_.outer.size() + d]);
      position = ir_.CreateZExt(position, ir_.getInt64Ty());
      for (std::size_t r = 0; r < reduce.size(); ++r) {
        const auto value = static_cast<std::size_t>(stage.reductions[r].value);
        const Accumulated x =
            reduce[r].elements(values[value], stage.exprs[value].dtype, position, width, true);
        state[r][0] = reduce[r].combine(state[r][0], x, width);
      }
    };
    if (dimension == body_.inner.size()) return element(lanes);
    const std::size_t d = body_.outer.size() + dimension;
    const std::int64_t size = body_.inner[dimension];
    auto at = [&](llvm::Value* i) {
      Lanes next = lanes;
      next.indices[d] = i;
      return next;
    };
    const bool is_last = dimension + 1 == body_.inner.size();
    const std::int64_t step =
        is_last ? std::min(size, std::max<std::int64_t>(kColumnsInFlight / width, 2)) : 1;
    const std::int64_t whole = size / step * step;
    state = grouped(reduce,
                    emit_for(c_, c_.index(0), c_.index(whole), step, flat(reduce, state),
                             [&](llvm::Value* i, std::span<llvm::Value* const> old) {
                               state = grouped(reduce, old, 1);
                               for (std::int64_t k = 0; k < step; ++k)
                                 walk_columns(stage, reduce, at(ir_.CreateNSWAdd(i, c_.index(k))),
                                              dimension + 1, carried, width, state);
                               return flat(reduce, state);
                             }),
                    1);
    for (std::int64_t k = whole; k < size; ++k)
      walk_columns(stage, reduce, at(c_.index(k)), dimension + 1, carried, width, state);
  }

  NvptxContext& c_;
  llvm::IRBuilder<>& ir_;
  const RowProblem& row_;
  const RowBody& body_;
  std::int64_t rows_, length_;
  std::vector<const std::vector<Expr>*> all_exprs_;
  std::vector<const std::vector<Store>*> all_stores_;
  int width_ = 1, slots_ = 1;
  std::int64_t team_ = 32;
  llvm::Value *member_ = nullptr, *members_ = nullptr;
  std::map<std::pair<std::int64_t, int>, KeptLoads> kept_;  ///< by offset and slot
};

}  // namespace

void emit_device_row(DeviceKernelWriter& kernel, const RowBody& original) {
  RowProblem row{original, element_count(original.outer), element_count(original.inner)};
  RowBody& body = row.body;
  std::vector<Affine*> affines;
  auto collect = [&](Affine& affine) { affines.push_back(&affine); };
  for (RowBody::Stage& stage : body.stages) {
    for_each_affine(stage.exprs, collect);
    for_each_affine(stage.stores, collect);
  }
  for_each_affine(body.final_exprs, collect);
  for_each_affine(body.final_stores, collect);
  if (row.rows == 0) return;
  if (row.length > 0) {
    collapse(body.inner, body.outer.size(), affines);
    collapse(body.outer, 0, affines);
  }
  // At least one inner dimension, so that a row can be walked.
  if (body.inner.empty()) {
    for (Affine* affine : affines) affine->strides.push_back(0);
    body.inner.push_back(1);
  }
  kernel.grid([&](NvptxContext& c) { return RowEmitter(c, row).emit(); });
}

}  // namespace riffle::codegen
