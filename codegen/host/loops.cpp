// Counted loops, and which dimensions become loops, lanes or nothing.
#include "codegen/host/loops.h"

#include <algorithm>

#include "codegen/host/target.h"
#include "ir/op.h"

namespace riffle::codegen {

Values emit_for(EmitContext& context, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                const Values& initial, const LoopStep& body) {
  llvm::IRBuilder<>& ir = context.ir;
  llvm::LLVMContext& llvm_context = context.module.getContext();
  auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  auto* last = llvm::dyn_cast<llvm::ConstantInt>(end);
  if (first && last) {
    if (first->getSExtValue() >= last->getSExtValue()) return initial;
    if (first->getSExtValue() + step >= last->getSExtValue()) return body(begin, initial);
  }

  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(llvm_context, "loop", context.function);
  auto* after = llvm::BasicBlock::Create(llvm_context, "done", context.function);
  const bool may_be_empty = !(first && last);
  if (may_be_empty)
    ir.CreateCondBr(ir.CreateICmpSLT(begin, end), inside, after);
  else
    ir.CreateBr(inside);

  ir.SetInsertPoint(inside);
  llvm::PHINode* i = ir.CreatePHI(ir.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (llvm::Value* value : initial) {
    phis.push_back(ir.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    carried.push_back(phis.back());
  }
  const Values next = body(i, carried);
  llvm::Value* next_i = ir.CreateNSWAdd(i, ir.getInt64(step));
  llvm::BasicBlock* latch = ir.GetInsertBlock();
  i->addIncoming(next_i, latch);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], latch);
  ir.CreateCondBr(ir.CreateICmpSLT(next_i, end), inside, after);

  ir.SetInsertPoint(after);
  Values results;
  for (std::size_t k = 0; k < initial.size(); ++k) {
    llvm::PHINode* result = ir.CreatePHI(initial[k]->getType(), 2);
    if (may_be_empty) result->addIncoming(initial[k], before);
    result->addIncoming(next[k], latch);
    results.push_back(result);
  }
  return results;
}

void emit_for(EmitContext& context, llvm::Value* begin, llvm::Value* end, std::int64_t step,
              const std::function<void(llvm::Value* i)>& body) {
  emit_for(context, begin, end, step, {},
           [&](llvm::Value* i, std::span<llvm::Value* const>) -> Values {
             body(i);
             return {};
           });
}

void for_each_affine(std::vector<Expr>& exprs, const std::function<void(Affine&)>& visit) {
  for (Expr& expr : exprs) {
    if (expr.kind == Expr::Kind::load || expr.kind == Expr::Kind::index) visit(expr.address);
    for (Guard& guard : expr.guards) visit(guard.value);
  }
}

void for_each_affine(std::vector<Store>& stores, const std::function<void(Affine&)>& visit) {
  for (Store& store : stores) visit(store.address);
}

void collapse(Shape& shape, std::size_t first, std::span<Affine* const> affines) {
  auto erase = [&](std::size_t d) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
    for (Affine* affine : affines)
      affine->strides.erase(affine->strides.begin() + static_cast<std::ptrdiff_t>(first + d));
  };
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) {
      erase(d);
      continue;
    }
    if (d + 1 >= shape.size()) continue;
    const bool one = std::ranges::all_of(affines, [&](const Affine* affine) {
      return affine->strides[first + d] == affine->strides[first + d + 1] * shape[d + 1];
    });
    if (!one) continue;
    shape[d + 1] *= shape[d];
    erase(d);
  }
}

std::int32_t best_lane_dim(const Shape& shape, std::size_t first,
                           std::span<const std::vector<Expr>* const> exprs,
                           std::span<const std::vector<Store>* const> stores) {
  std::int32_t best = -1;
  double best_score = -1e300;
  for (std::size_t d = shape.size(); d-- > 0;) {
    double score = 0;
    auto weigh = [&](const Affine& affine, double weight) {
      const std::int64_t stride = affine.strides[first + d];
      score += stride == 1 ? weight : stride == 0 ? weight * 0.5 : -2 * weight;
    };
    for (const std::vector<Expr>* list : exprs)
      for (const Expr& expr : *list)
        if (expr.kind == Expr::Kind::load) weigh(expr.address, 1);
    for (const std::vector<Store>* list : stores)
      for (const Store& store : *list) weigh(store.address, 2);
    // Lanes that mostly lie idle cost more than strided accesses.
    if (shape[d] < 4) score -= 100;
    if (shape[d] < 16) score -= 4;
    if (score > best_score) {
      best_score = score;
      best = static_cast<std::int32_t>(d);
    }
  }
  return best;
}

int vector_width(const HostTarget& target, std::span<const std::vector<Expr>* const> exprs) {
  bool narrow = false, wide = false;
  for (const std::vector<Expr>* list : exprs)
    for (const Expr& expr : *list) {
      if (expr.kind == Expr::Kind::constant) continue;
      const DType computed = compute_dtype(expr.dtype);
      if (size_of(computed) == 8 && (is_floating(computed) || expr.kind == Expr::Kind::op))
        wide = true;
      if (size_of(computed) == 4) narrow = true;
    }
  return target.vector_bytes / (wide && !narrow ? 8 : 4);
}

Values unravel(EmitContext& context, llvm::Value* position, std::span<const std::int64_t> sizes) {
  llvm::IRBuilder<>& ir = context.ir;
  Values indices(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (d == 0) {
      indices[d] = position;
      break;
    }
    llvm::Value* size =
        ir.getInt64(static_cast<std::uint64_t>(std::max<std::int64_t>(sizes[d], 1)));
    indices[d] = ir.CreateURem(position, size);
    position = ir.CreateUDiv(position, size);
  }
  return indices;
}

llvm::Value* lanes_below(EmitContext& context, llvm::Value* start, llvm::Value* end, int width) {
  llvm::IRBuilder<>& ir = context.ir;
  llvm::Value* left = ir.CreateTrunc(ir.CreateSub(end, start), ir.getInt32Ty());
  std::vector<std::uint32_t> iota(static_cast<std::size_t>(width));
  for (int k = 0; k < width; ++k) iota[static_cast<std::size_t>(k)] = static_cast<std::uint32_t>(k);
  llvm::Value* lane = llvm::ConstantDataVector::get(context.module.getContext(), iota);
  return ir.CreateICmpSLT(lane, ir.CreateVectorSplat(static_cast<unsigned>(width), left));
}

void for_lanes(EmitContext& context, llvm::Value* begin, llvm::Value* end, int width, bool exact,
               const LaneStep& body) {
  llvm::IRBuilder<>& ir = context.ir;
  if (width == 1) {
    emit_for(context, begin, end, 1, [&](llvm::Value* i) { body(i, 1, nullptr); });
    return;
  }
  llvm::Value* full = end;
  if (!exact) {
    llvm::Value* count = ir.CreateSub(end, begin);
    full =
        ir.CreateAdd(begin, ir.CreateAnd(count, ir.getInt64(static_cast<std::uint64_t>(-width))));
  }
  emit_for(context, begin, full, width, [&](llvm::Value* i) { body(i, width, nullptr); });
  if (exact) return;
  if (has_avx512(context.target))
    emit_for(context, full, end, width,
             [&](llvm::Value* i) { body(i, width, lanes_below(context, i, end, width)); });
  else
    emit_for(context, full, end, 1, [&](llvm::Value* i) { body(i, 1, nullptr); });
}

llvm::Value* leading_lanes(EmitContext& context, std::int64_t active, int width) {
  if (active >= width) return nullptr;
  std::vector<llvm::Constant*> lanes;
  for (int k = 0; k < width; ++k) lanes.push_back(context.ir.getInt1(k < active));
  return llvm::ConstantVector::get(lanes);
}

int fit_width(const HostTarget& target, int width, std::int64_t count) {
  while (width > 1 && (has_avx512(target) ? width / 2 >= count : width > count)) width /= 2;
  return width;
}

std::int64_t elements_per_task(double element_ns) {
  return std::max<std::int64_t>(1024,
                                static_cast<std::int64_t>(20000.0 / std::max(element_ns, 0.05)));
}

double cost_ns(const HostTarget& target, const std::vector<Expr>& exprs,
               const std::vector<Store>& stores) {
  // Measured with 64-byte vectors on operands in L2 (bench/kernels_bench).
  double total = 0.03 * static_cast<double>(stores.size());
  for (const Expr& expr : exprs) {
    if (expr.kind == Expr::Kind::load) {
      total += 0.006 * static_cast<double>(size_of(expr.dtype));
      total += 0.1 * static_cast<double>(expr.indirect.size());
    }
    if (expr.kind != Expr::Kind::op) continue;
    double cost = 0.01;
    switch (expr.op) {
      case ir::Op::exp:
      case ir::Op::log:
      case ir::Op::tanh:
      case ir::Op::erf:
      case ir::Op::sin:
      case ir::Op::cos:
        cost = 0.25;
        break;
      case ir::Op::pow:
        cost = 1;
        break;
      case ir::Op::div:
      case ir::Op::sqrt:
      case ir::Op::rsqrt:
      case ir::Op::reciprocal:
        cost = 0.15;
        break;
      default:
        break;
    }
    total += size_of(compute_dtype(expr.dtype)) == 8 ? 2 * cost : cost;
  }
  return total * 64 / target.vector_bytes;
}

}  // namespace riffle::codegen
