// KernelProgram → PTX for an NVIDIA GPU, wrapped in a host object that owns it. Knows nothing of
// ORC or of the driver; no LLVM type in this header.
//
//   KernelSpecs ── emitters ──▶ LLVM IR (nvptx64) ──▶ PTX text ─┐
//   launch shapes of every kernel ─────────────────────────────▶ host object: kDeviceModuleSymbol
//
// The object is linked like any other (one JITDylib and ResourceTracker a partition, the same disk
// cache); runtime/kernel_abi.h says what its table holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {

/// The GPU that code is for, checked against our own table (nvptx/target.cpp) before LLVM sees it.
struct NvptxTarget {
  int sm = 0;   ///< 75, 80, 86, 89, 90, …
  int ptx = 0;  ///< PTX ISA version × 10: 70 is 7.0; the lowest that suffices for sm
  int opt_level = 3;
  /// Multiply f32 matrices on tensor cores where there are some: operands are rounded to tf32.
  bool tf32 = false;
  bool operator==(const NvptxTarget&) const = default;
};

/// The target for a device of compute capability `sm` (newer than the table: its newest row, which
/// the driver translates) under a driver that reports `driver_version` (cuDriverGetVersion: 12040
/// is 12.4; 0: no cap). Throws CompileError that names both numbers when they cannot meet.
NvptxTarget nvptx_target(int sm, int driver_version);
std::string to_string(const NvptxTarget& target);  ///< one line; part of the cache key

/// What `show ptx`, `show kernels` and the static table need.
struct NvptxText {
  std::string llvm_ir, ptx;
};

/// Thread-safe. `host` compiles the launch functions. Entries of the result are the kernels'
/// launch functions. Throws CompileError; never exits.
HostObject compile_nvptx(const KernelProgram& program, const NvptxTarget& target,
                         const HostTarget& host, const std::string& prefix);
NvptxText nvptx_text(const KernelProgram& program, const NvptxTarget& target,
                     const std::string& prefix);

}  // namespace riffle::codegen
