// EmitContext's questions, and which operands may overlap.
#include <llvm/IR/MDBuilder.h>

#include <numeric>

#include "codegen/emit/emit.h"
#include "codegen/emit/scalar_llvm.h"

namespace riffle::codegen {

llvm::Value* EmitContext::operand(std::int32_t index) const {
  return operand_addresses[static_cast<std::size_t>(index)];
}
const TensorType& EmitContext::operand_type(std::int32_t index) const {
  const std::int32_t slot = spec.operands[static_cast<std::size_t>(index)].slot;
  return program.slots[static_cast<std::size_t>(slot)].type;
}
DType EmitContext::operand_dtype(std::int32_t index) const { return operand_type(index).dtype; }

void EmitContext::tag(llvm::Value* access, std::int32_t operand) const {
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(access);
  if (!instruction) return;
  const auto number = static_cast<std::size_t>(operand);
  instruction->setMetadata(llvm::LLVMContext::MD_tbaa, access_tags[number]);
  if (!constant_operands.empty() && constant_operands[number] &&
      llvm::isa<llvm::LoadInst>(instruction))
    instruction->setMetadata(llvm::LLVMContext::MD_invariant_load,
                             llvm::MDNode::get(module.getContext(), {}));
}

llvm::Type* EmitContext::load_type(DType dtype) const {
  return traits.half_loads && dtype == DType::f16 ? ir.getHalfTy()
                                                  : memory_type(module.getContext(), dtype);
}

llvm::ConstantInt* EmitContext::index(std::int64_t value) const {
  return llvm::ConstantInt::getSigned(index_type, value);
}

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

}  // namespace riffle::codegen
