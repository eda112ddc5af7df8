// KernelProgram → one LLVM module, a function a kernel → object bytes.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <numeric>

#include "codegen/host/compile_module.h"
#include "codegen/host/emit.h"

namespace riffle::codegen {
namespace {

/// TBAA tags: operands whose bytes may be the same get the same one.
std::vector<llvm::MDNode*> access_tags(llvm::LLVMContext& context, const KernelSpec& spec) {
  std::vector<std::size_t> group(spec.operands.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  auto unite = [&](std::size_t a, std::size_t b) {
    const std::size_t from = group[b], to = group[a];
    for (std::size_t& g : group)
      if (g == from) g = to;
  };
  for (std::size_t a = 0; a < group.size(); ++a)
    for (std::size_t b = a + 1; b < group.size(); ++b)
      if (spec.operands[a].slot == spec.operands[b].slot) unite(a, b);
  for (const auto& [written, read] : spec.may_alias)
    unite(static_cast<std::size_t>(written), static_cast<std::size_t>(read));

  llvm::MDBuilder metadata(context);
  llvm::MDNode* root = metadata.createTBAARoot("riffle operands");
  std::vector<llvm::MDNode*> tags;
  for (std::size_t g : group) {
    llvm::MDNode* type = metadata.createTBAAScalarTypeNode("operand " + std::to_string(g), root);
    tags.push_back(metadata.createTBAAStructTagNode(type, type, 0));
  }
  return tags;
}

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

  EmitContext c{.module = module,
                .function = function,
                .ir = ir,
                .program = program,
                .spec = spec,
                .target = target,
                .operand_addresses = {},
                .access_tags = access_tags(context, spec)};
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
  return compile_module(target, prefix, options, [&](llvm::Module& module) {
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
  return compile(program, target, prefix, {.optimise = target.opt_level > 0, .want_text = true},
                 entries)
      .text;
}

}  // namespace riffle::codegen
