// ScatterBody → one or two grids; no atomics, so the order of contributions is the CPU's.
//
// Points of the space that differ in a dimension with a stride of its own ("parallel") write
// different elements; those that differ only in the others ("serial", the scattered dimension) may
// meet and are taken in row-major order. Three ways:
//
//   warps    where the index is the same for all parallel points (an embedding's gradient): a warp
//            for every index and up to 32 vectors of columns walks over all positions, 32 at once;
//            a ballot says which are its own, and those are added in order, in registers.
//   search   a thread for every vector of out walks over all serial positions and adds those whose
//            index is its own, in registers: one grid, out is written once. The work grows with
//            elements × positions, but it is a load and a comparison that a warp shares.
//   walk     the base is copied; then a thread for every parallel point reads, adds and writes
//            where its indices say. Little work, but each step waits for memory.
//
// Start reading at emit_device_scatter.
#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/emit/scalar_llvm.h"
#include "codegen/nvptx/nvptx_emit.h"
#include "ir/array.h"

namespace riffle::codegen {
namespace {

constexpr std::int64_t kThreads = 128;
/// Serial positions whose indices a thread has in flight.
constexpr std::int64_t kInFlight = 4;
/// Nanoseconds: a step that waits for memory; one whose loads are in flight; one element compared
/// by a thread, and by a lane of a warp that compares for all its columns, over the whole GPU.
constexpr double kWait = 600, kPipelined = 60, kCompare = 2e-4, kCompareWarp = 1e-5;
constexpr std::int64_t kWarp = 32, kBallots = 4;
/// Threads that run at once on a mid-sized GPU.
constexpr double kResident = 1 << 17;

/// The space's dimensions, told apart.
struct Division {
  std::vector<std::size_t> parallel, serial;
  Shape serial_shape;
  std::int64_t parallel_points = 1, serial_points = 1;
};

Division divide(const ScatterBody& body) {
  Division d;
  for (std::size_t k = 0; k < body.space.size(); ++k) {
    if (body.address.strides[k] != 0 && body.space[k] > 1) {
      d.parallel.push_back(k);
      d.parallel_points *= body.space[k];
    } else {
      d.serial.push_back(k);
      d.serial_shape.push_back(body.space[k]);
      d.serial_points *= body.space[k];
    }
  }
  return d;
}

bool varies_along(const ScatterBody& body, const std::vector<bool>& needed, std::size_t dimension) {
  for (std::size_t e = 0; e < body.exprs.size(); ++e) {
    const Expr& expr = body.exprs[e];
    if (!needed[e]) continue;
    if (!expr.address.strides.empty() && expr.address.strides[dimension] != 0) return true;
    for (const Guard& guard : expr.guards)
      if (guard.value.strides[dimension] != 0) return true;
  }
  return false;
}

/// out is a matrix of rows that an index picks, the same for all columns.
bool picks_rows(const ScatterBody& body, const Division& division) {
  if (division.parallel.size() != 1 || division.serial_points < kWarp) return false;
  const std::size_t d = division.parallel[0];
  const ExprId index[] = {body.index};
  return body.address.strides[d] == 1 && body.address.offset == 0 &&
         body.index_stride == body.space[d] &&
         element_count(body.out_shape) == body.index_stride * body.index_size &&
         !varies_along(body, dependencies(body.exprs, index), d);
}

class Emitter {
 public:
  Emitter(NvptxContext& context, const ScatterBody& body, const Division& division)
      : c_(context),
        ir_(context.ir),
        body_(body),
        division_(division),
        dtype_(context.operand_dtype(body.out)) {
    const ExprId index[] = {body.index}, source[] = {body.source};
    index_needs_ = dependencies(body.exprs, index);
    source_needs_ = dependencies(body.exprs, source);
  }

  GridShape search() {
    const std::int64_t elements = element_count(body_.out_shape);
    choose_width(elements);
    const std::int64_t items = elements / width_;
    const GridShape shape{.blocks = {divide_up(items, kThreads), 1, 1}, .threads = kThreads};
    llvm::Value* item = first_item(shape, items);
    llvm::Value* element = ir_.CreateNSWMul(item, c_.index(width_));
    llvm::Value* belongs = locate(element);
    llvm::Value* own_index = own_index_;

    // The base.
    LlvmScalarBuilder builder(ir_, width_);
    llvm::Value* base = LlvmScalarBuilder::unwrap(builder.constant(dtype_, 0));
    if (body_.base >= 0)
      base = LlvmScalarBuilder::unwrap(builder.from_memory(load(body_.base, element), dtype_));

    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::Value* sum = base;
    llvm::BasicBlock* searched = nullptr;
    emit_if(c_, belongs, [&] {
      llvm::Value* reports = ir_.CreateICmpEQ(own_index, ir_.getInt64(0));
      auto steps = [&](llvm::Value* first, std::int64_t count, llvm::Value* so_far) {
        // All indices first: their loads are in flight together.
        std::vector<Lanes> points;
        std::vector<Values> values;
        for (std::int64_t k = 0; k < count; ++k) {
          points.push_back(lanes_at(ir_.CreateNSWAdd(first, c_.index(k)), width_));
          values.push_back(emit_exprs(c_, body_.exprs, points.back(), {},
                                      {.known = {}, .wanted = index_needs_}));
        }
        for (std::size_t k = 0; k < points.size(); ++k) {
          llvm::Value* index = index_of(values[k]);
          report_bad(index, reports);
          llvm::BasicBlock* from = ir_.GetInsertBlock();
          llvm::Value* added = nullptr;
          llvm::BasicBlock* to = nullptr;
          emit_if(c_, ir_.CreateICmpEQ(index, own_index), [&] {
            added = add(so_far, points[k], values[k], width_);
            to = ir_.GetInsertBlock();
          });
          llvm::PHINode* joined = ir_.CreatePHI(so_far->getType(), 2);
          joined->addIncoming(so_far, from);
          joined->addIncoming(added, to);
          so_far = joined;
        }
        return so_far;
      };
      const std::int64_t count = division_.serial_points;
      const std::int64_t whole = count / kInFlight * kInFlight;
      sum = emit_for(c_, c_.index(0), c_.index(whole), kInFlight, {sum},
                     [&](llvm::Value* s, std::span<llvm::Value* const> old) -> Values {
                       return {steps(s, kInFlight, old[0])};
                     })[0];
      if (whole < count) sum = steps(c_.index(whole), count - whole, sum);
      searched = ir_.GetInsertBlock();
    });
    llvm::PHINode* result = ir_.CreatePHI(base->getType(), 2);
    result->addIncoming(base, before);
    result->addIncoming(sum, searched);
    store(element, builder.to_memory(LlvmScalarBuilder::wrap(result, dtype_)));
    ir_.CreateRetVoid();
    return shape;
  }

  GridShape search_by_warps() {
    choose_width(element_count(body_.out_shape));
    const std::int64_t vectors = body_.index_stride / width_;  // of columns
    const std::int64_t across = divide_up(vectors, kWarp);     // warps beside each other
    const std::int64_t warps = body_.index_size * across, per_block = kThreads / kWarp;
    const GridShape shape{.blocks = {divide_up(warps, per_block), 1, 1}, .threads = kThreads};
    llvm::Value* thread = c_.thread(kThreads);
    llvm::Value* lane = ir_.CreateURem(thread, c_.index(kWarp));
    llvm::Value* of_block = ir_.CreateUDiv(thread, c_.index(kWarp));
    llvm::Value* before = ir_.CreateNSWMul(c_.block(shape.blocks[0]), c_.index(per_block));
    llvm::Value* warp = ir_.CreateNSWAdd(before, of_block);
    if (warps % per_block != 0) c_.keep_threads(ir_.CreateICmpSLT(warp, c_.index(warps)));
    llvm::Value* row = ir_.CreateUDiv(warp, c_.index(across));
    llvm::Value* part = ir_.CreateURem(warp, c_.index(across));
    llvm::Value* vector = ir_.CreateNSWAdd(ir_.CreateNSWMul(part, c_.index(kWarp)), lane);
    // Lanes without a vector help with the ballots.
    llvm::Value* has_vector =
        vectors % kWarp == 0 ? ir_.getTrue() : ir_.CreateICmpSLT(vector, c_.index(vectors));
    parallel_ = {ir_.CreateNSWMul(vector, c_.index(width_))};
    own_index_ = ir_.CreateZExt(row, ir_.getInt64Ty());
    llvm::Value* element =
        ir_.CreateNSWAdd(ir_.CreateNSWMul(row, c_.index(body_.index_stride)), parallel_[0]);
    llvm::Value* reports = ir_.CreateICmpEQ(warp, c_.index(0));

    LlvmScalarBuilder builder(ir_, width_);
    llvm::Value* sum = LlvmScalarBuilder::unwrap(builder.constant(dtype_, 0));
    if (body_.base >= 0)
      sum = joined(sum, has_vector, [&] {
        return LlvmScalarBuilder::unwrap(builder.from_memory(load(body_.base, element), dtype_));
      });
    const std::int64_t positions = division_.serial_points;
    sum = emit_for(c_, c_.index(0), c_.index(positions), kBallots * kWarp, {sum},
                   [&](llvm::Value* start, std::span<llvm::Value* const> old) -> Values {
                     // All ballots first: their loads are in flight together.
                     Values matches, firsts;
                     for (std::int64_t b = 0; b < kBallots; ++b) {
                       llvm::Value* first = ir_.CreateNSWAdd(start, c_.index(b * kWarp));
                       llvm::Value* position = ir_.CreateNSWAdd(first, lane);
                       llvm::Value* inside = positions % (kBallots * kWarp) == 0
                                                 ? ir_.getTrue()
                                                 : ir_.CreateICmpSLT(position, c_.index(positions));
                       position = ir_.CreateSelect(inside, position, c_.index(0));
                       llvm::Value* index =
                           index_of(emit_exprs(c_, body_.exprs, lanes_at(position, 1), {},
                                               {.known = {}, .wanted = index_needs_}));
                       report_bad(index, ir_.CreateAnd(reports, inside));
                       firsts.push_back(first);
                       matches.push_back(
                           c_.ballot(ir_.CreateAnd(inside, ir_.CreateICmpEQ(index, own_index_))));
                     }
                     llvm::Value* so_far = old[0];
                     for (std::size_t b = 0; b < matches.size(); ++b)
                       so_far = add_matches(so_far, firsts[b], matches[b], has_vector);
                     return {so_far};
                   })[0];
    emit_if(c_, has_vector,
            [&] { store(element, builder.to_memory(LlvmScalarBuilder::wrap(sum, dtype_))); });
    ir_.CreateRetVoid();
    return shape;
  }

  GridShape walk() {
    const std::int64_t items = division_.parallel_points;
    const GridShape shape{.blocks = {divide_up(items, kThreads), 1, 1}, .threads = kThreads};
    llvm::Value* item = first_item(shape, items);
    Shape sizes;
    for (std::size_t d : division_.parallel) sizes.push_back(body_.space[d]);
    parallel_ = unravel(c_, item, sizes);
    LlvmScalarBuilder builder(ir_, 1);
    emit_for(c_, c_.index(0), c_.index(division_.serial_points), 1, [&](llvm::Value* s) {
      const Lanes point = lanes_at(s, 1);
      const Values values =
          emit_exprs(c_, body_.exprs, point, {}, {.known = {}, .wanted = index_needs_});
      llvm::Value* index = index_of(values);
      report_bad(index, nullptr);
      emit_if(c_, ir_.CreateICmpULT(index, ir_.getInt64(size())), [&] {
        llvm::Value* element = c_.index(body_.address.offset);
        for (std::size_t d = 0; d < body_.space.size(); ++d)
          if (body_.address.strides[d] != 0)
            element = ir_.CreateNSWAdd(
                element, ir_.CreateNSWMul(point.indices[d], c_.index(body_.address.strides[d])));
        element =
            ir_.CreateNSWAdd(element, ir_.CreateNSWMul(ir_.CreateZExtOrTrunc(index, c_.index_type),
                                                       c_.index(body_.index_stride)));
        llvm::Value* old =
            LlvmScalarBuilder::unwrap(builder.from_memory(load(body_.out, element), dtype_));
        store(element,
              builder.to_memory(LlvmScalarBuilder::wrap(add(old, point, values, 1), dtype_)));
      });
    });
    ir_.CreateRetVoid();
    return shape;
  }

 private:
  std::uint64_t size() const { return static_cast<std::uint64_t>(body_.index_size); }

  llvm::Value* first_item(const GridShape& shape, std::int64_t items) {
    llvm::Value* item = c_.thread_of_grid(shape.blocks[0], kThreads);
    if (items % kThreads != 0) c_.keep_threads(ir_.CreateICmpSLT(item, c_.index(items)));
    return item;
  }

  /// Vectors along a parallel dimension that covers out's innermost one, when the index is the same
  /// all along it.
  void choose_width(std::int64_t elements) {
    for (std::size_t d : division_.parallel) {
      if (body_.address.strides[d] != 1 || body_.out_shape.back() != body_.space[d] ||
          body_.address.offset != 0 || varies_along(body_, index_needs_, d))
        continue;
      const std::vector<Expr>* exprs = &body_.exprs;
      const std::vector<Store> written = {{body_.out, body_.address, body_.source}};
      const std::vector<Store>* stores = &written;
      lane_dim_ = static_cast<std::int32_t>(d);
      width_ = access_width(c_, {&exprs, 1}, {&stores, 1}, lane_dim_, body_.space[d], true);
      while (width_ > 1 && elements / width_ < (1 << 14)) width_ /= 2;
      if (width_ == 1) lane_dim_ = -1;
      return;
    }
  }

  /// Finds an element's parallel indices and its index along the scattered dimension; the result
  /// says whether any point of the space can reach it.
  llvm::Value* locate(llvm::Value* element) {
    struct Digit {
      std::int64_t stride, limit;
      std::size_t parallel;  ///< position in division_.parallel, or its size: the index
    };
    std::vector<Digit> digits;
    for (std::size_t k = 0; k < division_.parallel.size(); ++k) {
      const std::size_t d = division_.parallel[k];
      digits.push_back({body_.address.strides[d], body_.space[d], k});
    }
    // A dimension of size 1 shares its stride with another; its index is 0.
    own_index_ = ir_.getInt64(0);
    if (body_.index_size > 1)
      digits.push_back({body_.index_stride, body_.index_size, division_.parallel.size()});
    std::ranges::stable_sort(digits, std::greater<>{}, &Digit::stride);
    llvm::Value* belongs = ir_.getTrue();
    llvm::Value* rest = element;
    if (body_.address.offset != 0) rest = ir_.CreateNSWSub(rest, c_.index(body_.address.offset));
    parallel_.assign(division_.parallel.size(), nullptr);
    for (const Digit& digit : digits) {
      llvm::Value* value = digit.stride == 1 ? rest : ir_.CreateUDiv(rest, c_.index(digit.stride));
      if (digit.stride != 1) rest = ir_.CreateURem(rest, c_.index(digit.stride));
      belongs = ir_.CreateAnd(belongs, ir_.CreateICmpULT(value, c_.index(digit.limit)));
      if (digit.parallel < parallel_.size())
        parallel_[digit.parallel] = value;
      else
        own_index_ = ir_.CreateZExt(value, ir_.getInt64Ty());
    }
    // What the last digit leaves over.
    if (digits.empty() || digits.back().stride != 1)
      belongs = ir_.CreateAnd(belongs, ir_.CreateICmpEQ(rest, c_.index(0)));
    return belongs;
  }

  Lanes lanes_at(llvm::Value* serial, int width) {
    Lanes lanes{.indices = Values(body_.space.size()),
                .lane_dim = width == 1 ? -1 : lane_dim_,
                .width = width,
                .mask = nullptr,
                .lane_alignment = width};
    const Values serial_indices = unravel(c_, serial, division_.serial_shape);
    for (std::size_t k = 0; k < division_.serial.size(); ++k)
      lanes.indices[division_.serial[k]] = serial_indices[k];
    for (std::size_t k = 0; k < division_.parallel.size(); ++k)
      lanes.indices[division_.parallel[k]] = parallel_[k];
    return lanes;
  }

  llvm::Value* index_of(const Values& values) {
    const auto at = static_cast<std::size_t>(body_.index);
    LlvmScalarBuilder builder(ir_, 1);
    return LlvmScalarBuilder::unwrap(
        builder.cast(LlvmScalarBuilder::wrap(values[at], body_.exprs[at].dtype), DType::i64));
  }

  void report_bad(llvm::Value* index, llvm::Value* reports) {
    llvm::Value* bad = ir_.CreateICmpUGE(index, ir_.getInt64(size()));
    if (reports) bad = ir_.CreateAnd(bad, reports);
    emit_if(c_, bad, [&] { c_.report_index(index, body_.index_size); });
  }

  /// sum + the point's source, whose index is known.
  llvm::Value* add(llvm::Value* sum, const Lanes& point, const Values& known, int width) {
    const Values values =
        emit_exprs(c_, body_.exprs, point, {}, {.known = known, .wanted = source_needs_});
    llvm::Value* source = widen(c_, values[static_cast<std::size_t>(body_.source)], width);
    LlvmScalarBuilder builder(ir_, width);
    return LlvmScalarBuilder::unwrap(
        builder.add(LlvmScalarBuilder::wrap(sum, dtype_), LlvmScalarBuilder::wrap(source, dtype_)));
  }

  /// condition ? body() : otherwise
  llvm::Value* joined(llvm::Value* otherwise, llvm::Value* condition,
                      const std::function<llvm::Value*()>& body) {
    llvm::BasicBlock* from = ir_.GetInsertBlock();
    llvm::Value* value = nullptr;
    llvm::BasicBlock* to = nullptr;
    emit_if(c_, condition, [&] {
      value = body();
      to = ir_.GetInsertBlock();
    });
    llvm::PHINode* result = ir_.CreatePHI(otherwise->getType(), 2);
    result->addIncoming(otherwise, from);
    result->addIncoming(value, to);
    return result;
  }

  /// Adds the positions first + n, n a set bit of `matches`, in increasing n.
  llvm::Value* add_matches(llvm::Value* sum, llvm::Value* first, llvm::Value* matches,
                           llvm::Value* has_vector) {
    llvm::LLVMContext& context = c_.module.getContext();
    auto* head = llvm::BasicBlock::Create(context, "matches", c_.function);
    auto* inside = llvm::BasicBlock::Create(context, "match", c_.function);
    auto* after = llvm::BasicBlock::Create(context, "matched", c_.function);
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    ir_.CreateBr(head);
    ir_.SetInsertPoint(head);
    llvm::PHINode* left = ir_.CreatePHI(ir_.getInt32Ty(), 2);
    llvm::PHINode* so_far = ir_.CreatePHI(sum->getType(), 2);
    left->addIncoming(matches, before);
    so_far->addIncoming(sum, before);
    ir_.CreateCondBr(ir_.CreateICmpNE(left, ir_.getInt32(0)), inside, after);

    ir_.SetInsertPoint(inside);
    llvm::Value* bit =
        ir_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, /*zero is poison*/ ir_.getTrue());
    const Lanes point =
        lanes_at(ir_.CreateNSWAdd(first, ir_.CreateZExtOrTrunc(bit, c_.index_type)), width_);
    llvm::Value* added = joined(
        so_far, has_vector, [&] { return add(so_far, point, Values(body_.exprs.size()), width_); });
    left->addIncoming(ir_.CreateAnd(left, ir_.CreateSub(left, ir_.getInt32(1))),
                      ir_.GetInsertBlock());
    so_far->addIncoming(added, ir_.GetInsertBlock());
    ir_.CreateBr(head);
    ir_.SetInsertPoint(after);
    return so_far;
  }

  llvm::Align align() const {
    return llvm::Align(
        static_cast<std::uint64_t>(std::min<std::int64_t>(size_of(dtype_) * width_, 16)));
  }
  llvm::Value* address(std::int32_t operand, llvm::Value* element) {
    return ir_.CreateInBoundsGEP(memory_type(c_.module.getContext(), dtype_), c_.operand(operand),
                                 element);
  }
  llvm::Value* load(std::int32_t operand, llvm::Value* element) {
    llvm::Value* value = ir_.CreateAlignedLoad(with_width(c_.load_type(dtype_), width_),
                                               address(operand, element), align());
    c_.tag(value, operand);
    return value;
  }
  void store(llvm::Value* element, llvm::Value* value) {
    c_.tag(ir_.CreateAlignedStore(value, address(body_.out, element), align()), body_.out);
  }

  NvptxContext& c_;
  llvm::IRBuilder<>& ir_;
  const ScatterBody& body_;
  const Division& division_;
  DType dtype_;
  std::vector<bool> index_needs_, source_needs_;
  int width_ = 1;
  std::int32_t lane_dim_ = -1;
  Values parallel_;                   ///< indices of division_.parallel
  llvm::Value* own_index_ = nullptr;  ///< i64
};

/// out = base.
LoopBody base_copy(const ScatterBody& body, DType dtype) {
  LoopBody copy;
  copy.space = body.out_shape;
  const Affine dense{0, ir::strides_of(body.out_shape)};
  Expr base;
  base.dtype = dtype;
  base.kind = body.base < 0 ? Expr::Kind::constant : Expr::Kind::load;
  base.operand = body.base;
  base.address = dense;
  copy.exprs = {base};
  copy.stores = {{.operand = body.out, .address = dense, .value = 0}};
  return copy;
}

}  // namespace

void emit_device_scatter(DeviceKernelWriter& kernel, const ScatterBody& body) {
  const std::int64_t elements = element_count(body.out_shape);
  if (elements == 0) return;
  const Division division = divide(body);
  const DType dtype = kernel.operand_dtype(body.out);
  const bool nothing_to_add = element_count(body.space) == 0;
  if (nothing_to_add) return emit_device_loop(kernel, base_copy(body, dtype));

  const auto positions = static_cast<double>(division.serial_points);
  const auto compared = positions * static_cast<double>(elements);
  const double search = std::max(positions * kPipelined, compared * kCompare);
  const double warps = std::max(positions * kPipelined / kWarp, compared * kCompareWarp);
  const double walk =
      positions * kWait * std::max(1.0, static_cast<double>(division.parallel_points) / kResident);
  if (picks_rows(body, division) && warps <= std::min(search, walk)) {
    kernel.grid([&](NvptxContext& c) { return Emitter(c, body, division).search_by_warps(); });
    return;
  }
  if (search <= walk) {
    kernel.grid([&](NvptxContext& c) { return Emitter(c, body, division).search(); });
    return;
  }
  emit_device_loop(kernel, base_copy(body, dtype));
  kernel.grid([&](NvptxContext& c) { return Emitter(c, body, division).walk(); });
}

}  // namespace riffle::codegen
