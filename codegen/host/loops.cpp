// Vectors, tails and what a body costs, on a CPU.
#include "codegen/host/loops.h"

#include <algorithm>

#include "codegen/host/target.h"
#include "ir/op.h"

namespace riffle::codegen {

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

llvm::Value* lanes_below(HostContext& context, llvm::Value* start, llvm::Value* end, int width) {
  llvm::IRBuilder<>& ir = context.ir;
  llvm::Value* left = ir.CreateTrunc(ir.CreateSub(end, start), ir.getInt32Ty());
  std::vector<std::uint32_t> iota(static_cast<std::size_t>(width));
  for (int k = 0; k < width; ++k) iota[static_cast<std::size_t>(k)] = static_cast<std::uint32_t>(k);
  llvm::Value* lane = llvm::ConstantDataVector::get(context.module.getContext(), iota);
  return ir.CreateICmpSLT(lane, ir.CreateVectorSplat(static_cast<unsigned>(width), left));
}

void for_lanes(HostContext& context, llvm::Value* begin, llvm::Value* end, int width, bool exact,
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

llvm::Value* leading_lanes(HostContext& context, std::int64_t active, int width) {
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
    const ir::OpInfo& info = ir::info(expr.op);
    const double cost = info.has(ir::kExtended)          ? 1
                        : info.has(ir::kTranscendental)  ? 0.25
                        : info.has(ir::kSlowInstruction) ? 0.15
                                                         : 0.01;
    total += size_of(compute_dtype(expr.dtype)) == 8 ? 2 * cost : cost;
  }
  return total * 64 / target.vector_bytes;
}

}  // namespace riffle::codegen
