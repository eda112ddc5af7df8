// MatmulBody → LLVM IR for the host.
#include "codegen/host/emit.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

llvm::Type* accumulator_type(EmitContext& c, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return c.ir.getFloatTy();
    case DType::f64:
      return c.ir.getDoubleTy();
    case DType::i32:
      return c.ir.getInt32Ty();
    case DType::i64:
      return c.ir.getInt64Ty();
    default:
      throw CompileError({.what = "no matmul kernel for " + std::string(name_of(dtype)),
                          .where = c.spec.name,
                          .hint = "cast to f32"});
  }
}

/// for (i = begin; i < end; ++i) body(i), with one loop-carried value.
template <class Body>
llvm::Value* loop(EmitContext& c, llvm::Value* begin, llvm::Value* end, llvm::Value* initial,
                  const char* name, Body body) {
  llvm::IRBuilder<>& ir = c.ir;
  llvm::LLVMContext& context = c.module.getContext();
  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context, name, c.function);
  auto* inside = llvm::BasicBlock::Create(context, std::string(name) + ".body", c.function);
  auto* after = llvm::BasicBlock::Create(context, std::string(name) + ".end", c.function);
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  llvm::PHINode* i = ir.CreatePHI(ir.getInt64Ty(), 2, name);
  i->addIncoming(begin, before);
  llvm::PHINode* carried = initial ? ir.CreatePHI(initial->getType(), 2) : nullptr;
  if (carried) carried->addIncoming(initial, before);
  ir.CreateCondBr(ir.CreateICmpSLT(i, end), inside, after);
  ir.SetInsertPoint(inside);
  llvm::Value* next = body(i, carried);
  i->addIncoming(ir.CreateAdd(i, ir.getInt64(1)), ir.GetInsertBlock());
  if (carried) carried->addIncoming(next, ir.GetInsertBlock());
  ir.CreateBr(head);
  ir.SetInsertPoint(after);
  return carried;
}

}  // namespace

runtime::KernelGeometry emit_matmul(EmitContext& c, const MatmulBody& body) {
  llvm::IRBuilder<>& ir = c.ir;
  llvm::Type* type = accumulator_type(c, body.dtype);
  for (const MatmulBody::Side* side : {&body.a, &body.b})
    if (c.operand_dtype(side->operand) != body.dtype)
      throw CompileError({.what = "matmul operands of another dtype than the product",
                          .where = c.spec.name,
                          .hint = "cast them to it"});
  llvm::Value* a = c.operand(body.a.operand);
  llvm::Value* b = c.operand(body.b.operand);

  // One task a row of one product.
  loop(c, c.task_begin(), c.task_end(), nullptr, "task", [&](llvm::Value* task, llvm::Value*) {
    llvm::Value* rest = ir.CreateUDiv(task, ir.getInt64(body.m));
    llvm::Value* m = ir.CreateURem(task, ir.getInt64(body.m));
    std::vector<llvm::Value*> indices(body.batch.size());
    llvm::Value* a_base = ir.getInt64(body.a.offset);
    llvm::Value* b_base = ir.getInt64(body.b.offset);
    auto advance = [&](llvm::Value*& base, llvm::Value* index, std::int64_t stride) {
      base = ir.CreateAdd(base, ir.CreateMul(index, ir.getInt64(stride)));
    };
    for (std::size_t d = body.batch.size(); d-- > 0;) {
      indices[d] = ir.CreateURem(rest, ir.getInt64(body.batch[d]));
      rest = ir.CreateUDiv(rest, ir.getInt64(body.batch[d]));
      advance(a_base, indices[d], body.a.batch_strides[d]);
      advance(b_base, indices[d], body.b.batch_strides[d]);
    }
    advance(a_base, m, body.a.row_stride);
    indices.push_back(m);
    indices.push_back(nullptr);
    loop(c, ir.getInt64(0), ir.getInt64(body.n), nullptr, "n", [&](llvm::Value* n, llvm::Value*) {
      llvm::Value* b_column = b_base;
      advance(b_column, n, body.b.column_stride);
      llvm::Value* sum =
          loop(c, ir.getInt64(0), ir.getInt64(body.k), llvm::Constant::getNullValue(type), "k",
               [&](llvm::Value* k, llvm::Value* accumulator) -> llvm::Value* {
                 llvm::Value* at_a = a_base;
                 llvm::Value* at_b = b_column;
                 advance(at_a, k, body.a.column_stride);
                 advance(at_b, k, body.b.row_stride);
                 llvm::Value* x = ir.CreateLoad(type, ir.CreateGEP(type, a, at_a));
                 llvm::Value* y = ir.CreateLoad(type, ir.CreateGEP(type, b, at_b));
                 if (type->isIntegerTy()) return ir.CreateAdd(ir.CreateMul(x, y), accumulator);
                 return ir.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, accumulator});
               });
      indices.back() = n;
      Lanes lanes{.indices = indices};
      std::vector<llvm::Value*> values = emit_exprs(c, body.epilogue, lanes, {&sum, 1});
      emit_stores(c, body.stores, values, body.epilogue, lanes);
      return nullptr;
    });
    return nullptr;
  });
  ir.CreateRetVoid();

  const std::int64_t rows = element_count(body.batch) * body.m;
  return {.tasks = rows,
          .scratch_bytes = 0,
          .work_ns = static_cast<double>(rows) * body.n * (body.k + 1)};
}

}  // namespace riffle::codegen
