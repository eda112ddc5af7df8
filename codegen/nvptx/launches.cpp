// Everything here is data but the launch functions: straight code that puts the parameters'
// addresses in an array and calls the driver once a grid, through a pointer, with constant
// dimensions.
#include "codegen/nvptx/launches.h"

#include <llvm/IR/Constants.h>

#include <cstddef>

namespace riffle::codegen {
namespace {

using runtime::DeviceGrid;
using runtime::DeviceKernel;
using runtime::DeviceModule;

// The tables are written field by field: these are the layouts that the code below assumes.
static_assert(sizeof(DeviceGrid) == 40 && offsetof(DeviceGrid, grid) == 8 &&
              offsetof(DeviceGrid, block) == 20 && offsetof(DeviceGrid, shared_bytes) == 32);
static_assert(sizeof(DeviceKernel) == 48 && offsetof(DeviceKernel, launch) == 8 &&
              offsetof(DeviceKernel, grids) == 16 && offsetof(DeviceKernel, grid_count) == 24 &&
              offsetof(DeviceKernel, operand_count) == 32 &&
              offsetof(DeviceKernel, scratch_bytes) == 40);
static_assert(sizeof(DeviceModule) == 40 && offsetof(DeviceModule, ptx_bytes) == 8 &&
              offsetof(DeviceModule, sm) == 16 && offsetof(DeviceModule, ptx_version) == 20 &&
              offsetof(DeviceModule, kernels) == 24 && offsetof(DeviceModule, kernel_count) == 32);

class Writer {
 public:
  explicit Writer(llvm::Module& module) : module_(module), ir_(module.getContext()) {}

  llvm::Constant* number64(std::int64_t value) {
    return ir_.getInt64(static_cast<std::uint64_t>(value));
  }
  llvm::Constant* number32(std::int64_t value) {
    return ir_.getInt32(static_cast<std::uint32_t>(value));
  }
  llvm::Constant* null() { return llvm::ConstantPointerNull::get(ir_.getPtrTy()); }

  llvm::GlobalVariable* constant(llvm::Constant* value, const std::string& name,
                                 bool visible = false) {
    auto* variable = new llvm::GlobalVariable(
        module_, value->getType(), /*isConstant=*/true,
        visible ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage, value,
        name);
    variable->setDSOLocal(true);
    variable->setAlignment(llvm::Align(8));
    return variable;
  }
  llvm::Constant* text(const std::string& value, const std::string& name) {
    return constant(llvm::ConstantDataArray::getString(module_.getContext(), value), name);
  }
  llvm::Constant* structure(const std::vector<llvm::Constant*>& fields) {
    return llvm::ConstantStruct::getAnon(module_.getContext(), fields);
  }
  llvm::Constant* array(const std::vector<llvm::Constant*>& elements, const std::string& name) {
    if (elements.empty()) return null();
    return constant(llvm::ConstantArray::get(
                        llvm::ArrayType::get(elements[0]->getType(), elements.size()), elements),
                    name);
  }

  llvm::Constant* grids(const DeviceCode& code, const std::string& name) {
    std::vector<llvm::Constant*> list;
    for (const Grid& grid : code.grids)
      list.push_back(
          structure({text(grid.symbol, grid.symbol + "_name"), number32(grid.shape.blocks[0]),
                     number32(grid.shape.blocks[1]), number32(grid.shape.blocks[2]),
                     number32(grid.shape.threads), number32(1), number32(1),
                     number32(grid.shared_bytes), number32(0)}));
    return array(list, name);
  }

  /// runtime::DeviceLaunch.
  llvm::Function* launch(const DeviceCode& code, std::size_t operands, const std::string& name) {
    llvm::Type* pointer = ir_.getPtrTy();
    llvm::Type* word = ir_.getInt32Ty();
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(word, std::vector<llvm::Type*>(6, pointer), false),
        llvm::Function::ExternalLinkage, name, module_);
    function->setDSOLocal(true);
    llvm::LLVMContext& context = module_.getContext();
    ir_.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
    llvm::Value *driver = function->getArg(0), *functions = function->getArg(1),
                *addresses = function->getArg(2), *stream = function->getArg(5);
    auto element = [&](llvm::Value* base, std::size_t k) {
      return ir_.CreateConstInBoundsGEP1_64(pointer, base, k);
    };
    // Operands are passed from where they are; scratch and status need a place.
    llvm::Value* own = ir_.CreateAlloca(pointer, number64(2));
    ir_.CreateStore(function->getArg(3), element(own, 0));
    ir_.CreateStore(function->getArg(4), element(own, 1));
    llvm::Value* parameters =
        ir_.CreateAlloca(pointer, number64(static_cast<std::int64_t>(operands + 2)));
    for (std::size_t k = 0; k < operands + 2; ++k)
      ir_.CreateStore(k < operands ? element(addresses, k) : element(own, k - operands),
                      element(parameters, k));

    auto* type = llvm::FunctionType::get(
        word, {pointer, word, word, word, word, word, word, word, pointer, pointer, pointer},
        false);
    auto* failed = llvm::BasicBlock::Create(context, "failed");
    std::vector<std::pair<llvm::Value*, llvm::BasicBlock*>> results;
    for (std::size_t g = 0; g < code.grids.size(); ++g) {
      const Grid& grid = code.grids[g];
      llvm::Value* result =
          ir_.CreateCall(type, driver,
                         {ir_.CreateLoad(pointer, element(functions, g)),
                          number32(grid.shape.blocks[0]), number32(grid.shape.blocks[1]),
                          number32(grid.shape.blocks[2]), number32(grid.shape.threads), number32(1),
                          number32(1), number32(grid.shared_bytes), stream, parameters, null()});
      auto* next = llvm::BasicBlock::Create(context, "next", function);
      results.emplace_back(result, ir_.GetInsertBlock());
      ir_.CreateCondBr(ir_.CreateICmpEQ(result, ir_.getInt32(0)), next, failed);
      ir_.SetInsertPoint(next);
    }
    ir_.CreateRet(ir_.getInt32(0));
    if (results.empty()) {
      delete failed;
      return function;
    }
    failed->insertInto(function);
    ir_.SetInsertPoint(failed);
    llvm::PHINode* result = ir_.CreatePHI(word, static_cast<unsigned>(results.size()));
    for (const auto& [value, from] : results) result->addIncoming(value, from);
    ir_.CreateRet(result);
    return function;
  }

 private:
  llvm::Module& module_;
  llvm::IRBuilder<> ir_;
};

}  // namespace

std::vector<std::string> emit_launches(llvm::Module& module, const KernelProgram& program,
                                       const NvptxTarget& target, const std::string& prefix,
                                       const std::string& ptx,
                                       const std::vector<DeviceCode>& codes) {
  Writer write(module);
  std::vector<std::string> names;
  std::vector<llvm::Constant*> kernels;
  for (std::size_t k = 0; k < codes.size(); ++k) {
    const KernelSpec& spec = program.kernels[k];
    names.push_back(prefix + spec.name + "_launch");
    kernels.push_back(
        write.structure({write.text(spec.name, names.back() + "_name"),
                         write.launch(codes[k], spec.operands.size(), names.back()),
                         write.grids(codes[k], names.back() + "_grids"),
                         write.number64(static_cast<std::int64_t>(codes[k].grids.size())),
                         write.number64(static_cast<std::int64_t>(spec.operands.size())),
                         write.number64(codes[k].scratch_bytes)}));
  }
  write.constant(
      write.structure(
          {write.text(ptx, "ptx"), write.number64(static_cast<std::int64_t>(ptx.size())),
           write.number32(target.sm), write.number32(target.ptx), write.array(kernels, "kernels"),
           write.number64(static_cast<std::int64_t>(kernels.size()))}),
      runtime::kDeviceModuleSymbol, /*visible=*/true);
  return names;
}

}  // namespace riffle::codegen
