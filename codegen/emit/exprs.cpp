// Expression lists and stores → LLVM IR over one vector of lanes.
//
// A value that is the same in all lanes (stride 0, a constant, an op on such values) is kept a
// scalar: a row index that is looked up once makes the whole row a contiguous load. Loads choose by
// the stride in the lane dimension: 0 a scalar, 1 a vector (masked where lanes are inactive or a
// guard fails), otherwise a gather. Start reading at `emit_exprs`.
#include <algorithm>
#include <numeric>

#include "codegen/emit/emit.h"
#include "codegen/emit/scalar_llvm.h"
#include "riffle/error.h"

namespace riffle::codegen {

llvm::Value* widen(EmitContext& context, llvm::Value* value, int width) {
  if (width == 1 || value->getType()->isVectorTy()) return value;
  return context.ir.CreateVectorSplat(static_cast<unsigned>(width), value);
}

void emit_if(EmitContext& context, llvm::Value* condition, const std::function<void()>& body) {
  auto* inside = llvm::BasicBlock::Create(context.module.getContext(), "when", context.function);
  auto* after = llvm::BasicBlock::Create(context.module.getContext(), "after", context.function);
  context.ir.CreateCondBr(condition, inside, after);
  context.ir.SetInsertPoint(inside);
  body();
  context.ir.CreateBr(after);
  context.ir.SetInsertPoint(after);
}

std::vector<bool> dependencies(const std::vector<Expr>& exprs, std::span<const ExprId> ids) {
  std::vector<bool> needed(exprs.size());
  for (ExprId id : ids) needed[static_cast<std::size_t>(id)] = true;
  for (std::size_t e = exprs.size(); e-- > 0;) {
    if (!needed[e]) continue;
    for (ExprId argument : exprs[e].arguments) needed[static_cast<std::size_t>(argument)] = true;
    for (const Indirect& indirect : exprs[e].indirect)
      needed[static_cast<std::size_t>(indirect.index)] = true;
  }
  return needed;
}

std::int64_t alignment_of(const EmitContext& context, std::int32_t operand, const Affine& affine,
                          const Lanes& lanes, std::int64_t limit) {
  std::int64_t multiple = affine.offset;
  for (std::size_t d = 0; d < affine.strides.size(); ++d)
    multiple = std::gcd(
        multiple, affine.strides[d] *
                      (static_cast<std::int32_t>(d) == lanes.lane_dim ? lanes.lane_alignment : 1));
  const std::int64_t size = size_of(context.operand_dtype(operand));
  std::int64_t alignment = std::min(limit, std::max(context.operand_alignment, size));
  while (alignment > size && multiple * size % alignment != 0) alignment /= 2;
  return std::max(alignment, size);
}

llvm::Value* checked_index(EmitContext& context, llvm::Value* index, std::int64_t size,
                           llvm::Value* mask) {
  llvm::IRBuilder<>& ir = context.ir;
  auto constant = [&](std::int64_t v) -> llvm::Value* {
    return llvm::ConstantInt::get(index->getType(), static_cast<std::uint64_t>(v), true);
  };
  llvm::Value* bad = ir.CreateICmpUGE(index, constant(size));
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  llvm::Value* reported = bad;
  if (mask) {
    if (vector)
      mask = widen(context, mask, static_cast<int>(vector->getNumElements()));
    else if (mask->getType()->isVectorTy())
      mask = ir.CreateOrReduce(mask);
    reported = ir.CreateAnd(bad, mask);
  }
  emit_if(context, vector ? ir.CreateOrReduce(reported) : reported, [&] {
    llvm::Value* value = index;
    if (vector) {
      llvm::Type* bits = ir.getIntNTy(vector->getNumElements());
      llvm::Value* lane = ir.CreateBinaryIntrinsic(llvm::Intrinsic::cttz,
                                                   ir.CreateBitCast(reported, bits), ir.getTrue());
      value = ir.CreateExtractElement(index, ir.CreateZExt(lane, ir.getInt64Ty()));
    }
    context.report_index(value, size);
  });
  return ir.CreateSelect(bad, constant(0), index);
}

namespace {

class ExprEmitter {
 public:
  ExprEmitter(EmitContext& context, const Lanes& lanes)
      : c_(context), ir_(context.ir), lanes_(lanes), scalar_(ir_, 1), vector_(ir_, lanes.width) {}

  llvm::Value* emit(const Expr& expr, const std::vector<Expr>& exprs,
                    std::span<llvm::Value* const> values, std::span<llvm::Value* const> carried) {
    switch (expr.kind) {
      case Expr::Kind::constant:
        return LlvmScalarBuilder::unwrap(scalar_.constant(expr.dtype, expr.value));
      case Expr::Kind::index:
        return emit_index(expr);
      case Expr::Kind::carried:
        return carried[static_cast<std::size_t>(expr.carried)];
      case Expr::Kind::op:
        return emit_op(expr, exprs, values);
      case Expr::Kind::load:
        return emit_load(expr, values, exprs);
    }
    throw CompileError({.what = "unknown kind of expression", .where = c_.spec.name});
  }

  void store(const Store& store, llvm::Value* value, DType dtype) {
    const int width = lanes_.width;
    LlvmScalarBuilder& builder = width == 1 ? scalar_ : vector_;
    llvm::Value* memory =
        builder.to_memory(LlvmScalarBuilder::wrap(widen(c_, value, width), dtype));
    llvm::Type* element = memory_type(c_.module.getContext(), dtype);
    const llvm::Align align(static_cast<std::uint64_t>(size_of(dtype)));
    llvm::Value* base = c_.operand(store.operand);
    const std::int64_t stride = lane_stride(store.address);
    llvm::Value* address = ir_.CreateInBoundsGEP(element, base, uniform_part(store.address));
    if (width == 1 || stride == 1) {
      const llvm::Align whole = vector_align(store.operand, store.address);
      c_.tag(lanes_.mask ? static_cast<llvm::Value*>(
                               ir_.CreateMaskedStore(memory, address, whole, lanes_.mask))
                         : ir_.CreateAlignedStore(memory, address, whole),
             store.operand);
      return;
    }
    // A dimension of size 1: only the first lane is active.
    if (stride == 0) {
      c_.tag(ir_.CreateAlignedStore(ir_.CreateExtractElement(memory, std::uint64_t{0}), address,
                                    align),
             store.operand);
      return;
    }
    // One element after the other; the mask is a prefix only sometimes, so each lane asks it.
    for (int lane = 0; lane < width; ++lane) {
      auto store_lane = [&] {
        llvm::Value* at = ir_.CreateInBoundsGEP(element, address, c_.index(lane * stride));
        c_.tag(ir_.CreateAlignedStore(
                   ir_.CreateExtractElement(memory, static_cast<std::uint64_t>(lane)), at, align),
               store.operand);
      };
      if (!lanes_.mask) {
        store_lane();
        continue;
      }
      emit_if(c_, ir_.CreateExtractElement(lanes_.mask, static_cast<std::uint64_t>(lane)),
              store_lane);
    }
  }

 private:
  std::int64_t lane_stride(const Affine& affine) const {
    return lanes_.width == 1 ? 0 : affine.strides[static_cast<std::size_t>(lanes_.lane_dim)];
  }

  /// Of the vector that an access of stride 1 moves.
  llvm::Align vector_align(std::int32_t operand, const Affine& affine) const {
    const std::int64_t bytes = size_of(c_.operand_dtype(operand)) * lanes_.width;
    return llvm::Align(
        static_cast<std::uint64_t>(alignment_of(c_, operand, affine, lanes_, bytes)));
  }

  /// The affine in the first lane.
  llvm::Value* uniform_part(const Affine& affine) {
    llvm::Value* sum = nullptr;
    for (std::size_t d = 0; d < affine.strides.size(); ++d) {
      const std::int64_t stride = affine.strides[d];
      if (stride == 0) continue;
      llvm::Value* term = lanes_.indices[d];
      if (stride != 1) term = ir_.CreateNSWMul(term, c_.index(stride));
      sum = sum ? ir_.CreateNSWAdd(sum, term) : term;
    }
    if (!sum) return c_.index(affine.offset);
    if (affine.offset != 0) sum = ir_.CreateNSWAdd(sum, c_.index(affine.offset));
    return sum;
  }

  /// 0, stride, 2·stride …
  llvm::Value* ramp(std::int64_t stride) {
    std::vector<llvm::Constant*> values;
    for (int k = 0; k < lanes_.width; ++k) values.push_back(c_.index(k * stride));
    return llvm::ConstantVector::get(values);
  }

  /// The affine in every lane, or a scalar when it is the same in all.
  llvm::Value* value_of(const Affine& affine) {
    const std::int64_t stride = lane_stride(affine);
    llvm::Value* base = uniform_part(affine);
    if (stride == 0) return base;
    return ir_.CreateAdd(widen(c_, base, lanes_.width), ramp(stride));
  }

  llvm::Value* emit_index(const Expr& expr) {
    llvm::Value* value = value_of(expr.address);
    LlvmScalarBuilder& builder = value->getType()->isVectorTy() ? vector_ : scalar_;
    return LlvmScalarBuilder::unwrap(
        builder.cast(LlvmScalarBuilder::wrap(value, index_dtype()), expr.dtype));
  }

  DType index_dtype() const { return c_.index_type->getBitWidth() == 64 ? DType::i64 : DType::i32; }

  llvm::Value* emit_op(const Expr& expr, const std::vector<Expr>& exprs,
                       std::span<llvm::Value* const> values) {
    bool uniform = true;
    for (ExprId argument : expr.arguments)
      uniform &= !values[static_cast<std::size_t>(argument)]->getType()->isVectorTy();
    std::vector<ir::Scalar> arguments;
    for (ExprId argument : expr.arguments) {
      llvm::Value* value = values[static_cast<std::size_t>(argument)];
      if (!uniform) value = widen(c_, value, lanes_.width);
      arguments.push_back(
          LlvmScalarBuilder::wrap(value, exprs[static_cast<std::size_t>(argument)].dtype));
    }
    const ir::OpInfo& op = ir::info(expr.op);
    if (!op.block.emit)
      throw CompileError({.what = "op '" + std::string(op.text) + "' has no element function",
                          .where = c_.spec.name,
                          .hint = "use the reference back end for its partition"});
    return LlvmScalarBuilder::unwrap(
        op.block.emit(uniform ? scalar_ : vector_, arguments, expr.attrs));
  }

  /// Conjunction; null is true.
  llvm::Value* both(llvm::Value* a, llvm::Value* b) {
    if (!a) return b;
    if (!b) return a;
    if (a->getType() != b->getType()) {
      a = widen(c_, a, lanes_.width);
      b = widen(c_, b, lanes_.width);
    }
    return ir_.CreateAnd(a, b);
  }

  /// Lanes that start at a multiple of their width lie wholly inside bounds that are multiples too.
  bool same_in_all_lanes(const Guard& guard) const {
    if (lanes_.width == 1 || lanes_.lane_alignment % lanes_.width != 0) return false;
    if (lane_stride(guard.value) != 1) return false;
    const std::int64_t width = lanes_.width;
    if ((guard.value.offset - guard.lower) % width != 0 || (guard.upper - guard.lower) % width != 0)
      return false;
    for (std::size_t d = 0; d < guard.value.strides.size(); ++d)
      if (static_cast<std::int32_t>(d) != lanes_.lane_dim && guard.value.strides[d] % width != 0)
        return false;
    return true;
  }

  /// i1 or a vector of it; null when the guards hold everywhere.
  llvm::Value* emit_guards(const Expr& expr) {
    llvm::Value* holds = nullptr;
    for (const Guard& guard : expr.guards) {
      // lower ≤ v < upper as one unsigned comparison.
      llvm::Value* value =
          same_in_all_lanes(guard) ? uniform_part(guard.value) : value_of(guard.value);
      auto constant = [&](std::int64_t v) -> llvm::Value* {
        return llvm::ConstantInt::get(value->getType(), static_cast<std::uint64_t>(v), true);
      };
      llvm::Value* inside = guard.upper <= guard.lower
                                ? llvm::ConstantInt::getFalse(with_width(ir_.getInt1Ty(), 1))
                                : ir_.CreateICmpULT(ir_.CreateSub(value, constant(guard.lower)),
                                                    constant(guard.upper - guard.lower));
      holds = both(holds, inside);
    }
    return holds;
  }

  llvm::Value* emit_load(const Expr& expr, std::span<llvm::Value* const> values,
                         const std::vector<Expr>& exprs) {
    const int width = lanes_.width;
    llvm::Value* guards = emit_guards(expr);
    llvm::Value* mask = both(guards, lanes_.mask);

    // Indirect indices: uniform ones join the address, others make a gather.
    llvm::Value* uniform_offset = nullptr;
    llvm::Value* lane_offset = nullptr;
    for (const Indirect& indirect : expr.indirect) {
      const auto at = static_cast<std::size_t>(indirect.index);
      llvm::Value* index = values[at];
      const bool is_vector = index->getType()->isVectorTy();
      LlvmScalarBuilder& builder = is_vector ? vector_ : scalar_;
      index = LlvmScalarBuilder::unwrap(
          builder.cast(LlvmScalarBuilder::wrap(index, exprs[at].dtype), DType::i64));
      index = checked_index(c_, index, indirect.size, mask);
      if (c_.index_type->getBitWidth() < 64)
        index = ir_.CreateTrunc(index, with_width(c_.index_type, is_vector ? lanes_.width : 1));
      llvm::Value* offset =
          indirect.stride == 1
              ? index
              : ir_.CreateMul(index, llvm::ConstantInt::get(
                                         index->getType(),
                                         static_cast<std::uint64_t>(indirect.stride), true));
      llvm::Value*& sum = is_vector ? lane_offset : uniform_offset;
      sum = sum ? ir_.CreateAdd(sum, offset) : offset;
    }

    const DType dtype = c_.operand_dtype(expr.operand);
    const std::int64_t stride = lane_stride(expr.address);
    llvm::Value* start = uniform_part(expr.address);
    if (uniform_offset) start = ir_.CreateAdd(start, uniform_offset);

    const bool same_everywhere = (stride == 0 && !lane_offset) || width == 1;
    if (same_everywhere && (!guards || !guards->getType()->isVectorTy()))
      return load_scalar(expr, dtype, start, guards);
    if (c_.operand_type(expr.operand).elements() == 0) return widen(c_, fill(expr, scalar_), width);
    if (same_everywhere) {
      // One element, seen only through a guard that differs between lanes.
      llvm::Value* any = ir_.CreateOrReduce(mask);
      llvm::Value* value = widen(c_, load_scalar(expr, dtype, start, any), width);
      return ir_.CreateSelect(mask, value, widen(c_, fill(expr, scalar_), width));
    }
    if (stride == 1 && !lane_offset) {
      if (mask && !c_.traits.masked_vectors && !mask->getType()->isVectorTy() &&
          c_.operand_type(expr.operand).elements() >= width)
        return load_uniformly_guarded(expr, dtype, start, mask);
      if (mask) mask = widen(c_, mask, width);
      if (!mask || c_.traits.masked_vectors) return load_contiguous(expr, dtype, start, mask);
    }
    if (mask) mask = widen(c_, mask, width);
    llvm::Value* addresses = ir_.CreateAdd(widen(c_, start, width), ramp(stride));
    if (lane_offset) addresses = ir_.CreateAdd(addresses, lane_offset);
    return load_gather(expr, dtype, addresses, mask);
  }

  llvm::Value* fill(const Expr& expr, LlvmScalarBuilder& builder) {
    return LlvmScalarBuilder::unwrap(builder.constant(expr.dtype, expr.value));
  }
  /// The fill in memory form, for instructions that merge it.
  llvm::Value* memory_fill(const Expr& expr, DType dtype) {
    llvm::Value* fill =
        vector_.to_memory(vector_.constant(dtype, expr.guards.empty() ? 0 : expr.value));
    return ir_.CreateBitCast(fill, with_width(c_.load_type(dtype), lanes_.width));
  }

  llvm::Value* load_scalar(const Expr& expr, DType dtype, llvm::Value* start, llvm::Value* guard) {
    llvm::Type* type = c_.load_type(dtype);
    const llvm::Align align(static_cast<std::uint64_t>(size_of(dtype)));
    if (guard) {
      if (c_.operand_type(expr.operand).elements() == 0) return fill(expr, scalar_);
      // Element 0 exists: loading it where the guard fails needs no branch.
      start = ir_.CreateSelect(guard, start, c_.index(0));
    }
    llvm::Value* loaded = ir_.CreateAlignedLoad(
        type, ir_.CreateInBoundsGEP(type, c_.operand(expr.operand), start), align);
    c_.tag(loaded, expr.operand);
    llvm::Value* value = LlvmScalarBuilder::unwrap(scalar_.from_memory(loaded, dtype));
    return guard ? ir_.CreateSelect(guard, value, fill(expr, scalar_)) : value;
  }

  llvm::Value* load_contiguous(const Expr& expr, DType dtype, llvm::Value* start,
                               llvm::Value* mask) {
    llvm::Type* element = c_.load_type(dtype);
    llvm::Type* type = with_width(element, lanes_.width);
    const llvm::Align align = load_align(expr);
    llvm::Value* address = ir_.CreateInBoundsGEP(element, c_.operand(expr.operand), start);
    // Where a guard fails the address may lie outside the operand.
    if (!expr.guards.empty()) address = ir_.CreateGEP(element, c_.operand(expr.operand), start);
    llvm::Value* loaded = mask ? static_cast<llvm::Value*>(ir_.CreateMaskedLoad(
                                     type, address, align, mask, memory_fill(expr, dtype)))
                               : ir_.CreateAlignedLoad(type, address, align);
    c_.tag(loaded, expr.operand);
    return LlvmScalarBuilder::unwrap(vector_.from_memory(loaded, dtype));
  }

  /// A vector that a guard hides as a whole: where it does, the first elements are read instead.
  llvm::Value* load_uniformly_guarded(const Expr& expr, DType dtype, llvm::Value* start,
                                      llvm::Value* guard) {
    llvm::Type* element = c_.load_type(dtype);
    start = ir_.CreateSelect(guard, start, c_.index(0));
    llvm::Value* loaded = ir_.CreateAlignedLoad(
        with_width(element, lanes_.width),
        ir_.CreateInBoundsGEP(element, c_.operand(expr.operand), start), load_align(expr));
    c_.tag(loaded, expr.operand);
    return LlvmScalarBuilder::unwrap(
        vector_.from_memory(ir_.CreateSelect(guard, loaded, memory_fill(expr, dtype)), dtype));
  }

  /// As alignment_of, of a load whose address also has indirect parts.
  llvm::Align load_align(const Expr& expr) const {
    Affine affine = expr.address;
    for (const Indirect& indirect : expr.indirect)
      affine.offset = std::gcd(affine.offset, indirect.stride);
    return vector_align(expr.operand, affine);
  }

  llvm::Value* load_gather(const Expr& expr, DType dtype, llvm::Value* addresses,
                           llvm::Value* mask) {
    llvm::Type* element = c_.load_type(dtype);
    llvm::Type* type = with_width(element, lanes_.width);
    const llvm::Align align(static_cast<std::uint64_t>(size_of(dtype)));
    llvm::Value* base = c_.operand(expr.operand);
    llvm::Value* loaded = nullptr;
    if (size_of(dtype) >= 4 && c_.traits.gathers) {
      llvm::Value* pointers = ir_.CreateGEP(element, base, addresses);
      loaded = ir_.CreateMaskedGather(type, pointers, align, mask,
                                      mask ? memory_fill(expr, dtype) : nullptr);
      c_.tag(loaded, expr.operand);
    } else {
      // Inactive lanes read element 0, which exists.
      if (mask)
        addresses =
            ir_.CreateSelect(mask, addresses, llvm::Constant::getNullValue(addresses->getType()));
      loaded = llvm::PoisonValue::get(type);
      for (int lane = 0; lane < lanes_.width; ++lane) {
        const auto k = static_cast<std::uint64_t>(lane);
        llvm::Value* at =
            ir_.CreateInBoundsGEP(element, base, ir_.CreateExtractElement(addresses, k));
        llvm::Value* one = ir_.CreateAlignedLoad(element, at, align);
        c_.tag(one, expr.operand);
        loaded = ir_.CreateInsertElement(loaded, one, k);
      }
      if (mask) loaded = ir_.CreateSelect(mask, loaded, memory_fill(expr, dtype));
    }
    return LlvmScalarBuilder::unwrap(vector_.from_memory(loaded, dtype));
  }

  EmitContext& c_;
  llvm::IRBuilder<>& ir_;
  const Lanes& lanes_;
  LlvmScalarBuilder scalar_, vector_;
};

}  // namespace

std::vector<llvm::Value*> emit_exprs(EmitContext& context, const std::vector<Expr>& exprs,
                                     const Lanes& lanes, std::span<llvm::Value* const> carried,
                                     const ExprChoice& choice) {
  ExprEmitter emitter(context, lanes);
  std::vector<llvm::Value*> values;
  values.reserve(exprs.size());
  for (std::size_t e = 0; e < exprs.size(); ++e) {
    if (!choice.known.empty() && choice.known[e])
      values.push_back(choice.known[e]);
    else if (!choice.wanted.empty() && !choice.wanted[e])
      values.push_back(nullptr);
    else
      values.push_back(emitter.emit(exprs[e], exprs, values, carried));
  }
  return values;
}

void emit_stores(EmitContext& context, const std::vector<Store>& stores,
                 std::span<llvm::Value* const> values, const std::vector<Expr>& exprs,
                 const Lanes& lanes) {
  ExprEmitter emitter(context, lanes);
  for (const Store& store : stores) {
    const auto value = static_cast<std::size_t>(store.value);
    emitter.store(store, values[value], exprs[value].dtype);
  }
}

}  // namespace riffle::codegen
