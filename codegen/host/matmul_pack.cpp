// Packing: operands → panels and tiles of accumulators, in the order in which the register tile
// reads them. Masks here are constants: what is left over is known from the shape.
#include "codegen/emit/scalar_llvm.h"
#include "codegen/host/matmul_emitter.h"

namespace riffle::codegen {

llvm::Value* MatmulEmitter::first_lanes(int width, std::int64_t count) {
  std::vector<llvm::Constant*> mask;
  for (int lane = 0; lane < width; ++lane) mask.push_back(ir_.getInt1(lane < count));
  return llvm::ConstantVector::get(mask);
}

llvm::Value* MatmulEmitter::load_converted(const MatmulPlan::Operand& side, llvm::Value* address,
                                           int width, std::int64_t count) {
  LlvmScalarBuilder scalars(ir_, width);
  llvm::Type* type = scalars.memory_type(side.dtype);
  const llvm::Align align(static_cast<std::uint64_t>(size_of(side.dtype)));
  llvm::Value* loaded;
  if (count >= width) {
    loaded = ir_.CreateAlignedLoad(type, address, align);
  } else {
    loaded = ir_.CreateMaskedLoad(type, address, align, first_lanes(width, count),
                                  llvm::Constant::getNullValue(type));
  }
  return LlvmScalarBuilder::unwrap(scalars.from_memory(loaded, side.dtype));
}

void MatmulEmitter::in_steps(const Depth& depth, int step,
                             const std::function<void(llvm::Value* k, std::int64_t count)>& block) {
  llvm::Value* whole = ir_.CreateAnd(depth.size, number(-std::int64_t{step}));
  emit_for(c_, number(0), whole, step, [&](llvm::Value* k) { block(k, step); });
  const std::int64_t rest = plan_.k % step;
  // Blocks of k are multiples of the width, so only the last one leaves something.
  if (rest != 0) when(ir_.CreateICmpNE(whole, depth.size), [&] { block(whole, rest); });
}

// Vector i is put together from 16 bytes each of rows i, i + s, i + 2s … (s = square()), so that
// the transposition itself stays inside 16-byte parts: one instruction a shuffle. Wider blocks run
// no faster, and LLVM takes 20 ms to combine their shuffles.
Values MatmulEmitter::load_columns(DType stored,
                                   const std::function<llvm::Value*(int row)>& row_address,
                                   std::int64_t rows, std::int64_t columns) {
  const int size = square();
  llvm::Type* part_type = with_width(memory_type(c_.module.getContext(), stored), size);
  const llvm::Align align(static_cast<std::uint64_t>(size_of(stored)));
  Values vectors;
  for (int i = 0; i < size; ++i) {
    Values parts;
    for (int row = i; row < plan_.width; row += size) {
      llvm::Value* zero = llvm::Constant::getNullValue(part_type);
      if (row >= rows)
        parts.push_back(zero);
      else if (columns >= size)
        parts.push_back(ir_.CreateAlignedLoad(part_type, row_address(row), align));
      else
        parts.push_back(ir_.CreateMaskedLoad(part_type, row_address(row), align,
                                             first_lanes(size, columns), zero));
    }
    while (parts.size() > 1) {
      const int width = static_cast<int>(
          llvm::cast<llvm::FixedVectorType>(parts.front()->getType())->getNumElements());
      std::vector<int> both;
      for (int lane = 0; lane < 2 * width; ++lane) both.push_back(lane);
      Values joined;
      for (std::size_t p = 0; p + 1 < parts.size(); p += 2)
        joined.push_back(ir_.CreateShuffleVector(parts[p], parts[p + 1], both));
      parts = std::move(joined);
    }
    LlvmScalarBuilder scalars(ir_, plan_.width);
    vectors.push_back(LlvmScalarBuilder::unwrap(scalars.from_memory(parts.front(), stored)));
  }
  // Interleaves the low or the high half of every 16 bytes of two vectors, by `unit` elements.
  auto interleave = [&](llvm::Value* a, llvm::Value* b, int unit, bool high) {
    std::vector<int> lanes;
    for (int part = 0; part < plan_.width; part += size)
      for (int at = 0; at < size / 2; at += unit)
        for (const int from : {part, plan_.width + part})
          for (int u = 0; u < unit; ++u) lanes.push_back(from + (high ? size / 2 : 0) + at + u);
    return ir_.CreateShuffleVector(a, b, lanes);
  };
  if (size == 2)
    return {interleave(vectors[0], vectors[1], 1, false),
            interleave(vectors[0], vectors[1], 1, true)};
  llvm::Value* low01 = interleave(vectors[0], vectors[1], 1, false);
  llvm::Value* high01 = interleave(vectors[0], vectors[1], 1, true);
  llvm::Value* low23 = interleave(vectors[2], vectors[3], 1, false);
  llvm::Value* high23 = interleave(vectors[2], vectors[3], 1, true);
  return {interleave(low01, low23, 2, false), interleave(low01, low23, 2, true),
          interleave(high01, high23, 2, false), interleave(high01, high23, 2, true)};
}

void MatmulEmitter::copy_panels(const Task& task, const Depth& depth) {
  const MatmulPlan::Operand& side = plan_.lanes_side;
  llvm::Type* stored = memory_type(c_.module.getContext(), side.dtype);
  const std::int64_t lanes = std::min(plan_.lanes(), side.extent);
  // k outside: all panels of one k are one run of memory. Panel by panel each k would be on a page
  // of its own, and the copy would go at the pace of the memory's latency.
  emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
    llvm::Value* source =
        at(stored, lanes_operand_, add(task.lanes_base, scaled(add(depth.begin, k), side.deep)));
    emit_for(c_, task.panel_begin, task.panel_end, 1, [&](llvm::Value* panel) {
      llvm::Value* from = at(stored, source, start_of(panel, plan_.lanes(), side.extent));
      llvm::Value* index = ir_.CreateNSWSub(panel, task.panel_begin);
      llvm::Value* to =
          at(element_, scratch_at(plan_.panels_at),
             add(scaled(index, plan_.panel_depth() * plan_.lanes()), scaled(k, plan_.lanes())));
      for (std::int64_t lane = 0; lane < plan_.lanes(); lane += plan_.width)
        ir_.CreateAlignedStore(
            load_converted(side, at(stored, from, number(lane)), plan_.width, lanes - lane),
            at(element_, to, number(lane)),
            llvm::Align(static_cast<std::uint64_t>(plan_.width * size_of(plan_.accumulator))));
    });
  });
}

void MatmulEmitter::pack_panel(const Task& task, const Depth& depth, llvm::Value* panel_start,
                               llvm::Value* destination) {
  const MatmulPlan::Operand& side = plan_.lanes_side;
  llvm::Type* stored = memory_type(c_.module.getContext(), side.dtype);
  const std::int64_t lanes = std::min(plan_.lanes(), side.extent);
  llvm::Value* source = at(
      stored, lanes_operand_,
      add(add(task.lanes_base, scaled(panel_start, side.along)), scaled(depth.begin, side.deep)));
  switch (side.packing) {
    case Packing::none:
      return;
    case Packing::contiguous:
      return;  // copy_panels does it
    case Packing::transposed: {
      auto block = [&](llvm::Value* lane, std::int64_t rows) {
        in_steps(depth, square(), [&](llvm::Value* k, std::int64_t count) {
          const Values columns = load_columns(
              side.dtype,
              [&](int row) {
                return at(stored, source, add(scaled(add(lane, number(row)), side.along), k));
              },
              rows, count);
          for (std::int64_t i = 0; i < count; ++i)
            ir_.CreateAlignedStore(
                columns[static_cast<std::size_t>(i)],
                at(element_, destination, add(scaled(add(k, number(i)), plan_.lanes()), lane)),
                llvm::Align(static_cast<std::uint64_t>(plan_.width * size_of(plan_.accumulator))));
        });
      };
      const std::int64_t whole = lanes / plan_.width * plan_.width;
      emit_for(c_, number(0), number(whole), plan_.width,
               [&](llvm::Value* lane) { block(lane, plan_.width); });
      if (whole < plan_.lanes()) block(number(whole), lanes - whole);
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

void MatmulEmitter::pack_tiles(const Task& task, const Depth& depth, llvm::Value* first,
                               llvm::Value* count) {
  const MatmulPlan::Operand& side = plan_.rows_side;
  llvm::Type* stored = memory_type(c_.module.getContext(), side.dtype);
  auto source = [&](llvm::Value* t) {
    return at(stored, rows_operand_,
              add(add(task.rows_base, scaled(tile_start(add(first, t)), side.along)),
                  scaled(depth.begin, side.deep)));
  };
  auto destination = [&](llvm::Value* t) {
    return at(element_, scratch_at(plan_.tiles_at), scaled(t, plan_.packed_tile_stride()));
  };
  auto copy = [&](llvm::Value* from, llvm::Value* to, int width, std::int64_t lanes) {
    ir_.CreateAlignedStore(load_converted(side, from, width, lanes), to, element_align());
  };
  switch (side.packing) {
    case Packing::none:
      return;
    case Packing::contiguous:
      // k outside: the rows of all tiles at one k are neighbours, often of one cache line.
      emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
        emit_for(c_, number(0), count, 1, [&](llvm::Value* t) {
          copy(at(stored, source(t), scaled(k, side.deep)),
               at(element_, destination(t), scaled(k, plan_.rows)), plan_.rows, plan_.rows);
        });
      });
      return;
    case Packing::transposed:
      emit_for(c_, number(0), count, 1, [&](llvm::Value* t) {
        emit_for(c_, number(0), number(plan_.rows), 1, [&](llvm::Value* row) {
          llvm::Value* from = at(stored, source(t), scaled(row, side.along));
          llvm::Value* to = at(element_, destination(t), scaled(row, plan_.packed_row_stride()));
          in_steps(depth, plan_.width, [&](llvm::Value* k, std::int64_t lanes) {
            copy(at(stored, from, k), at(element_, to, k), plan_.width, lanes);
          });
        });
      });
      return;
    case Packing::elements:
      emit_for(c_, number(0), count, 1, [&](llvm::Value* t) {
        emit_for(c_, number(0), depth.size, 1, [&](llvm::Value* k) {
          for (int row = 0; row < plan_.rows; ++row)
            copy(at(stored, source(t), add(scaled(k, side.deep), number(row * side.along))),
                 at(element_, destination(t), add(scaled(k, plan_.rows), number(row))), 1, 1);
        });
      });
      return;
  }
}

}  // namespace riffle::codegen
