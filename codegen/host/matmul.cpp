// MatmulBody → LLVM IR for the host: the loops over tasks, blocks of k, groups, panels and tiles.
// Start reading at MatmulEmitter::emit; matmul_plan.h says what is what.
#include "codegen/emit/scalar_llvm.h"
#include "codegen/host/matmul_emitter.h"

namespace riffle::codegen {

MatmulEmitter::MatmulEmitter(HostContext& context, const MatmulBody& body)
    : c_(context),
      ir_(context.ir),
      body_(body),
      plan_(plan_matmul(body, context.operand_dtype(body.a.operand),
                        context.operand_dtype(body.b.operand), context.target)) {
  element_ = register_type(context.module.getContext(), plan_.accumulator);
  vector_ = with_width(element_, plan_.width);
}

llvm::Align MatmulEmitter::element_align() const {
  return llvm::Align(static_cast<std::uint64_t>(size_of(plan_.accumulator)));
}

void MatmulEmitter::when(llvm::Value* condition, const std::function<void()>& then,
                         const std::function<void()>& otherwise) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (constant->isOne())
      then();
    else if (otherwise)
      otherwise();
    return;
  }
  llvm::LLVMContext& context = c_.module.getContext();
  auto* yes = llvm::BasicBlock::Create(context, "when", c_.function);
  auto* no = otherwise ? llvm::BasicBlock::Create(context, "otherwise", c_.function) : nullptr;
  auto* after = llvm::BasicBlock::Create(context, "after", c_.function);
  ir_.CreateCondBr(condition, yes, no ? no : after);
  ir_.SetInsertPoint(yes);
  then();
  ir_.CreateBr(after);
  if (no) {
    ir_.SetInsertPoint(no);
    otherwise();
    ir_.CreateBr(after);
  }
  ir_.SetInsertPoint(after);
}

MatmulEmitter::Task MatmulEmitter::enter_task(llvm::Value* task) {
  Task t;
  llvm::Value* tile_block = ir_.CreateURem(task, number(plan_.tile_blocks));
  llvm::Value* rest = ir_.CreateUDiv(task, number(plan_.tile_blocks));
  llvm::Value* panel_block = ir_.CreateURem(rest, number(plan_.panel_blocks));
  llvm::Value* batch = ir_.CreateUDiv(rest, number(plan_.panel_blocks));
  t.batch.resize(body_.batch.size());
  t.lanes_base = number(plan_.lanes_side.offset);
  t.rows_base = number(plan_.rows_side.offset);
  for (std::size_t d = body_.batch.size(); d-- > 0;) {
    t.batch[d] = d == 0 ? batch : ir_.CreateURem(batch, number(body_.batch[d]));
    batch = ir_.CreateUDiv(batch, number(body_.batch[d]));
    t.lanes_base = add(t.lanes_base, scaled(t.batch[d], plan_.lanes_side.batch_strides[d]));
    t.rows_base = add(t.rows_base, scaled(t.batch[d], plan_.rows_side.batch_strides[d]));
  }
  t.panel_begin = scaled(panel_block, plan_.panel_block);
  t.panel_end = least(add(t.panel_begin, number(plan_.panel_block)), number(plan_.panels));
  t.tile_begin = scaled(tile_block, plan_.tile_block);
  t.tile_end = least(add(t.tile_begin, number(plan_.tile_block)), number(plan_.tiles));
  return t;
}

llvm::Value* MatmulEmitter::start_of(llvm::Value* index, std::int64_t size, std::int64_t extent) {
  llvm::Value* start = scaled(index, size);
  if (extent % size == 0) return start;
  return least(start, number(extent > size ? extent - size : 0));
}

/// Packs the task's panels unless the task before, of the same call, left the same ones there:
/// `packed` names those, the result names what is there now.
llvm::Value* MatmulEmitter::pack_panels(const Task& task, const Depth& depth, llvm::Value* packed) {
  if (plan_.lanes_side.packing == Packing::none) return packed;
  auto all = [&] {
    if (plan_.lanes_side.packing == Packing::contiguous) return copy_panels(task, depth);
    emit_for(c_, task.panel_begin, task.panel_end, 1, [&](llvm::Value* panel) {
      llvm::Value* index = ir_.CreateNSWSub(panel, task.panel_begin);
      pack_panel(task, depth, start_of(panel, plan_.lanes(), plan_.lanes_side.extent),
                 at(element_, scratch_at(plan_.panels_at),
                    scaled(index, plan_.panel_depth() * plan_.lanes())));
    });
  };
  if (plan_.k_blocks() > 1) {
    all();
    return packed;
  }
  llvm::Value* name = add(scaled(task.lanes_base, plan_.panels), task.panel_begin);
  when(ir_.CreateICmpNE(name, packed), all);
  return name;
}

void MatmulEmitter::groups(const Task& task, const Depth& depth) {
  const bool pack_rows = plan_.rows_side.packing != Packing::none;
  const std::int64_t sums_size = plan_.group * plan_.rows * plan_.lanes();
  const std::int64_t row_step = plan_.rows_side.along * plan_.rows;
  emit_for(c_, task.tile_begin, task.tile_end, plan_.group, [&](llvm::Value* first) {
    llvm::Value* count = least(number(plan_.group), ir_.CreateNSWSub(task.tile_end, first));
    if (pack_rows) pack_tiles(task, depth, first, count);
    emit_for(c_, task.panel_begin, task.panel_end, 1, [&](llvm::Value* panel) {
      llvm::Value* panel_index = ir_.CreateNSWSub(panel, task.panel_begin);
      llvm::Value* lanes = plan_.lanes_side.packing == Packing::none
                               ? at(element_, lanes_operand_,
                                    add(add(task.lanes_base, start_of(panel, plan_.lanes(),
                                                                      plan_.lanes_side.extent)),
                                        scaled(depth.begin, plan_.lanes_side.deep)))
                               : at(element_, scratch_at(plan_.panels_at),
                                    scaled(panel_index, plan_.panel_depth() * plan_.lanes()));
      llvm::Value* sums = scratch_at(plan_.sums_at);
      if (plan_.k_blocks() > 1) {
        llvm::Value* group =
            ir_.CreateUDiv(ir_.CreateNSWSub(first, task.tile_begin), number(plan_.group));
        sums = at(element_, sums,
                  scaled(add(scaled(group, plan_.panel_block), panel_index), sums_size));
      }
      emit_for(c_, number(0), count, 1, [&](llvm::Value* t) {
        llvm::Value* rows;
        Prefetch prefetch;
        if (pack_rows) {
          rows = at(element_, scratch_at(plan_.tiles_at), scaled(t, plan_.packed_tile_stride()));
        } else {
          rows =
              at(element_, rows_operand_,
                 add(add(task.rows_base, scaled(tile_start(add(first, t)), plan_.rows_side.along)),
                     scaled(depth.begin, plan_.rows_side.deep)));
          // Rows in place come from far: the next tile's lines are asked for meanwhile.
          if (plan_.k > 0)
            prefetch = {element_, ir_.CreateGEP(element_, rows, number(row_step)),
                        row_step / plan_.k};
        }
        register_tile(depth, lanes, rows, at(element_, sums, scaled(t, plan_.rows * plan_.lanes())),
                      prefetch);
      });
      when(depth.is_last, [&] { epilogue(task, panel, first, count, sums); });
    });
  });
}

runtime::KernelGeometry MatmulEmitter::emit() {
  if (plan_.tasks > 0) {
    lanes_operand_ = c_.operand(plan_.lanes_side.operand);
    rows_operand_ = c_.operand(plan_.rows_side.operand);
    emit_for(c_, c_.task_begin(), c_.task_end(), 1, {number(-1)},
             [&](llvm::Value* index, std::span<llvm::Value* const> carried) -> Values {
               const Task task = enter_task(index);
               if (plan_.k_blocks() == 1) {
                 const Depth depth{number(0), number(plan_.k), ir_.getTrue()};
                 llvm::Value* packed = pack_panels(task, depth, carried[0]);
                 groups(task, depth);
                 return {packed};
               }
               emit_for(c_, number(0), number(plan_.k), plan_.k_block, [&](llvm::Value* begin) {
                 llvm::Value* left = ir_.CreateNSWSub(number(plan_.k), begin);
                 const Depth depth{begin, least(number(plan_.k_block), left),
                                   ir_.CreateICmpSLE(left, number(plan_.k_block))};
                 pack_panels(task, depth, carried[0]);
                 groups(task, depth);
               });
               return {carried[0]};
             });
  }
  ir_.CreateRetVoid();
  // 100 GFLOP/s: what a core of today does within a factor of two.
  const double flops = 2.0 * static_cast<double>(plan_.batches) * static_cast<double>(body_.m) *
                       static_cast<double>(body_.n) * static_cast<double>(body_.k + 1);
  return {.tasks = plan_.tasks, .scratch_bytes = plan_.scratch_bytes, .work_ns = flops / 100};
}

runtime::KernelGeometry emit_matmul(HostContext& context, const MatmulBody& body) {
  return MatmulEmitter(context, body).emit();
}

}  // namespace riffle::codegen
