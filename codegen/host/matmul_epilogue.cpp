// From sums to results: rounded once to the product's dtype, then the epilogue's expressions, with
// vector lanes along the dimension in which the result lies side by side.
#include "codegen/emit/scalar_llvm.h"
#include "codegen/host/matmul_emitter.h"

namespace riffle::codegen {

void MatmulEmitter::finish_vector(const Task& task, llvm::Value* lane_index, llvm::Value* row_index,
                                  bool lanes_are_m, llvm::Value* count, bool always_full,
                                  llvm::Value* source) {
  const int width = plan_.width;
  Lanes lanes;
  lanes.indices = task.batch;
  lanes.indices.push_back(lanes_are_m ? lane_index : row_index);
  lanes.indices.push_back(lanes_are_m ? row_index : lane_index);
  lanes.lane_dim = static_cast<std::int32_t>(body_.batch.size()) + (lanes_are_m ? 0 : 1);
  lanes.width = width;
  if (width == 1) lanes.lane_dim = -1;

  // Sums beyond `count` are of other elements or none; reading them is harmless.
  llvm::Value* sum = ir_.CreateAlignedLoad(vector_, source, element_align());
  LlvmScalarBuilder scalars(ir_, width);
  llvm::Value* product = LlvmScalarBuilder::unwrap(
      scalars.cast(LlvmScalarBuilder::wrap(sum, plan_.accumulator), body_.dtype));
  auto finish = [&] {
    const std::vector<llvm::Value*> values =
        emit_exprs(c_, body_.epilogue, lanes, std::span<llvm::Value* const>(&product, 1));
    emit_stores(c_, body_.stores, values, body_.epilogue, lanes);
  };
  if (always_full) return finish();
  when(ir_.CreateICmpSGE(count, number(width)), finish, [&] {
    lanes.mask = lanes_below(c_, number(0), count, width);
    finish();
  });
}

void MatmulEmitter::finish_direct(const Task& task, llvm::Value* begin, llvm::Value* end,
                                  llvm::Value* lane_begin, llvm::Value* lane_end,
                                  llvm::Value* sums) {
  const bool always_full = plan_.lanes_side.extent % plan_.width == 0;
  emit_for(c_, begin, end, 1, [&](llvm::Value* row) {
    llvm::Value* row_sums = at(element_, sums, scaled(ir_.CreateNSWSub(row, begin), plan_.lanes()));
    emit_for(c_, lane_begin, lane_end, plan_.width, [&](llvm::Value* lane) {
      finish_vector(task, lane, row, plan_.lanes_are_m, ir_.CreateNSWSub(lane_end, lane),
                    always_full, at(element_, row_sums, ir_.CreateNSWSub(lane, lane_begin)));
    });
  });
}

void MatmulEmitter::finish_transposed(const Task& task, llvm::Value* begin, llvm::Value* end,
                                      llvm::Value* lane_begin, llvm::Value* lane_end,
                                      llvm::Value* sums) {
  llvm::Value* corner = scratch_at(plan_.corner_at);
  emit_for(c_, begin, end, plan_.width, [&](llvm::Value* row) {
    llvm::Value* count = ir_.CreateNSWSub(end, row);
    emit_for(c_, lane_begin, lane_end, square(), [&](llvm::Value* lane) {
      llvm::Value* from = at(element_, sums,
                             add(scaled(ir_.CreateNSWSub(row, begin), plan_.lanes()),
                                 ir_.CreateNSWSub(lane, lane_begin)));
      const Values columns = load_columns(
          plan_.accumulator, [&](int i) { return at(element_, from, number(i * plan_.lanes())); },
          plan_.width, square());
      for (std::size_t i = 0; i < columns.size(); ++i)
        ir_.CreateAlignedStore(
            columns[i], at(element_, corner, number(static_cast<std::int64_t>(i) * plan_.width)),
            element_align());
      emit_for(c_, lane, least(lane_end, add(lane, number(square()))), 1, [&](llvm::Value* one) {
        finish_vector(task, row, one, !plan_.lanes_are_m, count, false,
                      at(element_, corner, scaled(ir_.CreateNSWSub(one, lane), plan_.width)));
      });
    });
  });
}

void MatmulEmitter::epilogue(const Task& task, llvm::Value* panel, llvm::Value* first_tile,
                             llvm::Value* tile_count, llvm::Value* sums) {
  // The last panel started early: its first sums belong to the panel before.
  llvm::Value* lane_begin = scaled(panel, plan_.lanes());
  llvm::Value* lane_end = add(lane_begin, number(plan_.lanes()));
  const std::int64_t lanes = plan_.lanes_side.extent;
  if (lanes % plan_.lanes() != 0) {
    lane_end = least(lane_end, number(lanes));
    if (lanes > plan_.lanes())
      sums = at(element_, sums,
                most(number(0), ir_.CreateNSWSub(lane_begin, number(lanes - plan_.lanes()))));
  }
  auto finish = [&](llvm::Value* begin, llvm::Value* end, llvm::Value* from) {
    if (plan_.epilogue_transposes)
      finish_transposed(task, begin, end, lane_begin, lane_end, from);
    else
      finish_direct(task, begin, end, lane_begin, lane_end, from);
  };

  const std::int64_t rows = plan_.rows_side.extent;
  llvm::Value* row_begin = scaled(first_tile, plan_.rows);
  llvm::Value* row_end = add(row_begin, scaled(tile_count, plan_.rows));
  if (rows % plan_.rows == 0) return finish(row_begin, row_end, sums);
  // So did the last tile: its rows are a second region, `early` rows further on among the sums.
  llvm::Value* early = most(number(0), ir_.CreateNSWSub(row_end, number(rows)));
  llvm::Value* has_early = ir_.CreateICmpSGT(early, number(0));
  llvm::Value* last = ir_.CreateNSWSub(row_end, number(plan_.rows));
  emit_for(c_, number(0), ir_.CreateSelect(has_early, number(2), number(1)), 1,
           [&](llvm::Value* region) {
             llvm::Value* is_last = ir_.CreateICmpEQ(region, number(1));
             llvm::Value* begin = ir_.CreateSelect(is_last, last, row_begin);
             llvm::Value* end = ir_.CreateSelect(is_last, number(rows),
                                                 ir_.CreateSelect(has_early, last, row_end));
             llvm::Value* skipped = add(ir_.CreateNSWSub(begin, row_begin),
                                        ir_.CreateSelect(is_last, early, number(0)));
             finish(begin, end, at(element_, sums, scaled(skipped, plan_.lanes())));
           });
}

}  // namespace riffle::codegen
