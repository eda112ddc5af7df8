// KernelProgram → one LLVM module for the GPU → PTX → the host object that carries it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/compile_module.h"
#include "codegen/host/target.h"
#include "codegen/nvptx/launches.h"
#include "codegen/nvptx/nvptx_emit.h"
#include "codegen/nvptx/target.h"
#include "riffle/error.h"

namespace riffle::codegen {
namespace {

DeviceCode emit_kernel(llvm::Module& module, const KernelProgram& program, const KernelSpec& spec,
                       const NvptxTarget& target, const std::string& symbol) {
  DeviceKernelWriter writer(module, program, spec, target, symbol);
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, LoopBody>) emit_device_loop(writer, body);
        if constexpr (std::is_same_v<Body, RowBody>) emit_device_row(writer, body);
        if constexpr (std::is_same_v<Body, MatmulBody>) emit_device_matmul(writer, body);
        if constexpr (std::is_same_v<Body, ScatterBody>) emit_device_scatter(writer, body);
      },
      spec.body);
  DeviceCode code = writer.finish();
  // 1.5 TB/s and 15 TFLOP/s: what a GPU does within a factor of three.
  code.work_ns = std::max(spec.bytes / 1500, spec.flops / 15000);
  return code;
}

struct Generated {
  ModuleResult text;
  std::vector<DeviceCode> codes;
};

Generated generate(const KernelProgram& program, std::span<const KernelSpec> kernels,
                   const NvptxTarget& target, const std::string& prefix, const std::string& where) {
  Generated result;
  result.text = compile_module(
      code_target(target), where,
      {.optimise = target.opt_level > 0, .rules = IrRules::device_kernels, .want_text = true},
      [&](llvm::Module& module) {
        for (const KernelSpec& spec : kernels)
          result.codes.push_back(emit_kernel(module, program, spec, target, prefix + spec.name));
      });
  return result;
}

/// All kernels in one module. When LLVM refuses it, one after the other, so that the error names
/// the kernel and what it computes.
Generated generate(const KernelProgram& program, const NvptxTarget& target,
                   const std::string& prefix) {
  try {
    return generate(program, program.kernels, target, prefix, prefix);
  } catch (const CompileError&) {
    for (const KernelSpec& spec : program.kernels) try {
        generate(program, {&spec, 1}, target, prefix, prefix);
      } catch (const CompileError& error) {
        throw CompileError(
            {.what = std::string(error.message()),
             .where = fmt::format("kernel {} (%{})", spec.name, fmt::join(spec.origin, ", %")),
             .hint = std::string(error.hint()),
             .foreign = std::string(error.foreign())});
      }
    throw;
  }
}

}  // namespace

HostObject compile_nvptx(const KernelProgram& program, const NvptxTarget& target,
                         const HostTarget& host, const std::string& prefix) {
  const Generated device = generate(program, target, prefix);
  HostObject result;
  std::vector<std::string> names;
  result.object = compile_module(code_target(host), prefix,
                                 {.optimise = host.opt_level > 0, .rules = IrRules::launches},
                                 [&](llvm::Module& module) {
                                   names = emit_launches(module, program, target, prefix,
                                                         device.text.assembly, device.codes);
                                 })
                      .object;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const DeviceCode& code = device.codes[k];
    runtime::KernelGeometry geometry{
        .tasks = 0, .scratch_bytes = code.scratch_bytes, .work_ns = code.work_ns};
    for (const Grid& grid : code.grids)
      geometry.tasks += grid.shape.blocks[0] * grid.shape.blocks[1] * grid.shape.blocks[2];
    result.entries.push_back({names[k], geometry});
  }
  return result;
}

NvptxText nvptx_text(const KernelProgram& program, const NvptxTarget& target,
                     const std::string& prefix) {
  Generated device = generate(program, target, prefix);
  return {std::move(device.text.llvm_ir), std::move(device.text.assembly)};
}

}  // namespace riffle::codegen
