// Functions, special registers, shuffles and vector widths: what the emitters of a GPU share.
#include "codegen/nvptx/nvptx_emit.h"

#include <fmt/format.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <limits>

#include "codegen/emit/loops.h"
#include "codegen/emit/scalar_llvm.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces of nvptx64

llvm::Value* special_register(const NvptxContext& c, llvm::Intrinsic::ID id, std::int64_t count) {
  llvm::IRBuilder<>& ir = c.ir;
  if (count == 1) return c.index(0);
  llvm::CallInst* value = ir.CreateIntrinsic(id, {}, {});
  // Says that it is not negative, among others.
  llvm::Metadata* bounds[] = {
      llvm::ConstantAsMetadata::get(ir.getInt32(0)),
      llvm::ConstantAsMetadata::get(ir.getInt32(static_cast<std::uint32_t>(
          std::min<std::int64_t>(count, std::numeric_limits<std::int32_t>::max()))))};
  value->setMetadata(llvm::LLVMContext::MD_range, llvm::MDNode::get(c.module.getContext(), bounds));
  return ir.CreateZExt(value, c.index_type);
}

/// Σ |stride| · (size − 1) + |offset| is below 2^31.
bool narrow(const Affine& affine, const Shape& shape) {
  double reach = static_cast<double>(std::abs(affine.offset));
  for (std::size_t d = 0; d < affine.strides.size() && d < shape.size(); ++d)
    reach += static_cast<double>(std::abs(affine.strides[d])) *
             static_cast<double>(std::max<std::int64_t>(shape[d], 1));
  return reach < 0x1p31;
}

bool narrow(const std::vector<Expr>& exprs, const std::vector<Store>& stores, const Shape& shape) {
  return std::ranges::all_of(exprs,
                             [&](const Expr& expr) {
                               return narrow(expr.address, shape) &&
                                      std::ranges::all_of(expr.guards, [&](const Guard& guard) {
                                        return narrow(guard.value, shape) &&
                                               std::abs(guard.lower) < (1LL << 30) &&
                                               std::abs(guard.upper) < (1LL << 30);
                                      });
                             }) &&
         std::ranges::all_of(stores, [&](const Store& s) { return narrow(s.address, shape); });
}

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  shape.insert(shape.end(), b.begin(), b.end());
  return shape;
}

}  // namespace

bool fits_narrow_index(const KernelProgram& program, const KernelSpec& spec) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  for (const KernelOperand& operand : spec.operands)
    if (program.slots[static_cast<std::size_t>(operand.slot)].type.elements() >= kLimit)
      return false;
  return std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, LoopBody>) {
          return element_count(body.space) < kLimit && narrow(body.exprs, body.stores, body.space);
        } else if constexpr (std::is_same_v<Body, RowBody>) {
          const Shape shape = joined(body.outer, body.inner);
          bool fits =
              element_count(shape) < kLimit && narrow(body.final_exprs, body.final_stores, shape);
          for (const RowBody::Stage& stage : body.stages)
            fits = fits && narrow(stage.exprs, stage.stores, shape);
          return fits;
        } else if constexpr (std::is_same_v<Body, MatmulBody>) {
          const auto side = [&](const MatmulBody::Side& s, std::int64_t rows,
                                std::int64_t columns) {
            Affine affine{s.offset, s.batch_strides};
            affine.strides.insert(affine.strides.end(), {s.row_stride, s.column_stride});
            return narrow(affine, joined(body.batch, {rows + 256, columns + 256}));
          };
          const Shape space = joined(body.batch, {body.m, body.n});
          return element_count(space) < kLimit && side(body.a, body.m, body.k) &&
                 side(body.b, body.k, body.n) && narrow(body.epilogue, body.stores, space);
        } else {
          return element_count(body.space) < kLimit && element_count(body.out_shape) < kLimit &&
                 narrow(body.exprs, {}, body.space) && narrow(body.address, body.space);
        }
      },
      spec.body);
}

llvm::Value* NvptxContext::thread(std::int64_t count) const {
  return special_register(*this, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, count);
}
llvm::Value* NvptxContext::thread_of_grid(std::int64_t blocks, std::int64_t threads) const {
  llvm::Value* mine = thread(threads);
  llvm::Value* before = ir.CreateNSWMul(block(blocks), index(threads));
  return ir.CreateNSWAdd(before, mine);
}
llvm::Value* NvptxContext::block(std::int64_t count, int dimension) const {
  constexpr llvm::Intrinsic::ID ids[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                         llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                         llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  return special_register(*this, ids[dimension], count);
}

void NvptxContext::barrier() const { ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

llvm::Value* NvptxContext::shared_array(llvm::Type* element, std::int64_t count,
                                        const std::string& name) const {
  auto* type = llvm::ArrayType::get(element, static_cast<std::uint64_t>(count));
  auto* array = new llvm::GlobalVariable(
      module, type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
      llvm::PoisonValue::get(type), function->getName() + "_" + name, nullptr,
      llvm::GlobalValue::NotThreadLocal, kShared);
  array->setAlignment(llvm::Align(16));
  return array;
}

llvm::Value* NvptxContext::shuffle_xor(llvm::Value* value, int bits, llvm::Value* members) const {
  llvm::Type* type = value->getType();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    llvm::Value* result = llvm::PoisonValue::get(type);
    for (std::uint64_t k = 0; k < vector->getNumElements(); ++k)
      result = ir.CreateInsertElement(
          result, shuffle_xor(ir.CreateExtractElement(value, k), bits, members), k);
    return result;
  }
  if (type->isIntegerTy(1))
    return ir.CreateTrunc(shuffle_xor(ir.CreateZExt(value, ir.getInt32Ty()), bits, members), type);
  if (type->getScalarSizeInBits() == 64) {
    llvm::Value* whole = ir.CreateBitCast(value, ir.getInt64Ty());
    llvm::Value* low = shuffle_xor(ir.CreateTrunc(whole, ir.getInt32Ty()), bits, members);
    llvm::Value* high =
        shuffle_xor(ir.CreateTrunc(ir.CreateLShr(whole, 32), ir.getInt32Ty()), bits, members);
    whole = ir.CreateOr(ir.CreateZExt(low, ir.getInt64Ty()),
                        ir.CreateShl(ir.CreateZExt(high, ir.getInt64Ty()), 32));
    return ir.CreateBitCast(whole, type);
  }
  llvm::Value* word = ir.CreateBitCast(value, ir.getInt32Ty());
  word = ir.CreateIntrinsic(
      llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
      {members, word, ir.getInt32(static_cast<std::uint32_t>(bits)), ir.getInt32(0x1f)});
  return ir.CreateBitCast(word, type);
}

llvm::Value* NvptxContext::ballot(llvm::Value* condition) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {},
                            {ir.getInt32(0xffffffff), condition});
}

void NvptxContext::keep_threads(llvm::Value* condition) const {
  llvm::LLVMContext& context = module.getContext();
  auto* work = llvm::BasicBlock::Create(context, "work", function);
  auto* idle = llvm::BasicBlock::Create(context, "idle", function);
  ir.CreateCondBr(condition, work, idle);
  ir.SetInsertPoint(idle);
  ir.CreateRetVoid();
  ir.SetInsertPoint(work);
}

// ---- functions ---------------------------------------------------------------------------------

DeviceKernelWriter::DeviceKernelWriter(llvm::Module& module, const KernelProgram& program,
                                       const KernelSpec& spec, const NvptxTarget& target,
                                       std::string symbol)
    : module_(module),
      program_(program),
      spec_(spec),
      target_(target),
      symbol_(std::move(symbol)),
      narrow_index_(fits_narrow_index(program, spec)) {}

DType DeviceKernelWriter::operand_dtype(std::int32_t operand) const {
  const std::int32_t slot = spec_.operands[static_cast<std::size_t>(operand)].slot;
  return program_.slots[static_cast<std::size_t>(slot)].type.dtype;
}

void DeviceKernelWriter::grid(const std::function<GridShape(NvptxContext&)>& body) {
  llvm::LLVMContext& context = module_.getContext();
  llvm::IRBuilder<> ir(context);
  llvm::Type* pointer = ir.getPtrTy(kGlobal);
  const std::size_t operands = spec_.operands.size();
  auto* type = llvm::FunctionType::get(
      ir.getVoidTy(), std::vector<llvm::Type*>(operands + 2, pointer), /*isVarArg=*/false);
  std::string symbol = symbol_;
  if (!code_.grids.empty()) symbol += fmt::format("_{}", code_.grids.size());
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module_);
  ir.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));

  NvptxContext c{{.module = module_,
                  .function = function,
                  .ir = ir,
                  .program = program_,
                  .spec = spec_,
                  .traits = {.masked_vectors = false,
                             .gathers = false,
                             .maximum_f32 = target_.sm >= 80,
                             .maximum_f64 = false,
                             .half_loads = true},
                  .index_type = narrow_index_ ? ir.getInt32Ty() : ir.getInt64Ty(),
                  .operand_addresses = {},
                  .access_tags = access_tags(context, spec_),
                  .constant_operands = {},
                  .operand_alignment = 16,
                  .report_index = {}},
                 target_,
                 function->getArg(static_cast<unsigned>(operands)),
                 function->getArg(static_cast<unsigned>(operands + 1))};
  for (std::size_t k = 0; k < operands; ++k) {
    const auto number = static_cast<std::int32_t>(k);
    function->addParamAttr(
        static_cast<unsigned>(k),
        llvm::Attribute::getWithAlignment(context, llvm::Align(runtime::kOperandAlignment)));
    c.operand_addresses.push_back(function->getArg(static_cast<unsigned>(k)));
    bool constant = spec_.operands[k].access == Access::read;
    for (const KernelOperand& other : spec_.operands)
      constant &= other.access == Access::read || other.slot != spec_.operands[k].slot;
    for (const auto& [written, read] : spec_.may_alias) constant &= read != number;
    c.constant_operands.push_back(constant);
  }
  c.report_index = [&](llvm::Value* value, std::int64_t size) {
    auto field = [&](std::uint64_t offset) {
      return ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), c.status, offset);
    };
    // Whoever claims the word writes the rest: the three fields belong together.
    llvm::Value* claimed = ir.CreateExtractValue(
        ir.CreateAtomicCmpXchg(field(offsetof(runtime::KernelStatus, code)), ir.getInt64(0),
                               ir.getInt64(runtime::kIndexOutOfRange), llvm::Align(8),
                               llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic),
        1);
    emit_if(c, claimed, [&] {
      ir.CreateAlignedStore(value, field(offsetof(runtime::KernelStatus, value)), llvm::Align(8));
      ir.CreateAlignedStore(ir.getInt64(static_cast<std::uint64_t>(size)),
                            field(offsetof(runtime::KernelStatus, limit)), llvm::Align(8));
    });
  };

  const GridShape shape = body(c);
  constexpr std::int64_t kMost[] = {0x7fffffff, 0xffff, 0xffff};
  for (int d = 0; d < 3; ++d)
    if (shape.blocks[d] > kMost[d] || shape.blocks[d] < 1)
      throw CompileError({.what = fmt::format("needs a grid of {} × {} × {} blocks",
                                              shape.blocks[0], shape.blocks[1], shape.blocks[2]),
                          .where = spec_.name,
                          .hint = "smaller tensors, or device cpu"});
  auto annotate = [&](const char* property, std::int64_t value) {
    module_.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(
            context, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context, property),
                      llvm::ConstantAsMetadata::get(ir.getInt32(static_cast<unsigned>(value)))}));
  };
  annotate("kernel", 1);
  annotate("maxntidx", shape.threads);
  code_.grids.push_back({std::move(symbol), shape});
}

// ---- vectors -----------------------------------------------------------------------------------

int access_width(const EmitContext& context, std::span<const std::vector<Expr>* const> exprs,
                 std::span<const std::vector<Store>* const> stores, std::int32_t lane_dim,
                 std::int64_t count, bool exact) {
  if (lane_dim < 0) return 1;
  const auto lane = static_cast<std::size_t>(lane_dim);
  std::int64_t smallest = 16;
  for (const std::vector<Expr>* list : exprs)
    for (const Expr& expr : *list)
      if (expr.kind == Expr::Kind::load && expr.address.strides[lane] == 1)
        smallest = std::min(smallest, size_of(context.operand_dtype(expr.operand)));
  for (const std::vector<Store>* list : stores)
    for (const Store& store : *list)
      if (store.address.strides[lane] == 1)
        smallest = std::min(smallest, size_of(context.operand_dtype(store.operand)));

  for (int width = static_cast<int>(std::min<std::int64_t>(16 / smallest, 8)); width > 1;
       width /= 2) {
    if (exact && count % width != 0) continue;
    if (count < width) continue;
    const Lanes lanes{.indices = {},
                      .lane_dim = lane_dim,
                      .width = width,
                      .mask = nullptr,
                      .lane_alignment = width};
    auto whole = [&](std::int32_t operand, const Affine& affine) {
      const std::int64_t bytes =
          std::min<std::int64_t>(width * size_of(context.operand_dtype(operand)), 16);
      return affine.strides[lane] == 1 &&
             alignment_of(context, operand, affine, lanes, bytes) == bytes;
    };
    std::int64_t good = 0, bad = 0;
    for (const std::vector<Expr>* list : exprs)
      for (const Expr& expr : *list) {
        if (expr.kind != Expr::Kind::load || expr.address.strides[lane] == 0) continue;
        ++(whole(expr.operand, expr.address) ? good : bad);
      }
    bool stored_whole = true;
    for (const std::vector<Store>* list : stores)
      for (const Store& store : *list) stored_whole &= whole(store.operand, store.address);
    if (stored_whole && bad <= good / 2) return width;
  }
  return 1;
}

}  // namespace riffle::codegen
