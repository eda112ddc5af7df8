// ScatterBody → LLVM IR: the base is copied, then contributions are added in row-major order.
//
// Only the indexed dimension can conflict: points that differ in another dimension write different
// elements. So tasks are blocks of the largest other dimension; each copies its part of the base
// and adds its part of every contribution, in order.
#include <algorithm>

#include "codegen/emit/scalar_llvm.h"
#include "codegen/host/loops.h"
#include "ir/array.h"

namespace riffle::codegen {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class ScatterEmitter {
 public:
  ScatterEmitter(HostContext& context, const ScatterBody& body)
      : c_(context), ir_(context.ir), body_(body), dense_(ir::strides_of(body.out_shape)) {}

  runtime::KernelGeometry emit() {
    const std::int64_t elements = element_count(body_.out_shape);
    if (elements == 0) {
      ir_.CreateRetVoid();
      return {.tasks = 0};
    }
    const std::int64_t points = element_count(body_.space);
    const double work_ns =
        0.05 * static_cast<double>(elements) +
        (0.5 + cost_ns(c_.target, body_.exprs, {})) * static_cast<double>(points);
    choose_split_dim();
    std::int64_t tasks = 1, block = 1;
    if (split_ >= 0) {
      const std::int64_t size = body_.out_shape[static_cast<std::size_t>(split_)];
      const auto wanted = static_cast<std::int64_t>(work_ns / 8000);
      block = ceil_div(size, std::clamp<std::int64_t>(wanted, 1, size));
      // Whole cache lines, so that neighbouring tasks share none.
      if (dense_[static_cast<std::size_t>(split_)] == 1) block = ceil_div(block, 64) * 64;
      tasks = ceil_div(size, block);
    }
    emit_for(c_, c_.task_begin(), c_.task_end(), 1, [&](llvm::Value* task) {
      llvm::Value* begin = ir_.CreateNSWMul(task, constant(block));
      llvm::Value* end = ir_.CreateNSWAdd(begin, constant(block));
      emit_base(begin, end);
      if (points > 0) emit_additions(begin, end);
    });
    ir_.CreateRetVoid();
    return {.tasks = tasks, .scratch_bytes = 0, .work_ns = work_ns};
  }

 private:
  llvm::Value* constant(std::int64_t v) { return ir_.getInt64(static_cast<std::uint64_t>(v)); }

  /// The largest dimension whose coordinate is the same in space and in out.
  void choose_split_dim() {
    if (body_.space.size() != body_.out_shape.size()) return;
    for (std::size_t d = 0; d < body_.space.size(); ++d) {
      const std::int64_t size = body_.out_shape[d];
      if (size < 2 || size < body_.space[d] || body_.address.strides[d] != dense_[d]) continue;
      if (split_ < 0 || size >= body_.out_shape[static_cast<std::size_t>(split_)])
        split_ = static_cast<std::int32_t>(d);
    }
  }

  /// The task's part of dimension `d` of a space of that size.
  std::pair<llvm::Value*, llvm::Value*> bounds(std::size_t d, std::int64_t size, llvm::Value* begin,
                                               llvm::Value* end) {
    if (static_cast<std::int32_t>(d) != split_) return {constant(0), constant(size)};
    end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, constant(size));
    return {begin, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, end)};
  }

  /// Row-major loops over all dimensions but the last, of which `body` gets the bounds.
  void walk(const Shape& shape, std::size_t dimension, Values& indices, llvm::Value* begin,
            llvm::Value* end,
            const std::function<void(const Values&, llvm::Value*, llvm::Value*)>& body) {
    if (shape.empty()) {
      body(indices, constant(0), constant(1));
      return;
    }
    const auto [low, high] = bounds(dimension, shape[dimension], begin, end);
    if (dimension + 1 == shape.size()) {
      body(indices, low, high);
      return;
    }
    emit_for(c_, low, high, 1, [&](llvm::Value* i) {
      indices[dimension] = i;
      walk(shape, dimension + 1, indices, begin, end, body);
    });
  }

  Lanes lanes_at(const Values& indices, llvm::Value* last, int width, llvm::Value* mask) {
    Lanes lanes{.indices = indices,
                .lane_dim = width == 1 ? -1 : static_cast<std::int32_t>(indices.size()) - 1,
                .width = width,
                .mask = mask};
    if (!indices.empty()) lanes.indices.back() = last;
    return lanes;
  }

  void emit_base(llvm::Value* begin, llvm::Value* end) {
    const DType dtype = c_.operand_dtype(body_.out);
    std::vector<Expr> exprs(1);
    exprs[0].dtype = dtype;
    exprs[0].kind = body_.base < 0 ? Expr::Kind::constant : Expr::Kind::load;
    exprs[0].operand = body_.base;
    exprs[0].address.strides = dense_;
    const std::vector<Store> stores = {
        {.operand = body_.out, .address = {.offset = 0, .strides = dense_}, .value = 0}};
    const std::vector<Expr>* list = &exprs;
    const std::int64_t last = body_.out_shape.empty() ? 1 : body_.out_shape.back();
    const int width = body_.out_shape.empty()
                          ? 1
                          : fit_width(c_.target, vector_width(c_.target, {&list, 1}), last);
    Values indices(body_.out_shape.size());
    walk(body_.out_shape, 0, indices, begin, end,
         [&](const Values& at, llvm::Value* low, llvm::Value* high) {
           for_lanes(c_, low, high, width, last % width == 0,
                     [&](llvm::Value* i, int lanes_wide, llvm::Value* mask) {
                       const Lanes lanes = lanes_at(at, i, lanes_wide, mask);
                       const Values values = emit_exprs(c_, exprs, lanes, {});
                       emit_stores(c_, stores, values, exprs, lanes);
                     });
         });
  }

  bool varies_along(ExprId id, std::size_t dimension) const {
    const Expr& expr = body_.exprs[static_cast<std::size_t>(id)];
    if (!expr.address.strides.empty() && expr.address.strides[dimension] != 0) return true;
    for (const Guard& guard : expr.guards)
      if (guard.value.strides[dimension] != 0) return true;
    for (const Indirect& indirect : expr.indirect)
      if (varies_along(indirect.index, dimension)) return true;
    return std::ranges::any_of(expr.arguments,
                               [&](ExprId argument) { return varies_along(argument, dimension); });
  }

  void emit_additions(llvm::Value* begin, llvm::Value* end) {
    // Vectors along the last dimension when each of them goes to one run of out.
    int width = 1;
    std::int64_t last = 1;
    if (!body_.space.empty()) {
      const std::size_t d = body_.space.size() - 1;
      last = body_.space[d];
      const std::vector<Expr>* list = &body_.exprs;
      if (body_.address.strides[d] == 1 && !varies_along(body_.index, d))
        width = fit_width(c_.target, vector_width(c_.target, {&list, 1}), last);
    }
    Values indices(body_.space.size());
    walk(body_.space, 0, indices, begin, end,
         [&](const Values& at, llvm::Value* low, llvm::Value* high) {
           for_lanes(c_, low, high, width, last % width == 0,
                     [&](llvm::Value* i, int lanes_wide, llvm::Value* mask) {
                       add_at(lanes_at(at, i, lanes_wide, mask));
                     });
         });
  }

  void add_at(const Lanes& lanes) {
    const Values values = emit_exprs(c_, body_.exprs, lanes, {});
    const auto index_at = static_cast<std::size_t>(body_.index);
    LlvmScalarBuilder scalar(ir_, 1), vector(ir_, lanes.width);
    llvm::Value* index = LlvmScalarBuilder::unwrap(scalar.cast(
        LlvmScalarBuilder::wrap(values[index_at], body_.exprs[index_at].dtype), DType::i64));
    // A point with a bad index adds nothing.
    llvm::Value* bad = ir_.CreateICmpUGE(index, constant(body_.index_size));
    index = checked_index(c_, index, body_.index_size, lanes.mask);
    llvm::Value* position = ir_.CreateAdd(constant(body_.address.offset),
                                          ir_.CreateMul(index, constant(body_.index_stride)));
    for (std::size_t d = 0; d < body_.address.strides.size(); ++d)
      if (body_.address.strides[d] != 0)
        position = ir_.CreateAdd(
            position, ir_.CreateMul(lanes.indices[d], constant(body_.address.strides[d])));

    const DType dtype = c_.operand_dtype(body_.out);
    llvm::Type* element = memory_type(c_.module.getContext(), dtype);
    llvm::Type* type = with_width(element, lanes.width);
    const llvm::Align align(static_cast<std::uint64_t>(size_of(dtype)));
    llvm::Value* address = ir_.CreateInBoundsGEP(element, c_.operand(body_.out), position);
    llvm::Value* old =
        lanes.mask ? static_cast<llvm::Value*>(ir_.CreateMaskedLoad(
                         type, address, align, lanes.mask, llvm::Constant::getNullValue(type)))
                   : ir_.CreateAlignedLoad(type, address, align);
    c_.tag(old, body_.out);
    llvm::Value* source = widen(c_, values[static_cast<std::size_t>(body_.source)], lanes.width);
    llvm::Value* sum =
        ir_.CreateSelect(bad, old,
                         vector.to_memory(vector.add(vector.from_memory(old, dtype),
                                                     LlvmScalarBuilder::wrap(source, dtype))));
    c_.tag(lanes.mask
               ? static_cast<llvm::Value*>(ir_.CreateMaskedStore(sum, address, align, lanes.mask))
               : ir_.CreateAlignedStore(sum, address, align),
           body_.out);
  }

  HostContext& c_;
  llvm::IRBuilder<>& ir_;
  const ScatterBody& body_;
  std::vector<std::int64_t> dense_;
  std::int32_t split_ = -1;  ///< dimension that tasks divide; -1: one task
};

}  // namespace

runtime::KernelGeometry emit_scatter(HostContext& context, const ScatterBody& body) {
  return ScatterEmitter(context, body).emit();
}

}  // namespace riffle::codegen
