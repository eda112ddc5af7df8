// RowBody → LLVM IR: stages over rows, with reductions in the order of reduction_order.h.
//
//   lanes      one row at a time; each stage walks it in blocks of kLanes elements, whose lanes are
//              the accumulators. A row's later stages find it in the cache.
//   columns    vectors of neighbouring outer points side by side, each folding its elements one
//              after the other; several vectors in flight hide the latency of the adds.
//
// Start reading at emit_row.
#include <algorithm>

#include "codegen/emit/reduction.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/host/loops.h"
#include "codegen/host/target.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class RowEmitter {
 public:
  RowEmitter(HostContext& context, const RowBody& original)
      : c_(context), ir_(context.ir), body_(original) {
    std::vector<Affine*> affines;
    auto collect = [&](Affine& affine) { affines.push_back(&affine); };
    for (RowBody::Stage& stage : body_.stages) {
      for_each_affine(stage.exprs, collect);
      for_each_affine(stage.stores, collect);
    }
    for_each_affine(body_.final_exprs, collect);
    for_each_affine(body_.final_stores, collect);
    row_length_ = element_count(body_.inner);
    rows_ = element_count(body_.outer);
    if (row_length_ > 0) {
      collapse(body_.inner, body_.outer.size(), affines);
      if (rows_ > 0) collapse(body_.outer, 0, affines);
    }
    // At least one inner dimension, so that a row can be walked.
    if (body_.inner.empty()) {
      for (Affine* affine : affines) affine->strides.push_back(0);
      body_.inner.push_back(1);
    }
    for (const RowBody::Stage& stage : body_.stages) {
      all_exprs_.push_back(&stage.exprs);
      element_ns_ += cost_ns(c_.target, stage.exprs, stage.stores) +
                     0.02 * static_cast<double>(stage.reductions.size());
    }
    row_ns_ = element_ns_ * static_cast<double>(row_length_) + (body_.lanes ? 10.0 : 0.5) +
              cost_ns(c_.target, body_.final_exprs, body_.final_stores);
  }

  runtime::KernelGeometry emit() {
    if (rows_ == 0) {
      ir_.CreateRetVoid();
      return {.tasks = 0};
    }
    const std::int64_t tasks = body_.lanes || row_length_ == 0 ? emit_lanes() : emit_columns();
    ir_.CreateRetVoid();
    return {.tasks = tasks, .scratch_bytes = 0, .work_ns = row_ns_ * static_cast<double>(rows_)};
  }

 private:
  llvm::Value* constant(std::int64_t v) { return ir_.getInt64(static_cast<std::uint64_t>(v)); }

  std::vector<Reducer> reducers(const RowBody::Stage& stage) {
    std::vector<Reducer> list;
    for (const RowBody::Reduction& reduction : stage.reductions) list.emplace_back(c_, reduction);
    return list;
  }

  /// Outer indices with zeros for the inner dimensions.
  Lanes at_row(const Values& outer) {
    Lanes lanes{.indices = outer};
    lanes.indices.resize(body_.outer.size() + body_.inner.size(), constant(0));
    return lanes;
  }

  void emit_final(const Lanes& lanes, const Values& carried) {
    const Values values = emit_exprs(c_, body_.final_exprs, lanes, carried);
    emit_stores(c_, body_.final_stores, values, body_.final_exprs, lanes);
  }

  // ---- rows one at a time ----------------------------------------------------------------------

  std::int64_t emit_lanes() {
    const std::int64_t per_task = std::clamp<std::int64_t>(
        elements_per_task(element_ns_) / std::max<std::int64_t>(row_length_, 1), 1, rows_);
    emit_for(c_, c_.task_begin(), c_.task_end(), 1, [&](llvm::Value* task) {
      llvm::Value* begin = ir_.CreateNSWMul(task, constant(per_task));
      llvm::Value* end = ir_.CreateBinaryIntrinsic(
          llvm::Intrinsic::smin, ir_.CreateNSWAdd(begin, constant(per_task)), constant(rows_));
      emit_for(c_, begin, end, 1, [&](llvm::Value* row) {
        const Lanes lanes = at_row(unravel(c_, row, body_.outer));
        Values carried;
        for (const RowBody::Stage& stage : body_.stages) emit_row_stage(stage, lanes, carried);
        emit_final(lanes, carried);
      });
    });
    return ceil_div(rows_, per_task);
  }

  void emit_row_stage(const RowBody::Stage& stage, const Lanes& row, Values& carried) {
    const std::vector<Reducer> reduce = reducers(stage);
    if (row_length_ == 0) {
      for (const Reducer& reducer : reduce) carried.push_back(reducer.empty());
      return;
    }
    if (reduce.empty()) {
      emit_map_stage(stage, row, carried);
      return;
    }
    const std::int64_t last = body_.inner.back();
    if (body_.inner.size() > 1 && last % kLanes != 0) {
      emit_scattered_stage(stage, reduce, row, carried);
      return;
    }
    const std::vector<Expr>* exprs = &stage.exprs;
    const int width = fit_width(c_.target, vector_width(c_.target, {&exprs, 1}), last);
    const std::int64_t vectors = ceil_div(std::min(last, kLanes), width);

    Values state;
    for (const Reducer& reducer : reduce)
      for (std::int64_t v = 0; v < vectors; ++v) put(state, reducer, reducer.start(width));

    // Evaluates `active` elements from `column` on and folds them into the state.
    auto block = [&](const Lanes& at, llvm::Value* column, std::int64_t active,
                     std::span<llvm::Value* const> old) {
      Values next(old.begin(), old.end());
      for (std::int64_t v = 0; v * width < active; ++v) {
        llvm::Value* mask = leading_lanes(c_, active - v * width, width);
        Lanes lanes = at;
        llvm::Value* position = ir_.CreateAdd(column, constant(v * width));
        lanes.indices.back() = position;
        lanes.width = width;
        lanes.lane_dim = width == 1 ? -1 : static_cast<std::int32_t>(lanes.indices.size()) - 1;
        lanes.mask = mask;
        const Values values = emit_exprs(c_, stage.exprs, lanes, carried);
        emit_stores(c_, stage.stores, values, stage.exprs, lanes);
        for (std::size_t r = 0; r < reduce.size(); ++r) {
          const auto value = static_cast<std::size_t>(stage.reductions[r].value);
          const Accumulated x = reduce[r].elements(values[value], stage.exprs[value].dtype,
                                                   linear_position(lanes), width, false);
          const std::size_t slot = slot_of(reduce, r, vectors, v);
          const Accumulated before = get(next, slot, reduce[r]);
          set(next, slot, reduce[r],
              reduce[r].select(mask, reduce[r].combine(before, x, width), before));
        }
      }
      return next;
    };

    const std::int64_t whole = last / kLanes * kLanes;
    state =
        for_leading_inner(row, 0, state, [&](const Lanes& at, std::span<llvm::Value* const> old) {
          return emit_for(c_, constant(0), constant(whole), kLanes, Values(old.begin(), old.end()),
                          [&](llvm::Value* column, std::span<llvm::Value* const> inner_old) {
                            return block(at, column, kLanes, inner_old);
                          });
        });
    if (whole < last) state = block(row, constant(whole), last - whole, state);

    for (std::size_t r = 0; r < reduce.size(); ++r) {
      std::vector<Accumulated> parts;
      for (std::int64_t v = 0; v < vectors; ++v)
        parts.push_back(get(state, slot_of(reduce, r, vectors, v), reduce[r]));
      carried.push_back(reduce[r].finish(reduce[r].fold_lanes(parts, width), 1));
    }
  }

  /// The position in the row of the first lane.
  llvm::Value* linear_position(const Lanes& lanes) {
    llvm::Value* position = constant(0);
    for (std::size_t d = 0; d < body_.inner.size(); ++d)
      position = ir_.CreateAdd(ir_.CreateMul(position, constant(body_.inner[d])),
                               lanes.indices[body_.outer.size() + d]);
    return position;
  }

  /// Loops over all inner dimensions but the last, threading the state through.
  Values for_leading_inner(
      const Lanes& at, std::size_t dimension, const Values& state,
      const std::function<Values(const Lanes&, std::span<llvm::Value* const>)>& body) {
    if (dimension + 1 >= body_.inner.size()) return body(at, state);
    return emit_for(c_, constant(0), constant(body_.inner[dimension]), 1, state,
                    [&](llvm::Value* i, std::span<llvm::Value* const> old) {
                      Lanes next = at;
                      next.indices[body_.outer.size() + dimension] = i;
                      return for_leading_inner(next, dimension + 1, Values(old.begin(), old.end()),
                                               body);
                    });
  }

  void emit_map_stage(const RowBody::Stage& stage, const Lanes& row, const Values& carried) {
    const std::vector<Expr>* exprs = &stage.exprs;
    const std::int64_t last = body_.inner.back();
    const int width = fit_width(c_.target, vector_width(c_.target, {&exprs, 1}), last);
    for_leading_inner(row, 0, {}, [&](const Lanes& at, std::span<llvm::Value* const>) {
      for_lanes(c_, constant(0), constant(last), width, last % width == 0,
                [&](llvm::Value* column, int active_width, llvm::Value* mask) {
                  Lanes lanes = at;
                  lanes.indices.back() = column;
                  lanes.width = active_width;
                  lanes.lane_dim =
                      active_width == 1 ? -1 : static_cast<std::int32_t>(lanes.indices.size()) - 1;
                  lanes.mask = mask;
                  const Values values = emit_exprs(c_, stage.exprs, lanes, carried);
                  emit_stores(c_, stage.stores, values, stage.exprs, lanes);
                });
      return Values{};
    });
  }

  /// A row that is not one run of memory and whose runs are no multiple of kLanes: lanes rotate
  /// from run to run, so the accumulators live in memory and elements come one by one.
  void emit_scattered_stage(const RowBody::Stage& stage, const std::vector<Reducer>& reduce,
                            const Lanes& row, Values& carried) {
    struct Slots {
      llvm::Value *value, *index;
      llvm::Type* type;
    };
    std::vector<Slots> slots;
    const std::int64_t used = std::min(row_length_, kLanes);
    for (const Reducer& reducer : reduce) {
      llvm::Type* type = reducer.start(1).value->getType();
      auto array = [&](llvm::Type* element) {
        llvm::IRBuilder<> entry(&c_.function->getEntryBlock(),
                                c_.function->getEntryBlock().begin());
        llvm::AllocaInst* memory = entry.CreateAlloca(element, entry.getInt64(kLanes));
        memory->setAlignment(llvm::Align(64));
        return memory;
      };
      slots.push_back(
          {array(type), reducer.keeps_index() ? array(ir_.getInt64Ty()) : nullptr, type});
    }
    auto at = [&](llvm::Value* base, llvm::Type* type, llvm::Value* lane) {
      return ir_.CreateInBoundsGEP(type, base, lane);
    };
    auto read = [&](const Slots& slot, llvm::Value* lane) {
      Accumulated a{.value = ir_.CreateLoad(slot.type, at(slot.value, slot.type, lane))};
      if (slot.index)
        a.index = ir_.CreateLoad(ir_.getInt64Ty(), at(slot.index, ir_.getInt64Ty(), lane));
      return a;
    };
    auto write = [&](const Slots& slot, llvm::Value* lane, const Accumulated& a) {
      ir_.CreateStore(a.value, at(slot.value, slot.type, lane));
      if (slot.index) ir_.CreateStore(a.index, at(slot.index, ir_.getInt64Ty(), lane));
    };

    emit_for(c_, constant(0), constant(used), 1, [&](llvm::Value* lane) {
      for (std::size_t r = 0; r < reduce.size(); ++r) write(slots[r], lane, reduce[r].start(1));
    });
    for_leading_inner(row, 0, {}, [&](const Lanes& run, std::span<llvm::Value* const>) {
      emit_for(c_, constant(0), constant(body_.inner.back()), 1, [&](llvm::Value* column) {
        Lanes lanes = run;
        lanes.indices.back() = column;
        llvm::Value* position = linear_position(lanes);
        llvm::Value* lane = ir_.CreateAnd(position, constant(kLanes - 1));
        const Values values = emit_exprs(c_, stage.exprs, lanes, carried);
        emit_stores(c_, stage.stores, values, stage.exprs, lanes);
        for (std::size_t r = 0; r < reduce.size(); ++r) {
          const auto value = static_cast<std::size_t>(stage.reductions[r].value);
          write(slots[r], lane,
                reduce[r].combine(
                    read(slots[r], lane),
                    reduce[r].elements(values[value], stage.exprs[value].dtype, position, 1, false),
                    1));
        }
      });
      return Values{};
    });
    // The tree, in memory too: kLanes is a power of two, `used` need not be.
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
      emit_for(c_, constant(0), constant(std::min(half, used - half)), 1, [&](llvm::Value* lane) {
        llvm::Value* partner = ir_.CreateAdd(lane, constant(half));
        for (std::size_t r = 0; r < reduce.size(); ++r)
          write(slots[r], lane,
                reduce[r].combine(read(slots[r], lane), read(slots[r], partner), 1));
      });
    for (std::size_t r = 0; r < reduce.size(); ++r)
      carried.push_back(reduce[r].finish(read(slots[r], constant(0)), 1));
  }

  // ---- columns ---------------------------------------------------------------------------------

  std::int64_t emit_columns() {
    std::vector<const std::vector<Store>*> stores;
    for (const RowBody::Stage& stage : body_.stages) stores.push_back(&stage.stores);
    lane_dim_ = best_lane_dim(body_.outer, 0, all_exprs_, stores);
    const std::int64_t columns =
        lane_dim_ < 0 ? 1 : body_.outer[static_cast<std::size_t>(lane_dim_)];
    width_ = lane_dim_ < 0 ? 1 : fit_width(c_.target, vector_width(c_.target, all_exprs_), columns);

    Shape other_sizes;
    std::vector<std::size_t> other_dims;
    for (std::size_t d = 0; d < body_.outer.size(); ++d)
      if (static_cast<std::int32_t>(d) != lane_dim_) {
        other_sizes.push_back(body_.outer[d]);
        other_dims.push_back(d);
      }
    const std::int64_t others = element_count(other_sizes);

    const std::int64_t in_flight =
        std::clamp<std::int64_t>(columns / width_, 1, vectors_in_flight());
    const std::int64_t group = in_flight * width_;
    const std::int64_t whole_groups = columns / group;
    const std::int64_t left = columns - whole_groups * group;
    const std::int64_t groups = whole_groups + (left > 0);
    const double group_ns = static_cast<double>(group * row_length_) * std::max(element_ns_, 0.01);
    const std::int64_t task_groups =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(8000 / group_ns), 1, groups);
    const std::int64_t blocks = ceil_div(groups, task_groups);

    emit_for(c_, c_.task_begin(), c_.task_end(), 1, [&](llvm::Value* task) {
      llvm::Value* other = ir_.CreateUDiv(task, constant(blocks));
      llvm::Value* block = ir_.CreateURem(task, constant(blocks));
      const Values other_indices = unravel(c_, other, other_sizes);
      Lanes base;
      base.indices.resize(body_.outer.size() + body_.inner.size(), constant(0));
      for (std::size_t k = 0; k < other_dims.size(); ++k)
        base.indices[other_dims[k]] = other_indices[k];
      llvm::Value* begin = ir_.CreateNSWMul(block, constant(task_groups));
      llvm::Value* end = ir_.CreateNSWAdd(begin, constant(task_groups));
      auto limited = [&](std::int64_t limit) {
        return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, constant(limit));
      };
      emit_for(c_, begin, limited(whole_groups), 1, [&](llvm::Value* g) {
        emit_column_group(base, ir_.CreateNSWMul(g, constant(group)), group, width_);
      });
      if (left == 0) return;
      // The last, incomplete group, in the block that it falls into.
      llvm::Value* first =
          ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, constant(whole_groups));
      emit_for(c_, first, limited(groups), 1, [&](llvm::Value*) {
        const std::int64_t start = whole_groups * group;
        const std::int64_t vector_columns = has_avx512(c_.target) ? left : left / width_ * width_;
        if (vector_columns > 0) emit_column_group(base, constant(start), vector_columns, width_);
        if (vector_columns < left)
          emit_for(c_, constant(start + vector_columns), constant(columns), 1,
                   [&](llvm::Value* column) { emit_column_group(base, column, 1, 1); });
      });
    });
    return others * blocks;
  }

  /// More in flight for cheap bodies; a dear one fills the registers alone.
  std::int64_t vectors_in_flight() const {
    std::size_t weight = 0;
    for (const RowBody::Stage& stage : body_.stages)
      weight =
          std::max(weight, stage.exprs.size() * std::max<std::size_t>(stage.reductions.size(), 1));
    return weight <= 4 ? 8 : weight <= 10 ? 4 : 2;
  }

  /// All stages for `count` neighbouring columns from `start` on.
  void emit_column_group(const Lanes& base, llvm::Value* start, std::int64_t count, int width) {
    const std::int64_t vectors = ceil_div(count, width);
    std::vector<Lanes> groups;
    for (std::int64_t v = 0; v < vectors; ++v) {
      Lanes lanes = base;
      if (lane_dim_ >= 0)
        lanes.indices[static_cast<std::size_t>(lane_dim_)] =
            ir_.CreateAdd(start, constant(v * width));
      lanes.lane_dim = width == 1 ? -1 : lane_dim_;
      lanes.width = width;
      lanes.mask = leading_lanes(c_, count - v * width, width);
      groups.push_back(lanes);
    }
    std::vector<Values> carried(groups.size());
    for (const RowBody::Stage& stage : body_.stages) {
      const std::vector<Reducer> reduce = reducers(stage);
      Values state;
      for (const Reducer& reducer : reduce)
        for (std::int64_t v = 0; v < vectors; ++v) put(state, reducer, reducer.start(width));
      state = for_inner(base, 0, state, [&](const Lanes& at, std::span<llvm::Value* const> old) {
        Values next(old.begin(), old.end());
        for (std::size_t v = 0; v < groups.size(); ++v) {
          Lanes lanes = groups[v];
          for (std::size_t d = 0; d < body_.inner.size(); ++d)
            lanes.indices[body_.outer.size() + d] = at.indices[body_.outer.size() + d];
          const Values values = emit_exprs(c_, stage.exprs, lanes, carried[v]);
          emit_stores(c_, stage.stores, values, stage.exprs, lanes);
          for (std::size_t r = 0; r < reduce.size(); ++r) {
            const auto value = static_cast<std::size_t>(stage.reductions[r].value);
            const std::size_t slot = slot_of(reduce, r, vectors, static_cast<std::int64_t>(v));
            const Accumulated x = reduce[r].elements(values[value], stage.exprs[value].dtype,
                                                     linear_position(lanes), width, true);
            set(next, slot, reduce[r], reduce[r].combine(get(next, slot, reduce[r]), x, width));
          }
        }
        return next;
      });
      for (std::size_t v = 0; v < groups.size(); ++v)
        for (std::size_t r = 0; r < reduce.size(); ++r)
          carried[v].push_back(reduce[r].finish(
              get(state, slot_of(reduce, r, vectors, static_cast<std::int64_t>(v)), reduce[r]),
              width));
    }
    for (std::size_t v = 0; v < groups.size(); ++v) emit_final(groups[v], carried[v]);
  }

  /// Loops over all inner dimensions.
  Values for_inner(const Lanes& at, std::size_t dimension, const Values& state,
                   const std::function<Values(const Lanes&, std::span<llvm::Value* const>)>& body) {
    if (dimension == body_.inner.size()) return body(at, state);
    return emit_for(c_, constant(0), constant(body_.inner[dimension]), 1, state,
                    [&](llvm::Value* i, std::span<llvm::Value* const> old) {
                      Lanes next = at;
                      next.indices[body_.outer.size() + dimension] = i;
                      return for_inner(next, dimension + 1, Values(old.begin(), old.end()), body);
                    });
  }

  // ---- accumulators as a flat list of loop-carried values ---------------------------------------

  static void put(Values& state, const Reducer& reducer, const Accumulated& a) {
    state.push_back(a.value);
    if (reducer.keeps_index()) state.push_back(a.index);
  }
  static std::size_t slot_of(const std::vector<Reducer>& reduce, std::size_t r,
                             std::int64_t vectors, std::int64_t v) {
    std::size_t slot = 0;
    for (std::size_t k = 0; k < r; ++k)
      slot += static_cast<std::size_t>(vectors) * (reduce[k].keeps_index() ? 2 : 1);
    return slot + static_cast<std::size_t>(v) * (reduce[r].keeps_index() ? 2 : 1);
  }
  static Accumulated get(std::span<llvm::Value* const> state, std::size_t slot,
                         const Reducer& reducer) {
    return {.value = state[slot], .index = reducer.keeps_index() ? state[slot + 1] : nullptr};
  }
  static void set(Values& state, std::size_t slot, const Reducer& reducer, const Accumulated& a) {
    state[slot] = a.value;
    if (reducer.keeps_index()) state[slot + 1] = a.index;
  }

  HostContext& c_;
  llvm::IRBuilder<>& ir_;
  RowBody body_;
  std::int64_t rows_ = 0, row_length_ = 0;
  double element_ns_ = 0, row_ns_ = 0;
  std::vector<const std::vector<Expr>*> all_exprs_;
  std::int32_t lane_dim_ = -1;
  int width_ = 1;
};

}  // namespace

runtime::KernelGeometry emit_row(HostContext& context, const RowBody& body) {
  return RowEmitter(context, body).emit();
}

}  // namespace riffle::codegen
