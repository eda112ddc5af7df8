// Rows and columns that are long and few: a block's threads evaluate elements side by side, and
// some of them fold what the others computed, in order.
//
//   evaluate   thread i computes the vectors i, i + threads, … of a sweep and writes them to shared
//              memory, vector v at v · width.
//   fold       there are `lanes` independent chains: the 64 lanes of a row, or one for each of the
//              block's columns. Element s · lanes + j of the sweep is step s of chain j, which
//              thread j folds.
//
// Two buffers: while sweep n is folded, sweep n + 1 is loaded and evaluated; one barrier a sweep.
// A reduction's chains are as sequential as its order says; what a block adds is memory traffic in
// flight. Start reading at BlockEmitter::emit.
#include <algorithm>
#include <map>

#include "codegen/nvptx/row_parts.h"

namespace riffle::codegen {
namespace {

constexpr std::int64_t kSharedBytes = 40 << 10;  ///< static shared memory that is always there
constexpr std::int64_t kWarp = 32;
/// Vectors of columns side by side in a block: at least 128 bytes in a row of memory.
constexpr std::int64_t kColumnVectors = 8, kScalarColumns = 32;
/// Steps whose reads from shared memory are in flight together.
constexpr std::int64_t kFoldUnrolled = 32;

class BlockEmitter {
 public:
  BlockEmitter(NvptxContext& context, const RowProblem& row)
      : c_(context), ir_(context.ir), row_(row), body_(row.body) {}

  GridShape emit() {
    plan();
    const GridShape shape{.blocks = {blocks_, 1, 1}, .threads = threads_};
    thread_ = c_.thread(threads_);
    enter(c_.block(blocks_));
    if (shared_bytes_ > 0) shared_ = c_.shared_array(ir_.getInt8Ty(), shared_bytes_, "fold");
    Values carried;
    for (const RowBody::Stage& stage : body_.stages) emit_stage(stage, carried);
    if (!body_.final_stores.empty()) emit_final(carried);
    ir_.CreateRetVoid();
    return shape;
  }

 private:
  // ---- shape -----------------------------------------------------------------------------------

  void plan() {
    const std::size_t outer = body_.outer.size();
    if (body_.lanes) {
      lane_dim_ = static_cast<std::int32_t>(outer + body_.inner.size()) - 1;
      width_ = access_width(c_, row_.exprs(), row_.stores(), lane_dim_, body_.inner.back(), true);
      lanes_ = kLanes;
      blocks_ = row_.rows;
      threads_ = row_.length >= 16384 && row_.rows <= 264 ? 512 : row_.length >= 4096 ? 256 : 128;
    } else {
      std::vector<const std::vector<Store>*> stores = row_.stores();
      stores.push_back(&body_.final_stores);
      lane_dim_ = best_lane_dim(body_.outer, 0, row_.exprs(), stores);
      columns_ = lane_dim_ < 0 ? 1 : body_.outer[static_cast<std::size_t>(lane_dim_)];
      width_ = access_width(c_, row_.exprs(), stores, lane_dim_, columns_, true);
      while (width_ > 4) width_ /= 2;  // more blocks
      across_ = width_ == 1 ? kScalarColumns : kColumnVectors;
      lanes_ = across_ * width_;
      column_blocks_ = divide_up(columns_, lanes_);
      blocks_ = row_.rows / columns_ * column_blocks_;
      threads_ = 256;
    }
    std::int64_t element_bytes = 0;
    for (const RowBody::Stage& stage : body_.stages) {
      std::int64_t bytes = 0;
      for (const RowBody::Reduction& reduction : stage.reductions)
        bytes += size_of(compute_dtype(reduction.dtype));
      element_bytes = std::max(element_bytes, bytes);
    }
    auto buffers = [&](std::int64_t vectors) {
      return 2 * threads_ * width_ * vectors * element_bytes;
    };
    while (buffers(1) > kSharedBytes && threads_ > 128) threads_ /= 2;
    while (buffers(1) > kSharedBytes && width_ > 1) {
      width_ /= 2;
      if (!body_.lanes) {
        across_ = width_ == 1 ? kScalarColumns : kColumnVectors;
        lanes_ = across_ * width_;
        column_blocks_ = divide_up(columns_, lanes_);
        blocks_ = row_.rows / columns_ * column_blocks_;
      }
    }
    vectors_ = 1;
    while (vectors_ < 4 && buffers(2 * vectors_) <= kSharedBytes / 2 &&
           2 * vectors_ * vector_elements() <= row_.length)
      vectors_ *= 2;
    // Results, and half of the lanes on their way to the other half, use the buffers too.
    if (element_bytes > 0) shared_bytes_ = std::max<std::int64_t>(buffers(vectors_), 128 * 16);
    if (lane_dim_ >= 0 && width_ == 1) lane_dim_ = -1;
  }

  /// Reduced elements that all threads advance by, for one vector each.
  std::int64_t vector_elements() const {
    return body_.lanes ? threads_ * width_ : threads_ / across_;
  }
  std::int64_t sweep_elements() const { return vectors_ * vector_elements(); }
  std::int64_t sweep_steps() const { return threads_ * width_ * vectors_ / lanes_; }

  /// The block's place in the outer space.
  void enter(llvm::Value* block) {
    base_.indices.assign(body_.outer.size() + body_.inner.size(), c_.index(0));
    base_.width = width_;
    base_.lane_dim = lane_dim_;
    base_.lane_alignment = width_;
    if (body_.lanes) {
      std::ranges::copy(unravel(c_, block, body_.outer), base_.indices.begin());
      return;
    }
    const std::int32_t lane_dim = column_dim();
    Shape others;
    std::vector<std::size_t> dims;
    for (std::size_t d = 0; d < body_.outer.size(); ++d)
      if (static_cast<std::int32_t>(d) != lane_dim) {
        others.push_back(body_.outer[d]);
        dims.push_back(d);
      }
    const Values indices = unravel(c_, ir_.CreateUDiv(block, c_.index(column_blocks_)), others);
    for (std::size_t k = 0; k < dims.size(); ++k) base_.indices[dims[k]] = indices[k];
    llvm::Value* start =
        ir_.CreateNSWMul(ir_.CreateURem(block, c_.index(column_blocks_)), c_.index(lanes_));
    llvm::Value* own =
        ir_.CreateNSWMul(ir_.CreateURem(thread_, c_.index(across_)), c_.index(width_));
    llvm::Value* column = ir_.CreateNSWAdd(start, own);
    if (columns_ % lanes_ != 0) has_column_ = ir_.CreateICmpSLT(column, c_.index(columns_));
    if (lane_dim >= 0) base_.indices[static_cast<std::size_t>(lane_dim)] = column;
  }

  std::int32_t column_dim() const {
    if (lane_dim_ >= 0) return lane_dim_;
    std::vector<const std::vector<Store>*> stores = row_.stores();
    stores.push_back(&body_.final_stores);
    return best_lane_dim(body_.outer, 0, row_.exprs(), stores);
  }

  // ---- evaluate --------------------------------------------------------------------------------

  /// The reduced position of this thread's vector `v` of the sweep that starts at `start`.
  llvm::Value* position(llvm::Value* start, std::int64_t offset, std::int64_t v) {
    llvm::Value* own = body_.lanes ? ir_.CreateNSWMul(thread_, c_.index(width_))
                                   : ir_.CreateUDiv(thread_, c_.index(across_));
    return ir_.CreateNSWAdd(ir_.CreateNSWAdd(start, own), c_.index(offset + v * vector_elements()));
  }

  /// Evaluates, stores, and returns what is reduced, as accumulators of `width`.
  std::vector<Accumulated> evaluate(const RowBody::Stage& stage, const std::vector<Reducer>& reduce,
                                    const Values& carried, llvm::Value* at, KeptLoads* kept) {
    Lanes lanes = base_;
    std::ranges::copy(unravel(c_, at, body_.inner),
                      lanes.indices.begin() + static_cast<std::ptrdiff_t>(body_.outer.size()));
    const Values values = emit_exprs(c_, stage.exprs, lanes, carried,
                                     kept ? kept->choice(stage.exprs) : ExprChoice{});
    if (kept) kept->keep(stage.exprs, values);
    emit_stores(c_, stage.stores, values, stage.exprs, lanes);
    std::vector<Accumulated> elements;
    for (std::size_t r = 0; r < reduce.size(); ++r) {
      const auto value = static_cast<std::size_t>(stage.reductions[r].value);
      elements.push_back(reduce[r].elements(values[value], stage.exprs[value].dtype,
                                            ir_.getInt64(0), width_, true));
    }
    return elements;
  }

  // ---- shared memory ---------------------------------------------------------------------------

  /// Booleans take a byte there.
  llvm::Type* stored_type(const Reducer& reducer) const {
    llvm::Type* type = reducer.start(1).value->getType();
    return type->isIntegerTy(1) ? ir_.getInt8Ty() : type;
  }
  std::int64_t stored_bytes(const Reducer& reducer) const {
    return static_cast<std::int64_t>(stored_type(reducer)->getScalarSizeInBits()) / 8;
  }
  llvm::Value* place(const std::vector<Reducer>& reduce, std::size_t r, llvm::Value* buffer,
                     llvm::Value* element) {
    const std::int64_t count = threads_ * width_ * vectors_;
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < r; ++k) offset += 2 * count * stored_bytes(reduce[k]);
    llvm::Value* base = ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), shared_,
                                                       static_cast<std::uint64_t>(offset));
    element = ir_.CreateNSWAdd(element, ir_.CreateNSWMul(buffer, c_.index(count)));
    return ir_.CreateInBoundsGEP(stored_type(reduce[r]), base, element);
  }
  llvm::Value* to_stored(llvm::Value* value) {
    llvm::Type* type = value->getType();
    if (!type->getScalarType()->isIntegerTy(1)) return value;
    return ir_.CreateZExt(value, type->getWithNewType(ir_.getInt8Ty()));
  }
  llvm::Value* from_stored(llvm::Value* value, llvm::Type* wanted) {
    return value->getType() == wanted ? value : ir_.CreateTrunc(value, wanted);
  }
  llvm::Align align_of(const Reducer& reducer, std::int64_t elements) const {
    return llvm::Align(
        static_cast<std::uint64_t>(std::min<std::int64_t>(elements * stored_bytes(reducer), 16)));
  }

  // ---- stages ----------------------------------------------------------------------------------

  void emit_stage(const RowBody::Stage& stage, Values& carried) {
    const std::vector<Reducer> reduce = reducers(c_, stage);
    RowState state = start_state(reduce, 1, 1);
    const std::int64_t sweep = sweep_elements(), whole = row_.length / sweep;
    const bool unrolled = may_unroll(row_, divide_up(row_.length, sweep) * vectors_ * width_) &&
                          has_column_ == nullptr;
    auto one = [&](llvm::Value* start, std::int64_t offset, llvm::Value* buffer, bool is_tail) {
      emit_sweep(stage, reduce, carried, start, offset, buffer, is_tail, unrolled, state);
    };
    if (unrolled) {
      for (std::int64_t n = 0; n < whole; ++n) one(c_.index(0), n * sweep, c_.index(n % 2), false);
    } else {
      state = grouped(reduce,
                      emit_for(c_, c_.index(0), c_.index(whole), 1, flat(reduce, state),
                               [&](llvm::Value* n, std::span<llvm::Value* const> old) {
                                 state = grouped(reduce, old, 1);
                                 one(ir_.CreateNSWMul(n, c_.index(sweep)), 0,
                                     ir_.CreateAnd(n, c_.index(1)), false);
                                 return flat(reduce, state);
                               }),
                      1);
    }
    if (row_.length % sweep != 0) one(c_.index(0), whole * sweep, c_.index(whole % 2), true);
    if (!reduce.empty()) share_results(reduce, state, carried);
  }

  void emit_sweep(const RowBody::Stage& stage, const std::vector<Reducer>& reduce,
                  const Values& carried, llvm::Value* start, std::int64_t offset,
                  llvm::Value* buffer, bool is_tail, bool unrolled, RowState& state) {
    std::vector<std::vector<Accumulated>> vectors;
    for (std::int64_t v = 0; v < vectors_; ++v) {
      llvm::Value* at = position(start, offset, v);
      llvm::Value* inside = has_column_;
      // A vector of a row lies inside as a whole: the length is a multiple of its width.
      if (is_tail && offset + (v + 1) * vector_elements() > row_.length) {
        llvm::Value* below = ir_.CreateICmpSLT(at, c_.index(row_.length));
        inside = inside ? ir_.CreateAnd(inside, below) : below;
      }
      if (!inside) {
        vectors.push_back(evaluate(stage, reduce, carried, at,
                                   unrolled ? &kept_[offset + v * vector_elements()] : nullptr));
        continue;
      }
      // Neutral elements fold without a trace.
      RowState elements = start_state(reduce, 1, width_);
      for (std::vector<Accumulated>& a : elements) a[0].index = nullptr;
      Values neutral, found;
      for (const std::vector<Accumulated>& a : elements) neutral.push_back(a[0].value);
      llvm::BasicBlock* from = ir_.GetInsertBlock();
      llvm::BasicBlock* end = nullptr;
      emit_if(c_, inside, [&] {
        for (const Accumulated& a : evaluate(stage, reduce, carried, at, nullptr))
          found.push_back(a.value);
        end = ir_.GetInsertBlock();
      });
      std::vector<Accumulated> joined;
      for (std::size_t r = 0; r < reduce.size(); ++r) {
        llvm::PHINode* phi = ir_.CreatePHI(neutral[r]->getType(), 2);
        phi->addIncoming(neutral[r], from);
        phi->addIncoming(found[r], end);
        joined.push_back({.value = phi});
      }
      vectors.push_back(joined);
    }
    if (reduce.empty()) return;
    for (std::int64_t v = 0; v < vectors_; ++v)
      for (std::size_t r = 0; r < reduce.size(); ++r) {
        llvm::Value* element =
            ir_.CreateNSWMul(ir_.CreateNSWAdd(thread_, c_.index(v * threads_)), c_.index(width_));
        ir_.CreateAlignedStore(to_stored(vectors[static_cast<std::size_t>(v)][r].value),
                               place(reduce, r, buffer, element), align_of(reduce[r], width_));
      }
    c_.barrier();
    when(c_, ir_.CreateICmpSLT(thread_, c_.index(lanes_)), reduce, state, 1, [&] {
      const std::int64_t steps = sweep_steps(), unroll = std::min(steps, kFoldUnrolled);
      state = grouped(reduce,
                      emit_for(c_, c_.index(0), c_.index(steps), unroll, flat(reduce, state),
                               [&](llvm::Value* step, std::span<llvm::Value* const> old) {
                                 RowState inner = grouped(reduce, old, 1);
                                 for (std::int64_t k = 0; k < unroll; ++k)
                                   fold_step(reduce, buffer, ir_.CreateNSWAdd(step, c_.index(k)),
                                             ir_.CreateNSWAdd(start, c_.index(offset)), inner);
                                 return flat(reduce, inner);
                               }),
                      1);
    });
  }

  void fold_step(const std::vector<Reducer>& reduce, llvm::Value* buffer, llvm::Value* step,
                 llvm::Value* sweep_start, RowState& state) {
    llvm::Value* element = ir_.CreateNSWAdd(ir_.CreateNSWMul(step, c_.index(lanes_)), thread_);
    for (std::size_t r = 0; r < reduce.size(); ++r) {
      llvm::Value* value = ir_.CreateAlignedLoad(
          stored_type(reduce[r]), place(reduce, r, buffer, element), align_of(reduce[r], 1));
      Accumulated x{.value = from_stored(value, state[r][0].value->getType())};
      // Neutral elements beyond the end have a late position: they lose every tie.
      if (reduce[r].keeps_index())
        x.index = ir_.CreateZExt(ir_.CreateNSWAdd(sweep_start, body_.lanes ? element : step),
                                 ir_.getInt64Ty());
      state[r][0] = reduce[r].combine(state[r][0], x, 1);
    }
  }

  // ---- results ---------------------------------------------------------------------------------

  /// Finishes the chains and gives every thread what it needs of the results, in register form.
  void share_results(const std::vector<Reducer>& reduce, RowState& state, Values& carried) {
    for (std::size_t r = 0; r < reduce.size(); ++r) {
      c_.barrier();  // the buffers are free
      if (body_.lanes)
        carried.push_back(share_row(reduce[r], state[r][0]));
      else
        carried.push_back(share_columns(reduce[r], state[r][0]));
    }
    c_.barrier();  // they are read
  }

  llvm::Value* shared_slot(llvm::Type* type, llvm::Value* index, std::int64_t byte = 0) {
    llvm::Value* base =
        ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), shared_, static_cast<std::uint64_t>(byte));
    return ir_.CreateInBoundsGEP(type, base, index);
  }
  llvm::Align natural(llvm::Type* type) const {
    return llvm::Align(static_cast<std::uint64_t>(type->getScalarSizeInBits()) / 8);
  }
  llvm::Type* shared_form(llvm::Type* type) const {
    return type->isIntegerTy(1) ? ir_.getInt8Ty() : type;
  }

  /// The tree: lanes 32 … 63 come to the first warp, which shuffles; then one thread tells all.
  llvm::Value* share_row(const Reducer& reducer, const Accumulated& lane) {
    constexpr std::int64_t kIndexAt = 512, kResultAt = 1024;
    llvm::Type* type = shared_form(lane.value->getType());
    llvm::Value* upper = ir_.CreateAnd(ir_.CreateICmpSGE(thread_, c_.index(kWarp)),
                                       ir_.CreateICmpSLT(thread_, c_.index(kLanes)));
    emit_if(c_, upper, [&] {
      llvm::Value* slot = ir_.CreateNSWSub(thread_, c_.index(kWarp));
      ir_.CreateAlignedStore(to_stored(lane.value), shared_slot(type, slot), natural(type));
      if (lane.index)
        ir_.CreateAlignedStore(lane.index, shared_slot(ir_.getInt64Ty(), slot, kIndexAt),
                               llvm::Align(8));
    });
    c_.barrier();
    llvm::Type* result_type = nullptr;
    emit_if(c_, ir_.CreateICmpSLT(thread_, c_.index(kWarp)), [&] {
      Accumulated other{.value = from_stored(
                            ir_.CreateAlignedLoad(type, shared_slot(type, thread_), natural(type)),
                            lane.value->getType())};
      if (lane.index)
        other.index = ir_.CreateAlignedLoad(
            ir_.getInt64Ty(), shared_slot(ir_.getInt64Ty(), thread_, kIndexAt), llvm::Align(8));
      Accumulated a = reducer.combine(lane, other, 1);
      llvm::Value* members = ir_.getInt32(0xffffffff);
      for (int partner = kWarp / 2; partner > 0; partner /= 2) {
        const Accumulated across{
            .value = c_.shuffle_xor(a.value, partner, members),
            .index = a.index ? c_.shuffle_xor(a.index, partner, members) : nullptr};
        a = reducer.combine(a, across, 1);
      }
      llvm::Value* result = reducer.finish(a, 1);
      result_type = result->getType();
      emit_if(c_, ir_.CreateICmpEQ(thread_, c_.index(0)), [&] {
        llvm::Type* form = shared_form(result_type);
        ir_.CreateAlignedStore(to_stored(result), shared_slot(form, c_.index(0), kResultAt),
                               natural(form));
      });
    });
    c_.barrier();
    llvm::Type* form = shared_form(result_type);
    return from_stored(
        ir_.CreateAlignedLoad(form, shared_slot(form, c_.index(0), kResultAt), natural(form)),
        result_type);
  }

  llvm::Value* share_columns(const Reducer& reducer, const Accumulated& chain) {
    llvm::Value* result = reducer.finish(chain, 1);
    llvm::Type* form = shared_form(result->getType());
    emit_if(c_, ir_.CreateICmpSLT(thread_, c_.index(lanes_)), [&] {
      ir_.CreateAlignedStore(to_stored(result), shared_slot(form, thread_), natural(form));
    });
    c_.barrier();
    llvm::Value* first =
        ir_.CreateNSWMul(ir_.CreateURem(thread_, c_.index(across_)), c_.index(width_));
    llvm::Type* vector =
        width_ == 1 ? form : llvm::FixedVectorType::get(form, static_cast<unsigned>(width_));
    llvm::Type* wanted =
        width_ == 1 ? result->getType()
                    : llvm::FixedVectorType::get(result->getType(), static_cast<unsigned>(width_));
    return from_stored(ir_.CreateAlignedLoad(vector, shared_slot(form, first), natural(form)),
                       wanted);
  }

  void emit_final(const Values& carried) {
    // One thread a row; the first thread of each vector of columns.
    Lanes lanes = base_;
    llvm::Value* chosen = ir_.CreateICmpSLT(thread_, c_.index(body_.lanes ? 1 : across_));
    if (body_.lanes) {
      lanes.width = 1;
      lanes.lane_dim = -1;
      lanes.lane_alignment = 1;
    }
    if (has_column_) chosen = ir_.CreateAnd(chosen, has_column_);
    emit_if(c_, chosen, [&] {
      const Values values = emit_exprs(c_, body_.final_exprs, lanes, carried);
      emit_stores(c_, body_.final_stores, values, body_.final_exprs, lanes);
    });
  }

  NvptxContext& c_;
  llvm::IRBuilder<>& ir_;
  const RowProblem& row_;
  const RowBody& body_;
  int width_ = 1;
  std::int32_t lane_dim_ = -1;
  std::int64_t lanes_ = kLanes, threads_ = 256, blocks_ = 1, vectors_ = 1, shared_bytes_ = 0;
  std::int64_t columns_ = 1, across_ = 1, column_blocks_ = 1;  ///< columns only
  llvm::Value *thread_ = nullptr, *shared_ = nullptr;
  llvm::Value* has_column_ = nullptr;  ///< null: always
  Lanes base_;
  std::map<std::int64_t, KeptLoads> kept_;
};

}  // namespace

bool block_suits_lanes(const RowProblem& row, std::int64_t team) {
  if (row.length < 1024) return false;
  const bool stays = may_unroll(row, divide_up(row.length, kLanes) * kLanes / team);
  return !stays || row.rows * team < (1 << 14);
}

bool block_suits_columns(const RowProblem& row, std::int64_t threads) {
  return row.length >= 64 && threads < (1 << 15);
}

GridShape emit_row_block(NvptxContext& context, const RowProblem& row) {
  return BlockEmitter(context, row).emit();
}

}  // namespace riffle::codegen
