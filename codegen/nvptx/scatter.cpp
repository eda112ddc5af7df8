// ScatterBody → one or two grids; no atomics, so the order of contributions is the CPU's.
//
// Points of the space that differ in a dimension with a stride of its own ("parallel") write
// different elements; those that differ only in the others ("serial", the scattered dimension) may
// meet and are taken in row-major order. Two ways:
//
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
/// Nanoseconds: a step that waits for memory; one whose loads are in flight; one comparison of one
/// element, over the whole GPU.
constexpr double kWait = 600, kPipelined = 60, kCompare = 2e-4;
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
    llvm::Value* item = ir_.CreateNSWAdd(
        ir_.CreateNSWMul(c_.block(shape.blocks[0]), c_.index(kThreads)), c_.thread(kThreads));
    if (items % kThreads != 0) c_.keep_threads(ir_.CreateICmpSLT(item, c_.index(items)));
    return item;
  }

  bool index_varies_along(std::size_t dimension) const {
    for (std::size_t e = 0; e < body_.exprs.size(); ++e) {
      const Expr& expr = body_.exprs[e];
      if (!index_needs_[e]) continue;
      if (!expr.address.strides.empty() && expr.address.strides[dimension] != 0) return true;
      for (const Guard& guard : expr.guards)
        if (guard.value.strides[dimension] != 0) return true;
    }
    return false;
  }

  /// Vectors along a parallel dimension that covers out's innermost one, when the index is the same
  /// all along it.
  void choose_width(std::int64_t elements) {
    for (std::size_t d : division_.parallel) {
      if (body_.address.strides[d] != 1 || body_.out_shape.back() != body_.space[d] ||
          body_.address.offset != 0 || index_varies_along(d))
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
  const double search = positions * std::max(kPipelined, kCompare * static_cast<double>(elements));
  const double walk =
      positions * kWait * std::max(1.0, static_cast<double>(division.parallel_points) / kResident);
  if (search <= walk) {
    kernel.grid([&](NvptxContext& c) { return Emitter(c, body, division).search(); });
    return;
  }
  emit_device_loop(kernel, base_copy(body, dtype));
  kernel.grid([&](NvptxContext& c) { return Emitter(c, body, division).walk(); });
}

}  // namespace riffle::codegen
