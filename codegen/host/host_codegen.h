// KernelProgram → object bytes for the host CPU. Knows nothing of ORC; no LLVM type in this header.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/kernel_spec.h"
#include "codegen/llvm_version.h"
#include "runtime/kernel_abi.h"

namespace riffle::codegen {

/// The machine that code is for. Checked against our own table before LLVM sees it.
struct HostTarget {
  std::string triple;
  std::string cpu;        ///< "sapphirerapids"
  std::string features;   ///< "+avx512f,…"
  int vector_bytes = 64;  ///< widest register that we use: 64, 32, 16
  std::int64_t l1_bytes = 48 << 10, l2_bytes = 2 << 20;
  int opt_level = 3;
  std::string sanitizer;  ///< "", "address", "thread": instrument kernels
};
/// Of this process's machine. `RIFFLE_CPU` (support/env.h) may name a lesser CPU.
HostTarget detect_host();
std::string to_string(const HostTarget& target);  ///< one line; part of the cache key

struct HostEntry {
  std::string symbol;
  runtime::KernelGeometry geometry;
};

struct HostObject {
  std::vector<std::byte> object;   ///< ELF relocatable, position independent, no undefined symbol
                                   ///< but sanitizer runtime ones
  std::vector<HostEntry> entries;  ///< one a kernel of the program, in order
};

struct HostText {
  std::string llvm_ir, assembly;
};

/// Thread-safe: own context, target machine and pass manager per call. Symbols get `prefix`.
/// Throws CompileError; never exits (DESIGN §10).
HostObject compile_host(const KernelProgram& program, const HostTarget& target,
                        const std::string& prefix);
/// The optimised IR and the assembly, for `show llvm` and `show asm`.
HostText host_text(const KernelProgram& program, const HostTarget& target,
                   const std::string& prefix);

}  // namespace riffle::codegen
