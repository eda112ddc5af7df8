// The emitters are not there yet.
#include "codegen/nvptx/nvptx_codegen.h"
#include "riffle/error.h"
namespace riffle::codegen {
HostObject compile_nvptx(const KernelProgram&, const NvptxTarget&, const HostTarget&,
                         const std::string&) {
  throw CompileError({.what = "there is no code generator for NVIDIA GPUs in this build yet",
                      .hint = "device cpu"});
}
NvptxText nvptx_text(const KernelProgram&, const NvptxTarget&, const std::string&) {
  throw CompileError({.what = "there is no code generator for NVIDIA GPUs in this build yet",
                      .hint = "device cpu"});
}
}  // namespace riffle::codegen
