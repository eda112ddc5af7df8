#include "jit/schedule_assembly.h"

#include <algorithm>

namespace riffle::jit {

using runtime::Access;
using runtime::Command;

void Assembly::merge_in_place() {
  for (const InPlace& candidate : in_place_) {
    const TensorId read = root(candidate.read);
    Tensor& from = tensors_[read];
    Tensor& to = tensors_[candidate.written];
    const bool both_temporary = from.buffer == kArena && to.buffer == kArena;
    if (!both_temporary || read == candidate.written || to.shares != kNoTensor ||
        from.bytes != to.bytes || from.last != candidate.command || to.first != candidate.command)
      continue;
    // Another operand of the kernel may be the same tensor, read at other places.
    const auto& uses = uses_[candidate.command];
    if (std::count_if(uses.begin(), uses.end(),
                      [&](const Use& use) { return root(use.tensor) == read; }) != 1)
      continue;
    to.shares = read;
    from.last = to.last;
  }
}

MemoryPlan Assembly::place_temporaries() {
  std::vector<PlanItem> items;
  std::vector<TensorId> owners;
  for (TensorId id = 0; id < static_cast<TensorId>(tensors_.size()); ++id) {
    const Tensor& tensor = tensors_[id];
    if (tensor.buffer != kArena || tensor.shares != kNoTensor || tensor.first < 0) continue;
    items.push_back({tensor.bytes, tensor.first, tensor.last});
    owners.push_back(id);
  }
  MemoryPlan plan = plan_memory(items);
  for (std::size_t i = 0; i < owners.size(); ++i) tensors_[owners[i]].offset = plan.offsets[i];
  return plan;
}

void Assembly::append_frees() {
  std::vector<Command> commands;
  std::vector<std::vector<Use>> uses;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(uses_.size()); ++index) {
    commands.push_back(schedule->commands[index]);
    uses.push_back(uses_[index]);
    for (TensorId id = 0; id < static_cast<TensorId>(tensors_.size()); ++id) {
      const Tensor& tensor = tensors_[id];
      if (tensor.buffer != kArena || tensor.shares != kNoTensor || tensor.last != index ||
          tensor.bytes == 0)
        continue;
      Command free{.what = runtime::Free{},
                   .stream = kCompute,
                   .label = "free",
                   .phase = commands.back().phase,
                   .partition = commands.back().partition};
      commands.push_back(std::move(free));
      uses.push_back({{id, Access::write}});
    }
  }
  schedule->commands = std::move(commands);
  uses_ = std::move(uses);
}

BuiltSchedule Assembly::finish(const ScheduleOptions& options) {
  merge_in_place();
  BuiltSchedule built{.plan = place_temporaries()};
  if (options.free_commands) append_frees();
  for (std::size_t index = 0; index < uses_.size(); ++index) {
    for (const Use& use : uses_[index]) {
      const Tensor& tensor = tensors_[use.tensor];
      const std::int64_t offset =
          tensor.buffer == kArena ? tensors_[root(use.tensor)].offset : tensor.offset;
      schedule->commands[index].operands.push_back(
          {{tensor.buffer, offset, offset + tensor.bytes}, use.access});
    }
  }
  schedule->buffers[kArena].bytes = built.plan.peak_bytes;
  built.schedule = std::move(schedule);
  built.modules = std::move(modules);
  return built;
}

}  // namespace riffle::jit
