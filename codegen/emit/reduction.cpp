// Combining reduced elements: what each kind of reduction does with NaN, −0 and ties.
#include "codegen/emit/reduction.h"

#include <limits>

#include "codegen/emit/scalar_llvm.h"

namespace riffle::codegen {
namespace {

ir::Scalar wrap(llvm::Value* value, DType dtype) { return LlvmScalarBuilder::wrap(value, dtype); }
llvm::Value* unwrap(ir::Scalar scalar) { return LlvmScalarBuilder::unwrap(scalar); }

double lowest(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::i64) return static_cast<double>(std::numeric_limits<std::int64_t>::min());
  return dtype == DType::i32 ? static_cast<double>(std::numeric_limits<std::int32_t>::min()) : 0;
}
/// Conversion saturates, so 2^63 stands for the largest i64.
double highest(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == DType::i64) return 0x1p63;
  return dtype == DType::i32 ? static_cast<double>(std::numeric_limits<std::int32_t>::max()) : 1;
}

double neutral(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::sum:
      return is_floating(dtype) ? -0.0 : 0.0;
    case ReduceKind::prod:
      return 1;
    case ReduceKind::max:
    case ReduceKind::argmax:
      return lowest(dtype);
    case ReduceKind::min:
      return highest(dtype);
  }
  return 0;
}

}  // namespace

Accumulated Reducer::start(int width) const {
  LlvmScalarBuilder builder(c_.ir, width);
  Accumulated a{.value = unwrap(builder.constant(dtype_, neutral(kind_, dtype_)))};
  // Beyond every position, so that any element replaces it, −inf too.
  if (keeps_index())
    a.index = unwrap(builder.constant_bits(
        DType::i64, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
  return a;
}

Accumulated Reducer::elements(llvm::Value* value, DType dtype, llvm::Value* position, int width,
                              bool lanes_are_columns) const {
  LlvmScalarBuilder builder(c_.ir, width);
  Accumulated a{.value = unwrap(builder.cast(wrap(widen(c_, value, width), dtype), dtype_))};
  if (!keeps_index()) return a;
  a.index = widen(c_, position, width);
  if (width > 1 && !lanes_are_columns) {
    std::vector<std::uint64_t> lanes(static_cast<std::size_t>(width));
    for (std::size_t k = 0; k < lanes.size(); ++k) lanes[k] = k;
    a.index =
        c_.ir.CreateAdd(a.index, llvm::ConstantDataVector::get(c_.module.getContext(), lanes));
  }
  return a;
}

/// Maximum or minimum by comparisons. The signs of equal operands differ only for zeros: joining
/// their bits picks the right one.
llvm::Value* Reducer::extreme(llvm::Value* a, llvm::Value* b, bool is_max, int width) const {
  llvm::IRBuilder<>& ir = c_.ir;
  llvm::Type* type = a->getType();
  llvm::Type* bits = with_width(ir.getIntNTy(type->getScalarSizeInBits()), width);
  llvm::Value* x = ir.CreateBitCast(a, bits);
  llvm::Value* y = ir.CreateBitCast(b, bits);
  llvm::Value* joined = ir.CreateBitCast(is_max ? ir.CreateAnd(x, y) : ir.CreateOr(x, y), type);
  llvm::Value* first = is_max ? ir.CreateFCmpOGT(a, b) : ir.CreateFCmpOLT(a, b);
  llvm::Value* value = ir.CreateSelect(first, a, b);
  value = ir.CreateSelect(ir.CreateFCmpOEQ(a, b), joined, value);
  return ir.CreateSelect(ir.CreateFCmpUNO(a, a), a, value);
}

Accumulated Reducer::combine(const Accumulated& a, const Accumulated& b, int width) const {
  LlvmScalarBuilder builder(c_.ir, width);
  const ir::Scalar x = wrap(a.value, dtype_), y = wrap(b.value, dtype_);
  switch (kind_) {
    case ReduceKind::sum:
      return {.value = unwrap(builder.add(x, y))};
    case ReduceKind::prod:
      return {.value = unwrap(builder.mul(x, y))};
    case ReduceKind::max:
    case ReduceKind::min: {
      const bool is_max = kind_ == ReduceKind::max;
      // IEEE 754-2019 maximum and minimum: NaN wins, −0 < +0.
      if (is_floating(dtype_) &&
          !(dtype_ == DType::f32 ? c_.traits.maximum_f32 : c_.traits.maximum_f64))
        return {.value = extreme(a.value, b.value, is_max, width)};
      if (is_floating(dtype_))
        return {
            .value = c_.ir.CreateBinaryIntrinsic(
                is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a.value, b.value)};
      const ir::Scalar greater = builder.compare(ir::Compare::gt, x, y);
      return {.value =
                  unwrap(is_max ? builder.select(greater, x, y) : builder.select(greater, y, x))};
    }
    case ReduceKind::argmax:
      break;
  }
  // b wins when it is larger (NaN above all), or as large and earlier.
  llvm::IRBuilder<>& ir = c_.ir;
  llvm::Value* larger = unwrap(builder.compare(ir::Compare::gt, y, x));
  llvm::Value* equal = unwrap(builder.compare(ir::Compare::eq, y, x));
  if (is_floating(dtype_)) {
    llvm::Value* x_nan = ir.CreateFCmpUNO(a.value, a.value);
    llvm::Value* y_nan = ir.CreateFCmpUNO(b.value, b.value);
    larger = ir.CreateOr(larger, ir.CreateAnd(y_nan, ir.CreateNot(x_nan)));
    equal = ir.CreateOr(equal, ir.CreateAnd(y_nan, x_nan));
  }
  llvm::Value* earlier = ir.CreateICmpSLT(b.index, a.index);
  llvm::Value* wins = ir.CreateOr(larger, ir.CreateAnd(equal, earlier));
  return {.value = ir.CreateSelect(wins, b.value, a.value),
          .index = ir.CreateSelect(wins, b.index, a.index)};
}

Accumulated Reducer::select(llvm::Value* mask, const Accumulated& b, const Accumulated& a) const {
  if (!mask) return b;
  Accumulated chosen{.value = c_.ir.CreateSelect(mask, b.value, a.value)};
  if (keeps_index()) chosen.index = c_.ir.CreateSelect(mask, b.index, a.index);
  return chosen;
}

Accumulated Reducer::fold_lanes(std::vector<Accumulated> vectors, int width) const {
  // Whole vectors: lane j with lane j + 32, then j + 16 … A missing partner is neutral.
  for (std::size_t half = static_cast<std::size_t>(kLanes / width) / 2; half > 0; half /= 2)
    for (std::size_t v = 0; v < half && v + half < vectors.size(); ++v)
      vectors[v] = combine(vectors[v], vectors[v + half], width);

  Accumulated a = vectors.front();
  for (int half = width / 2; half > 0; half /= 2) {
    auto part = [&](llvm::Value* value, int from) -> llvm::Value* {
      if (!value) return nullptr;
      if (half == 1) return c_.ir.CreateExtractElement(value, static_cast<std::uint64_t>(from));
      std::vector<int> picked(static_cast<std::size_t>(half));
      for (int k = 0; k < half; ++k) picked[static_cast<std::size_t>(k)] = from + k;
      return c_.ir.CreateShuffleVector(value, picked);
    };
    a = combine({.value = part(a.value, 0), .index = part(a.index, 0)},
                {.value = part(a.value, half), .index = part(a.index, half)}, half);
  }
  return a;
}

llvm::Value* Reducer::finish(const Accumulated& a, int width) const {
  if (keeps_index()) return a.index;
  LlvmScalarBuilder builder(c_.ir, width);
  return unwrap(builder.cast(wrap(a.value, dtype_), result_));
}

llvm::Value* Reducer::empty() const {
  LlvmScalarBuilder builder(c_.ir, 1);
  if (keeps_index()) return unwrap(builder.constant(DType::i64, 0));
  const double value = kind_ == ReduceKind::sum ? 0.0 : neutral(kind_, dtype_);
  return unwrap(builder.constant(result_, value));
}

}  // namespace riffle::codegen
