// KernelProgram → one LLVM module, a function a kernel → object bytes.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/emit/compile_module.h"
#include "codegen/host/host_emit.h"
#include "codegen/host/target.h"

namespace riffle::codegen {
namespace {

runtime::KernelGeometry emit_kernel(llvm::Module& module, const KernelProgram& program,
                                    const KernelSpec& spec, const HostTarget& target,
                                    const std::string& symbol) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> ir(context);
  llvm::Type* pointer = ir.getPtrTy();
  llvm::Type* position = ir.getInt64Ty();
  auto* type = llvm::FunctionType::get(ir.getVoidTy(),
                                       {pointer, position, position, pointer, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
  function->setDSOLocal(true);
  for (unsigned pointer_argument : {0U, 3U, 4U})
    function->addParamAttr(pointer_argument, llvm::Attribute::NoAlias);
  ir.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));

  HostContext c{{.module = module,
                 .function = function,
                 .ir = ir,
                 .program = program,
                 .spec = spec,
                 .traits = {.masked_vectors = true, .gathers = has_avx512(target)},
                 .index_type = ir.getInt64Ty(),
                 .operand_addresses = {},
                 .access_tags = access_tags(context, spec),
                 .constant_operands = {},
                 .report_index = {}},
                target};
  c.report_index = [&](llvm::Value* value, std::int64_t size) {
    auto put = [&](llvm::Value* field, std::uint64_t offset) {
      llvm::Value* at = ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), c.status(), offset);
      ir.CreateAlignedStore(field, at, llvm::Align(8))
          ->setOrdering(llvm::AtomicOrdering::Monotonic);
    };
    put(value, offsetof(runtime::KernelStatus, value));
    put(ir.getInt64(static_cast<std::uint64_t>(size)), offsetof(runtime::KernelStatus, limit));
    put(ir.getInt64(runtime::kIndexOutOfRange), offsetof(runtime::KernelStatus, code));
  };
  llvm::MDNode* empty = llvm::MDNode::get(context, {});
  llvm::MDNode* alignment = llvm::MDNode::get(
      context, llvm::ConstantAsMetadata::get(ir.getInt64(runtime::kOperandAlignment)));
  for (std::size_t k = 0; k < spec.operands.size(); ++k) {
    llvm::LoadInst* address = ir.CreateAlignedLoad(
        pointer, ir.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), k), llvm::Align(8));
    address->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
    address->setMetadata(llvm::LLVMContext::MD_align, alignment);
    c.operand_addresses.push_back(address);
  }
  // The loops start in a block of their own: what is put into the entry block later (stack
  // memory) then precedes them.
  auto* body = llvm::BasicBlock::Create(context, "body", function);
  ir.CreateBr(body);
  ir.SetInsertPoint(body);
  return std::visit(
      [&](const auto& kernel) -> runtime::KernelGeometry {
        using Body = std::decay_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Body, LoopBody>) return emit_loop(c, kernel);
        if constexpr (std::is_same_v<Body, RowBody>) return emit_row(c, kernel);
        if constexpr (std::is_same_v<Body, MatmulBody>) return emit_matmul(c, kernel);
        if constexpr (std::is_same_v<Body, ScatterBody>) return emit_scatter(c, kernel);
      },
      spec.body);
}

ModuleResult compile(const KernelProgram& program, const HostTarget& target,
                     const std::string& prefix, const ModuleOptions& options,
                     std::vector<HostEntry>& entries) {
  return compile_module(code_target(target), prefix, options, [&](llvm::Module& module) {
    for (const KernelSpec& spec : program.kernels) {
      const std::string symbol = prefix + spec.name;
      entries.push_back({symbol, emit_kernel(module, program, spec, target, symbol)});
    }
  });
}

}  // namespace

HostObject compile_host(const KernelProgram& program, const HostTarget& target,
                        const std::string& prefix) {
  HostObject result;
  result.object =
      compile(program, target, prefix, {.optimise = target.opt_level > 0}, result.entries).object;
  return result;
}

HostText host_text(const KernelProgram& program, const HostTarget& target,
                   const std::string& prefix) {
  std::vector<HostEntry> entries;
  ModuleResult result = compile(program, target, prefix,
                                {.optimise = target.opt_level > 0, .want_text = true}, entries);
  return {std::move(result.llvm_ir), std::move(result.assembly)};
}

}  // namespace riffle::codegen
