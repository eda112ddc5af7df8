// What the tuned GPU kernels are made of, as ptxas and their PTX say, beside the least time that
// an H200 needs for their bytes and operations: a table in Markdown, which shows a regression where
// there is no GPU.
//
//   build/bench/ptx_table
//
// Where sm_80 and sm_90 differ, both stand, in this order. Registers, spills and shared memory need
// ptxas; without it they are "?". The floor is no measurement: it is the larger of the bytes of all
// operands over 4.8 TB/s, and the operations over 67 TFLOP/s (f32), 494 (tf32) or 989 (bf16, f16
// matmuls).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "codegen/kernel_spec.h"
#include "codegen/nvptx/nvptx_codegen.h"
#include "codegen/nvptx/ptxas.h"
#include "ir/autodiff.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "riffle/error.h"

namespace riffle {
namespace {

struct Case {
  std::string label, body;
  bool backward = false;  ///< of the loss that `body` returns
  bool tf32 = false;
};

Case matmul(const std::string& dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {fmt::format("matmul {} {} × {} × {}, bias, relu", dtype, m, n, k),
          fmt::format("%x = input : {0}[{1}, {3}]\n%w = input : {0}[{3}, {2}]\n"
                      "%b = input : {0}[{2}]\n%p = matmul(%x, %w)\n%s = add(%p, %b)\n"
                      "%r = relu(%s)\nreturn %r",
                      dtype, m, n, k)};
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (std::int64_t size : {4096, 1024, 512, 256}) list.push_back(matmul("f32", size, size, 1024));
  for (std::int64_t size : {4096, 1024, 512, 256}) list.push_back(matmul("bf16", size, size, 1024));
  list.push_back(matmul("bf16", 64, 64, 8192));
  list.push_back(matmul("f16", 4096, 4096, 1024));
  Case tf32 = matmul("f32", 4096, 4096, 1024);
  tf32.label.insert(tf32.label.find("f32"), "tf32 of ");
  tf32.tf32 = true;
  list.push_back(tf32);
  list.push_back({"add, f32, 2^24",
                  "%x = input : f32[16777216]\n%y = input : f32[16777216]\n"
                  "%s = add(%x, %y)\nreturn %s"});
  list.push_back({"gelu, bf16, 2^24", "%x = input : bf16[16777216]\n%s = gelu(%x)\nreturn %s"});
  list.push_back(
      {"softmax, f32, 16384 × 1024", "%x = input : f32[16384, 1024]\n%s = softmax(%x)\nreturn %s"});
  list.push_back({"softmax backward",
                  "%x = param : f32[16384, 1024]\n%y = input : f32[16384, 1024]\n"
                  "%s = softmax(%x)\n%l = mse_loss(%s, %y)\nreturn %l",
                  true});
  list.push_back({"layer_norm, f32, 16384 × 1024",
                  "%x = input : f32[16384, 1024]\n%w = input : f32[1024]\n%b = input : f32[1024]\n"
                  "%s = layer_norm(%x, [1024], %w, %b)\nreturn %s"});
  list.push_back({"layer_norm backward",
                  "%x = param : f32[16384, 1024]\n%w = param : f32[1024]\n%b = param : f32[1024]\n"
                  "%y = input : f32[16384, 1024]\n%s = layer_norm(%x, [1024], %w, %b)\n"
                  "%l = mse_loss(%s, %y)\nreturn %l",
                  true});
  const std::string cross_entropy =
      "f32[4096, 32000]\n%y = input : i64[4096]\n%l = cross_entropy(%x, %y)\nreturn %l";
  list.push_back({"cross_entropy, f32, 4096 × 32000", "%x = input : " + cross_entropy});
  list.push_back({"cross_entropy backward", "%x = param : " + cross_entropy, true});
  return list;
}

codegen::KernelProgram program_of(const Case& c) {
  const ir::Graph graph = ir::parse("graph @bench {\n" + c.body + "\n}\n", c.label);
  if (!c.backward) return codegen::build_kernels(ir::lower_to_primitives(graph));
  return codegen::build_kernels(
      ir::differentiate(ir::split(graph, *ir::split_none())).partitions.at(0).backward);
}

/// One entry function: what its row says.
struct Entry {
  std::string registers = "?", spills = "?", shared = "?";
  codegen::InstructionMix mix;
};

std::vector<Entry> entries_of(const codegen::KernelProgram& program, int sm, bool tf32) {
  codegen::NvptxTarget target = codegen::nvptx_target(sm, 0);
  target.tf32 = tf32;
  const std::string ptx = codegen::nvptx_text(program, target, "").ptx;
  std::vector<Entry> entries;
  for (codegen::InstructionMix& mix : codegen::count_instructions(ptx))
    entries.push_back({.mix = std::move(mix)});
  if (const auto ptxas = codegen::find_ptxas())
    for (const codegen::PtxasKernel& kernel : codegen::assemble(*ptxas, ptx, sm))
      for (Entry& entry : entries)
        if (entry.mix.symbol == kernel.symbol) {
          entry.registers = fmt::to_string(kernel.registers);
          entry.spills = fmt::to_string(kernel.spill_store_bytes + kernel.spill_load_bytes);
          entry.shared = fmt::to_string(kernel.shared_bytes);
        }
  return entries;
}

/// "12 µs, bytes": and what bounds it.
std::string floor_of(const codegen::KernelProgram& program, const codegen::KernelSpec& kernel,
                     bool tf32) {
  double peak = 67e12;
  if (const auto* matmul = std::get_if<codegen::MatmulBody>(&kernel.body))
    peak = matmul->dtype == DType::bf16 || matmul->dtype == DType::f16 ? 989e12
           : tf32                                                      ? 494e12
                                                                       : peak;
  double bytes = 0;
  for (const codegen::KernelOperand& operand : kernel.operands)
    bytes +=
        static_cast<double>(program.slots[static_cast<std::size_t>(operand.slot)].type.bytes());
  const double moving = bytes / 4.8e12, computing = kernel.flops / peak;
  return fmt::format("{:.3g} µs, {}", 1e6 * std::max(moving, computing),
                     moving > computing ? "bytes" : "FLOPs");
}

std::string both(const std::string& a, const std::string& b) {
  return a == b ? a : fmt::format("{} / {}", a, b);
}
std::string both(int a, int b) { return both(fmt::to_string(a), fmt::to_string(b)); }

void print_rows(const Case& c) {
  const codegen::KernelProgram program = program_of(c);
  const std::vector<Entry> old_gpu = entries_of(program, 80, c.tf32),
                           new_gpu = entries_of(program, 90, c.tf32);
  const auto find = [](const std::vector<Entry>& entries, const std::string& symbol) {
    const auto at = std::ranges::find(entries, symbol, [](const Entry& e) { return e.mix.symbol; });
    return at == entries.end() ? Entry{} : *at;
  };
  for (const Entry& entry : new_gpu) {
    const Entry other = find(old_gpu, entry.mix.symbol);
    const codegen::InstructionMix &a = other.mix, &b = entry.mix;
    std::string least = "with the row above";  // a second grid of the same kernel
    for (const codegen::KernelSpec& kernel : program.kernels)
      if (kernel.name == b.symbol) least = floor_of(program, kernel, c.tf32);
    fmt::print("| {} | `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", c.label, b.symbol,
               both(other.registers, entry.registers), both(other.spills, entry.spills),
               both(other.shared, entry.shared), both(a.mma, b.mma),
               both(a.global_128, b.global_128), both(a.global_other, b.global_other),
               both(a.async_copies, b.async_copies), both(a.instructions, b.instructions), least);
  }
}

void print_table() {
  fmt::print(
      "| | kernel | registers | spilled bytes | shared bytes | mma | 128-bit global | other global "
      "| cp.async | instructions | floor on an H200 "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : cases()) print_rows(c);
}

}  // namespace
}  // namespace riffle

int main() {
  try {
    riffle::print_table();
    return 0;
  } catch (const riffle::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
