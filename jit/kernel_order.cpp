#include "jit/kernel_order.h"

namespace riffle::jit {

using codegen::KernelProgram;

std::vector<std::vector<std::int32_t>> writers_of(const KernelProgram& program) {
  std::vector<std::vector<std::int32_t>> writers(program.slots.size());
  for (std::size_t k = 0; k < program.kernels.size(); ++k)
    for (const codegen::KernelOperand& operand : program.kernels[k].operands)
      if (operand.access != codegen::Access::read)
        writers[operand.slot].push_back(static_cast<std::int32_t>(k));
  return writers;
}

bool may_overwrite(const KernelProgram& program, std::int32_t out, std::int32_t in) {
  bool proven = false, written = false;
  for (const codegen::KernelSpec& kernel : program.kernels) {
    bool aliased = false;
    for (auto [w, r] : kernel.may_alias)
      aliased |= kernel.operands[w].slot == out && kernel.operands[r].slot == in;
    bool reads = false, writes = false;
    for (const codegen::KernelOperand& operand : kernel.operands) {
      reads |= operand.slot == in;
      writes |= operand.slot == out;
    }
    if (written && (reads || writes)) return false;
    if (writes && !aliased && reads) return false;
    if (writes) written = proven = true;
  }
  return proven;
}

std::vector<std::int32_t> order_for(const KernelProgram& program,
                                    std::span<const std::int32_t> first) {
  const auto count = static_cast<std::int32_t>(program.kernels.size());
  const auto writers = writers_of(program);
  std::vector<std::int32_t> order;
  std::vector<bool> placed(program.kernels.size(), false);
  // Depth-first with a stack of its own: a long chain of kernels must not exhaust the thread's.
  struct Visit {
    std::int32_t kernel;
    bool expanded;
  };
  std::vector<Visit> stack;
  auto place = [&](std::int32_t kernel) {
    stack.push_back({kernel, false});
    while (!stack.empty()) {
      const Visit visit = stack.back();
      stack.pop_back();
      if (placed[visit.kernel]) continue;
      if (visit.expanded) {
        placed[visit.kernel] = true;
        order.push_back(visit.kernel);
        continue;
      }
      stack.push_back({visit.kernel, true});
      std::vector<std::int32_t> needed;
      for (const codegen::KernelOperand& operand : program.kernels[visit.kernel].operands)
        if (operand.access != codegen::Access::write)
          for (std::int32_t writer : writers[operand.slot])
            if (writer < visit.kernel && !placed[writer]) needed.push_back(writer);
      for (std::size_t i = needed.size(); i-- > 0;) stack.push_back({needed[i], false});
    }
  };
  for (std::int32_t slot : first)
    for (std::int32_t writer : writers[slot]) place(writer);
  for (std::int32_t k = 0; k < count; ++k) place(k);
  return order;
}

}  // namespace riffle::jit
