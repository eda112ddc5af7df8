// What NVIDIA's assembler makes of PTX, where it is installed: registers, shared memory, spills;
// and whether it accepts the text at all. Not needed to run: drivers assemble by themselves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace riffle::codegen {

/// One entry function, in the order of the assembler's report.
struct PtxasKernel {
  std::string symbol;
  int registers = 0;     ///< per thread
  int shared_bytes = 0;  ///< static, per block
  int stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;
  bool operator==(const PtxasKernel&) const = default;
};

/// RIFFLE_PTXAS, else the first ptxas in PATH or of /usr/local/cuda; nullopt where there is none.
std::optional<std::string> find_ptxas();

/// Runs `ptxas` for sm_`sm`. Throws CompileError with the assembler's words when it rejects the
/// text, and when it cannot be run. Blocks for the time it takes (10 ms to seconds).
std::vector<PtxasKernel> assemble(const std::string& ptxas, std::string_view ptx, int sm);

/// Parses the report of `ptxas -v`.
std::vector<PtxasKernel> parse_ptxas_report(std::string_view report);

/// How often a kernel's PTX says what makes it fast: static counts, unrolled loops included.
struct InstructionMix {
  std::string symbol;
  int instructions = 0;
  int mma = 0;                           ///< tensor core operations
  int global_128 = 0, global_other = 0;  ///< loads and stores of global memory, by width
  int async_copies = 0;                  ///< cp.async
  int shared_128 = 0, shared_other = 0;  ///< loads and stores of shared memory, ldmatrix in 128
  int shuffles = 0, barriers = 0, local = 0;  ///< local: loads and stores of local memory
};
std::vector<InstructionMix> count_instructions(std::string_view ptx);

}  // namespace riffle::codegen
