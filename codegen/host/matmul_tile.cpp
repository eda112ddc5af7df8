// The register tile: all its sums are SSA vectors, so that they stay in registers whatever the
// passes think of it. (Left to the optimiser to promote from memory, it ran at a quarter of this.)
#include "codegen/host/matmul_emitter.h"

namespace riffle::codegen {

void MatmulEmitter::register_tile(const Depth& depth, llvm::Value* panel, llvm::Value* rows,
                                  llvm::Value* sums, const Prefetch& prefetch) {
  const std::size_t count = static_cast<std::size_t>(plan_.rows) * plan_.vectors;
  const llvm::Align vector_align(
      static_cast<std::uint64_t>(plan_.width * size_of(plan_.accumulator)));
  const bool in_place = plan_.lanes_side.packing == Packing::none;
  auto sum_at = [&](std::size_t i) {
    return at(element_, sums, number(static_cast<std::int64_t>(i) * plan_.width));
  };

  const Values zeros(count, llvm::Constant::getNullValue(vector_));
  Values initial = zeros;
  if (plan_.k_blocks() > 1) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::LLVMContext& context = c_.module.getContext();
    auto* load = llvm::BasicBlock::Create(context, "continue", c_.function);
    auto* start = llvm::BasicBlock::Create(context, "start", c_.function);
    ir_.CreateCondBr(ir_.CreateICmpEQ(depth.begin, number(0)), start, load);
    ir_.SetInsertPoint(load);
    Values loaded;
    for (std::size_t i = 0; i < count; ++i)
      loaded.push_back(ir_.CreateAlignedLoad(vector_, sum_at(i), vector_align));
    ir_.CreateBr(start);
    ir_.SetInsertPoint(start);
    for (std::size_t i = 0; i < count; ++i) {
      llvm::PHINode* phi = ir_.CreatePHI(vector_, 2);
      phi->addIncoming(zeros[i], before);
      phi->addIncoming(loaded[i], load);
      initial[i] = phi;
    }
  }

  const Values result = emit_for(
      c_, number(0), depth.size, 1, initial,
      [&](llvm::Value* k, std::span<llvm::Value* const> carried) -> Values {
        Values next(carried.begin(), carried.end());
        llvm::Value* lanes = at(element_, panel, scaled(k, plan_.panel_deep()));
        llvm::Value* row = at(element_, rows, scaled(k, plan_.row_deep()));
        if (prefetch.base)
          ir_.CreateIntrinsic(
              llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
              {ir_.CreateGEP(prefetch.type, prefetch.base, scaled(k, prefetch.step)),
               ir_.getInt32(0), ir_.getInt32(2), ir_.getInt32(1)});
        Values vectors;
        for (int v = 0; v < plan_.vectors; ++v)
          vectors.push_back(ir_.CreateAlignedLoad(vector_,
                                                  at(element_, lanes, number(v * plan_.width)),
                                                  in_place ? element_align() : vector_align));
        for (int r = 0; r < plan_.rows; ++r) {
          llvm::Value* one = ir_.CreateAlignedLoad(
              element_, at(element_, row, number(r * plan_.row_stride())), element_align());
          llvm::Value* broadcast = ir_.CreateVectorSplat(static_cast<unsigned>(plan_.width), one);
          for (int v = 0; v < plan_.vectors; ++v) {
            llvm::Value*& sum =
                next[static_cast<std::size_t>(r) * static_cast<std::size_t>(plan_.vectors) +
                     static_cast<std::size_t>(v)];
            llvm::Value* vector = vectors[static_cast<std::size_t>(v)];
            sum = element_->isIntegerTy() ? ir_.CreateAdd(ir_.CreateMul(broadcast, vector), sum)
                                          : ir_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_},
                                                                {broadcast, vector, sum});
          }
        }
        return next;
      });
  for (std::size_t i = 0; i < count; ++i)
    ir_.CreateAlignedStore(result[i], sum_at(i), vector_align);
}

}  // namespace riffle::codegen
