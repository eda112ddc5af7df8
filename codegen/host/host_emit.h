// The host's emitters: one llvm::Function of the HostKernel signature a KernelSpec.
#pragma once

#include "codegen/emit/emit.h"
#include "codegen/host/host_codegen.h"

namespace riffle::codegen {

/// The entry block has loaded the operands' addresses (marked invariant, 64-byte aligned); an
/// emitter fills the function, ends it with `ret void`, and returns the geometry.
struct HostContext : EmitContext {
  const HostTarget& target;

  llvm::Value* task_begin() const { return function->getArg(1); }
  llvm::Value* task_end() const { return function->getArg(2); }
  llvm::Value* scratch() const { return function->getArg(3); }
  llvm::Value* status() const { return function->getArg(4); }
};

runtime::KernelGeometry emit_loop(HostContext& context, const LoopBody& body);
runtime::KernelGeometry emit_row(HostContext& context, const RowBody& body);
runtime::KernelGeometry emit_matmul(HostContext& context, const MatmulBody& body);
runtime::KernelGeometry emit_scatter(HostContext& context, const ScatterBody& body);

}  // namespace riffle::codegen
