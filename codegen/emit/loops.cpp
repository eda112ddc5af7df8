// Counted loops, and which dimensions become loops, lanes or nothing.
#include "codegen/emit/loops.h"

#include <algorithm>

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
  llvm::PHINode* i = ir.CreatePHI(begin->getType(), 2);
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (llvm::Value* value : initial) {
    phis.push_back(ir.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    carried.push_back(phis.back());
  }
  const Values next = body(i, carried);
  llvm::Value* next_i = ir.CreateNSWAdd(i, llvm::ConstantInt::getSigned(i->getType(), step));
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

Values unravel(EmitContext& context, llvm::Value* position, std::span<const std::int64_t> sizes) {
  llvm::IRBuilder<>& ir = context.ir;
  Values indices(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (d == 0) {
      indices[d] = position;
      break;
    }
    llvm::Value* size =
        llvm::ConstantInt::getSigned(position->getType(), std::max<std::int64_t>(sizes[d], 1));
    indices[d] = ir.CreateURem(position, size);
    position = ir.CreateUDiv(position, size);
  }
  return indices;
}

}  // namespace riffle::codegen
