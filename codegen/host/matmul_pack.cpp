// Packing: operands → panels and tiles of accumulators, in the order in which the register tile
// reads them. Masks here are constants: what is left over is known from the shape.
#include "codegen/host/matmul_emitter.h"
#include "codegen/host/scalar_llvm.h"

namespace riffle::codegen {

llvm::Value* MatmulEmitter::load_converted(const MatmulPlan::Operand& side, llvm::Value* address,
                                           int width, std::int64_t count) {
  LlvmScalarBuilder scalars(ir_, width);
  llvm::Type* type = scalars.memory_type(side.dtype);
  const llvm::Align align(static_cast<std::uint64_t>(size_of(side.dtype)));
  llvm::Value* loaded;
  if (count >= width) {
    loaded = ir_.CreateAlignedLoad(type, address, align);
  } else {
    std::vector<llvm::Constant*> mask;
    for (int lane = 0; lane < width; ++lane) mask.push_back(ir_.getInt1(lane < count));
    loaded = ir_.CreateMaskedLoad(type, address, align, llvm::ConstantVector::get(mask),
                                  llvm::Constant::getNullValue(type));
  }
  return LlvmScalarBuilder::unwrap(scalars.from_memory(loaded, side.dtype));
}

void MatmulEmitter::in_steps(const Depth& depth,
                             const std::function<void(llvm::Value* k, std::int64_t count)>& block) {
  llvm::Value* whole = ir_.CreateAnd(depth.size, number(-std::int64_t{plan_.width}));
  emit_for(c_, number(0), whole, plan_.width, [&](llvm::Value* k) { block(k, plan_.width); });
  const std::int64_t rest = plan_.k % plan_.width;
  // Blocks of k are multiples of the width, so only the last one leaves something.
  if (rest != 0) when(ir_.CreateICmpNE(whole, depth.size), [&] { block(whole, rest); });
}

void MatmulEmitter::pack_panel(const Task& task, const Depth& depth, llvm::Value* panel_start,
                               llvm::Value* destination) {
  const MatmulPlan::Operand& side = plan_.lanes_side;
  llvm::Type* stored = memory_type(c_.module.getContext(), side.dtype);
  const std::int64_t lanes = std::min(plan_.lanes(), side.extent);
  llvm::Value* source = at(
      stored, lanes_operand_,
      add(add(task.lanes_base, scaled(panel_start, side.along)), scaled(depth.begin, side.deep)));
  auto store = [&](llvm::Value* value, llvm::Value* k, std::int64_t lane) {
    ir_.CreateAlignedStore(
        value, at(element_, destination, add(scaled(k, plan_.lanes()), number(lane))),
        llvm::Align(static_cast<std::uint64_t>(plan_.width * size_of(plan_.accumulator))));
  };
  switch (side.packing) {
    case Packing::none:
      return;
    case Packing::contiguous:
      emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
        for (std::int64_t lane = 0; lane < plan_.lanes(); lane += plan_.width) {
          llvm::Value* from = at(stored, source, add(scaled(k, side.deep), number(lane)));
          store(load_converted(side, from, plan_.width, lanes - lane), k, lane);
        }
      });
      return;
    case Packing::transposed: {
      // Blocks of width lanes × width steps of k.
      auto block = [&](llvm::Value* k, std::int64_t count, llvm::Value* lane, std::int64_t rows) {
        std::vector<llvm::Value*> square;
        for (std::int64_t row = 0; row < plan_.width; ++row)
          square.push_back(
              row < rows ? load_converted(side,
                                          at(stored, source,
                                             add(scaled(add(lane, number(row)), side.along), k)),
                                          plan_.width, count)
                         : llvm::Constant::getNullValue(vector_));
        transpose(square);
        for (std::int64_t i = 0; i < count; ++i)
          ir_.CreateAlignedStore(
              square[static_cast<std::size_t>(i)],
              at(element_, destination, add(scaled(add(k, number(i)), plan_.lanes()), lane)),
              llvm::Align(static_cast<std::uint64_t>(plan_.width * size_of(plan_.accumulator))));
      };
      in_steps(depth, [&](llvm::Value* k, std::int64_t count) {
        const std::int64_t whole = lanes / plan_.width * plan_.width;
        emit_for(c_, number(0), number(whole), plan_.width,
                 [&](llvm::Value* lane) { block(k, count, lane, plan_.width); });
        if (whole < plan_.lanes()) block(k, count, number(whole), lanes - whole);
      });
      return;
    }
    case Packing::elements:
      emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
        emit_for(c_, number(0), number(lanes), 1, [&](llvm::Value* lane) {
          llvm::Value* from =
              at(stored, source, add(scaled(k, side.deep), scaled(lane, side.along)));
          ir_.CreateAlignedStore(load_converted(side, from, 1, 1),
                                 at(element_, destination, add(scaled(k, plan_.lanes()), lane)),
                                 element_align());
        });
        // Lanes that nobody reads, but whose arithmetic should not meet denormals or old NaNs.
        for (std::int64_t lane = lanes; lane < plan_.lanes(); ++lane)
          ir_.CreateAlignedStore(
              llvm::Constant::getNullValue(element_),
              at(element_, destination, add(scaled(k, plan_.lanes()), number(lane))),
              element_align());
      });
      return;
  }
}

void MatmulEmitter::pack_tile(const Task& task, const Depth& depth, llvm::Value* tile_start,
                              llvm::Value* destination) {
  const MatmulPlan::Operand& side = plan_.rows_side;
  llvm::Type* stored = memory_type(c_.module.getContext(), side.dtype);
  llvm::Value* source =
      at(stored, rows_operand_,
         add(add(task.rows_base, scaled(tile_start, side.along)), scaled(depth.begin, side.deep)));
  switch (side.packing) {
    case Packing::none:
      return;
    case Packing::contiguous:
      emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
        llvm::Value* from = at(stored, source, scaled(k, side.deep));
        ir_.CreateAlignedStore(load_converted(side, from, plan_.rows, plan_.rows),
                               at(element_, destination, scaled(k, plan_.rows)), element_align());
      });
      return;
    case Packing::transposed:
      for (int row = 0; row < plan_.rows; ++row)
        in_steps(depth, [&](llvm::Value* k, std::int64_t count) {
          llvm::Value* from = at(stored, source, add(k, number(row * side.along)));
          ir_.CreateAlignedStore(
              load_converted(side, from, plan_.width, count),
              at(element_, destination, add(k, number(row * plan_.packed_row_stride()))),
              element_align());
        });
      return;
    case Packing::elements:
      emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
        for (int row = 0; row < plan_.rows; ++row) {
          llvm::Value* from =
              at(stored, source, add(scaled(k, side.deep), number(row * side.along)));
          ir_.CreateAlignedStore(load_converted(side, from, 1, 1),
                                 at(element_, destination, add(scaled(k, plan_.rows), number(row))),
                                 element_align());
        }
      });
      return;
  }
}

}  // namespace riffle::codegen
