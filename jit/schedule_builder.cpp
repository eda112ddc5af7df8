// Start reading at build_schedule, at the end; Assembly holds what is under construction.
//
// Tensors are placed late: while commands are appended an operand names a Tensor (a fixed region or
// an arena temporary), and only when all lives are known does the memory plan give addresses.
#include "jit/schedule_builder.h"

#include <algorithm>
#include <utility>

namespace riffle::jit {
namespace {

using codegen::KernelProgram;
using ir::BackwardValue;
using ir::ValueId;
using runtime::Access;
using runtime::Command;
using runtime::EventId;
using runtime::Phase;
using runtime::StreamId;

using TensorId = std::int32_t;
constexpr TensorId kNoTensor = -1;

struct Tensor {
  std::int64_t bytes = 0;
  runtime::BufferId buffer = kArena;
  std::int64_t offset = 0;  // fixed tensors; of the arena: from the plan
  std::int32_t first = -1, last = -1;
  TensorId shares = kNoTensor;  // lies in the same bytes as this other arena tensor
};

struct Use {
  TensorId tensor;
  Access access;
};

/// Commands and tensors of a schedule under construction.
class Assembly {
 public:
  std::shared_ptr<runtime::Schedule> schedule = std::make_shared<runtime::Schedule>();
  std::vector<std::shared_ptr<const CompiledGraph>> modules;

  TensorId temporary(std::int64_t bytes) {
    tensors_.push_back({.bytes = bytes});
    return static_cast<TensorId>(tensors_.size()) - 1;
  }
  TensorId fixed(const Region& region) {
    tensors_.push_back(
        {.bytes = region.type.bytes(), .buffer = region.buffer, .offset = region.offset});
    return static_cast<TensorId>(tensors_.size()) - 1;
  }

  void set_place(Phase phase, std::int32_t partition) {
    phase_ = phase;
    partition_ = partition;
  }
  std::int32_t append(decltype(Command::what) what, StreamId stream, std::vector<Use> uses,
                      std::string label) {
    const auto index = static_cast<std::int32_t>(schedule->commands.size());
    Command command{.what = what,
                    .stream = stream,
                    .label = std::move(label),
                    .phase = phase_,
                    .partition = partition_};
    schedule->commands.push_back(std::move(command));
    for (const Use& use : uses) {
      Tensor& tensor = tensors_[use.tensor];
      if (tensor.first < 0) tensor.first = index;
      tensor.last = index;
    }
    uses_.push_back(std::move(uses));
    return index;
  }
  EventId record(StreamId stream, std::string label) {
    const EventId event = schedule->events++;
    append(runtime::Record{event}, stream, {}, std::move(label));
    return event;
  }
  void wait(StreamId stream, EventId event, std::string label) {
    append(runtime::Wait{event}, stream, {}, std::move(label));
  }
  void copy(TensorId from, TensorId to, std::string label) {
    append(runtime::Copy{}, kCompute, {{from, Access::read}, {to, Access::write}},
           std::move(label));
  }
  bool same_place(TensorId a, TensorId b) const {
    return a == b || (tensors_[a].buffer != kArena && tensors_[a].buffer == tensors_[b].buffer &&
                      tensors_[a].offset == tensors_[b].offset);
  }

  /// Lets a kernel's result take over the bytes of an operand that dies there.
  void reuse_in_place(std::int32_t index, TensorId written, TensorId read) {
    in_place_.push_back({index, written, read});
  }

  BuiltSchedule finish(const ScheduleOptions& options);

 private:
  struct InPlace {
    std::int32_t command;
    TensorId written, read;
  };
  TensorId root(TensorId id) const {
    while (tensors_[id].shares != kNoTensor) id = tensors_[id].shares;
    return id;
  }
  void merge_in_place();
  MemoryPlan place_temporaries();
  void append_frees();

  std::vector<Tensor> tensors_;
  std::vector<std::vector<Use>> uses_;  // per command
  std::vector<InPlace> in_place_;
  Phase phase_ = Phase::setup;
  std::int32_t partition_ = -1;
};

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

/// The last kernel that writes each slot, or -1.
std::vector<std::int32_t> last_writers(const KernelProgram& program) {
  std::vector<std::int32_t> last(program.slots.size(), -1);
  for (std::size_t k = 0; k < program.kernels.size(); ++k)
    for (const codegen::KernelOperand& operand : program.kernels[k].operands)
      if (operand.access != codegen::Access::read) last[operand.slot] = static_cast<int>(k);
  return last;
}

/// May the bytes of `out` be those of `in`? Only if one kernel reads `in` for the last time where,
/// element by element, it writes `out`.
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

/// Walks the step's stages in order and appends their commands.
class StepAssembler {
 public:
  StepAssembler(const StepProgram& program, const std::vector<HookSlot>& hooks,
                const ScheduleOptions& options)
      : program_(program), hooks_(hooks), options_(options) {}

  BuiltSchedule run();

 private:
  using AfterKernel = std::vector<std::vector<ValueId>>;  // per kernel: gradients then complete

  std::int32_t add_module(const std::shared_ptr<const CompiledGraph>& code);
  void launch_all(const std::shared_ptr<const CompiledGraph>& code,
                  const std::vector<TensorId>& slots, const AfterKernel& ready);
  std::vector<TensorId> bind(const KernelProgram& program, const std::vector<TensorId>& inputs,
                             const std::vector<TensorId>& parameters,
                             const std::vector<TensorId>& wanted_outputs);
  void forward(std::size_t partition);
  void backward(std::size_t partition);
  void optimizer();
  void declare_buffers();

  TensorId value(ValueId id);
  TensorId parameter(ValueId id);
  bool last_contribution(std::size_t partition, ValueId id) const;
  Region gradient_home(std::size_t partition, ValueId id) const;

  void gradients_ready(const std::vector<ValueId>& parameters);
  void partition_hooks(HookPoint point, std::size_t partition);
  void run_hook(std::size_t slot);
  void wait_for_hooks();

  const StepProgram& program_;
  const std::vector<HookSlot>& hooks_;
  const ScheduleOptions& options_;
  Assembly a_;
  std::vector<TensorId> values_, parameters_, cotangents_;  // by whole ValueId
  std::vector<std::vector<TensorId>> residuals_;            // by partition, forward output
  std::map<const CompiledGraph*, std::int32_t> module_index_;
  bool stream_used_[kStreamCount] = {};
};

std::int32_t StepAssembler::add_module(const std::shared_ptr<const CompiledGraph>& code) {
  auto [place, inserted] =
      module_index_.try_emplace(code.get(), static_cast<std::int32_t>(a_.modules.size()));
  if (inserted) {
    a_.modules.push_back(code);
    a_.schedule->modules.push_back({code->image.name});
  }
  return place->second;
}

void StepAssembler::launch_all(const std::shared_ptr<const CompiledGraph>& code,
                               const std::vector<TensorId>& slots, const AfterKernel& ready) {
  const std::int32_t module = add_module(code);
  const KernelProgram& program = code->program;
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const codegen::KernelSpec& kernel = program.kernels[k];
    std::vector<Use> uses;
    for (const codegen::KernelOperand& operand : kernel.operands)
      uses.push_back({slots[operand.slot], static_cast<Access>(operand.access)});
    const std::int32_t index = a_.append(runtime::Launch{module, static_cast<std::int32_t>(k)},
                                         kCompute, std::move(uses), kernel.name);
    for (auto [written, read] : kernel.may_alias)
      a_.reuse_in_place(index, slots[kernel.operands[written].slot],
                        slots[kernel.operands[read].slot]);
    if (!ready.empty() && !ready[k].empty()) gradients_ready(ready[k]);
  }
}

/// A tensor per slot. Outputs go to `wanted_outputs` where one is named and the slot is free to
/// choose; the caller copies where it was not.
std::vector<TensorId> StepAssembler::bind(const KernelProgram& program,
                                          const std::vector<TensorId>& inputs,
                                          const std::vector<TensorId>& parameters,
                                          const std::vector<TensorId>& wanted_outputs) {
  std::vector<TensorId> slots(program.slots.size(), kNoTensor);
  for (std::size_t i = 0; i < inputs.size(); ++i) slots[program.input_slots[i]] = inputs[i];
  for (std::size_t i = 0; i < parameters.size(); ++i)
    slots[program.parameter_slots[i]] = parameters[i];
  for (std::size_t i = 0; i < wanted_outputs.size(); ++i) {
    TensorId& slot = slots[program.output_slots[i]];
    if (slot == kNoTensor) slot = wanted_outputs[i];
  }
  for (std::size_t s = 0; s < slots.size(); ++s)
    if (slots[s] == kNoTensor) slots[s] = a_.temporary(program.slots[s].type.bytes());
  return slots;
}

TensorId StepAssembler::parameter(ValueId id) {
  if (parameters_[id] == kNoTensor) parameters_[id] = a_.fixed(program_.state->parameters[id]);
  return parameters_[id];
}

TensorId StepAssembler::value(ValueId id) {
  const ir::Node& node = program_.graph->whole[id];
  if (node.op == ir::Op::param) return parameter(id);
  if (values_[id] == kNoTensor && node.op == ir::Op::input)
    values_[id] = a_.fixed(program_.io->inputs[id]);
  return values_[id];
}

void StepAssembler::forward(std::size_t p) {
  const ir::Partition& partition = program_.graph->partitions[p];
  a_.set_place(Phase::forward, static_cast<std::int32_t>(p));
  partition_hooks(HookPoint::pre_forward, p);
  const auto& code = program_.forward[p];
  const KernelProgram& program = code->program;
  const std::vector<ValueId>& graph_outputs = program_.graph->whole.outputs;

  std::vector<TensorId> inputs, parameters, wanted(program.output_slots.size(), kNoTensor);
  for (ValueId id : partition.input_values) inputs.push_back(value(id));
  for (ValueId id : partition.parameter_values) parameters.push_back(parameter(id));
  for (std::size_t i = 0; i < partition.output_values.size(); ++i) {
    auto position =
        std::find(graph_outputs.begin(), graph_outputs.end(), partition.output_values[i]);
    if (position != graph_outputs.end())
      wanted[i] = a_.fixed(program_.io->outputs[position - graph_outputs.begin()]);
  }
  const std::vector<TensorId> slots = bind(program, inputs, parameters, wanted);
  launch_all(code, slots, {});
  for (std::size_t i = 0; i < partition.output_values.size(); ++i)
    values_[partition.output_values[i]] = slots[program.output_slots[i]];
  for (std::size_t i = partition.output_values.size(); i < program.output_slots.size(); ++i)
    residuals_[p].push_back(slots[program.output_slots[i]]);
  partition_hooks(HookPoint::post_forward, p);
}

bool StepAssembler::last_contribution(std::size_t p, ValueId id) const {
  for (std::size_t earlier = 0; earlier < p; ++earlier)
    for (const BackwardValue& output : program_.gradients->partitions[earlier].backward_outputs)
      if (output.whole == id) return false;
  return true;
}

Region StepAssembler::gradient_home(std::size_t p, ValueId id) const {
  if (!last_contribution(p, id)) return {};
  const Region& bucket = program_.state->gradients[id];
  return bucket ? bucket : program_.io->input_gradients[id];
}

void StepAssembler::backward(std::size_t p) {
  const auto& code = program_.backward[p];
  a_.set_place(Phase::backward, static_cast<std::int32_t>(p));
  partition_hooks(HookPoint::pre_backward, p);
  std::vector<ValueId> ready_at_end;
  if (code) {
    const ir::PartitionGradient& gradient = program_.gradients->partitions[p];
    const KernelProgram& program = code->program;
    std::vector<TensorId> inputs, parameters;
    for (const BackwardValue& input : gradient.backward_inputs) {
      const TensorId tensor = input.kind == BackwardValue::Kind::residual
                                  ? residuals_[p][input.forward_output - gradient.forward_results]
                              : input.kind == BackwardValue::Kind::primal
                                  ? value(input.whole)
                                  : cotangents_[input.whole];
      inputs.push_back(tensor);
    }
    // A backward graph reads parameters as inputs (primals); it declares none of its own.
    const auto& outputs = gradient.backward_outputs;
    std::vector<TensorId> homes(outputs.size(), kNoTensor);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (Region home = gradient_home(p, outputs[i].whole)) homes[i] = a_.fixed(home);
    const std::vector<TensorId> slots = bind(program, inputs, parameters, homes);

    const std::vector<std::int32_t> writers = last_writers(program);
    AfterKernel ready(program.kernels.size());
    std::vector<std::size_t> copies;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::int32_t slot = program.output_slots[i];
      cotangents_[outputs[i].whole] = slots[slot];
      if (homes[i] == kNoTensor) continue;
      if (slots[slot] != homes[i]) copies.push_back(i);
      if (!program_.state->gradients[outputs[i].whole]) continue;
      if (slots[slot] == homes[i] && writers[slot] >= 0)
        ready[writers[slot]].push_back(outputs[i].whole);
      else
        ready_at_end.push_back(outputs[i].whole);
    }
    const bool late = options_.hooks_at == HooksAt::partition;
    launch_all(code, slots, late ? AfterKernel{} : ready);
    for (std::size_t i : copies) {
      a_.copy(slots[program.output_slots[i]], homes[i],
              "grad/" + program_.graph->whole[outputs[i].whole].name);
      cotangents_[outputs[i].whole] = homes[i];
    }
    if (late)
      for (const auto& parameters_done : ready)
        ready_at_end.insert(ready_at_end.end(), parameters_done.begin(), parameters_done.end());
  }
  if (options_.hooks_at == HooksAt::partition) {
    partition_hooks(HookPoint::post_backward, p);
    gradients_ready(ready_at_end);
  } else {
    gradients_ready(ready_at_end);
    partition_hooks(HookPoint::post_backward, p);
  }
}

/// Appends the hooks of parameters whose gradients are complete now, in ready order.
void StepAssembler::gradients_ready(const std::vector<ValueId>& parameters) {
  std::vector<std::size_t> slots;
  for (ValueId id : program_.gradients->gradient_parameters) {
    if (std::find(parameters.begin(), parameters.end(), id) == parameters.end()) continue;
    for (std::size_t slot = 0; slot < hooks_.size(); ++slot)
      if (hooks_[slot].point == HookPoint::post_accumulate && hooks_[slot].parameter == id)
        slots.push_back(slot);
  }
  if (slots.empty()) return;
  const EventId ready = a_.record(kCompute, "ready " + hooks_[slots.front()].label);
  bool waiting[kStreamCount] = {};
  for (std::size_t slot : slots) {
    const StreamId stream = hooks_[slot].is_stream_hook ? kCommunication : kHooks;
    if (!std::exchange(waiting[stream], true))
      a_.wait(stream, ready, "ready " + hooks_[slot].label);
    run_hook(slot);
  }
}

void StepAssembler::partition_hooks(HookPoint point, std::size_t p) {
  const bool before = point == HookPoint::pre_forward || point == HookPoint::pre_backward;
  for (std::size_t slot = 0; slot < hooks_.size(); ++slot) {
    const HookSlot& hook = hooks_[slot];
    if (hook.point != point || hook.partition != static_cast<std::int32_t>(p)) continue;
    const std::string label = std::string(name_of(point)) + " " + hook.label;
    const EventId reached = a_.record(kCompute, label);
    const StreamId stream = hook.is_stream_hook ? kCommunication : kHooks;
    a_.wait(stream, reached, label);
    run_hook(slot);
    if (before && !hook.observer && !hook.opaque)
      a_.wait(kCompute, a_.record(stream, label + " done"), label + " done");
  }
}

/// The hook itself, its stream having waited for what it needs. An opaque hook is ordered against
/// all that comes before and after it, on every stream.
void StepAssembler::run_hook(std::size_t slot) {
  const HookSlot& hook = hooks_[slot];
  const StreamId stream = hook.is_stream_hook ? kCommunication : kHooks;
  const StreamId other = hook.is_stream_hook ? kHooks : kCommunication;
  stream_used_[stream] = true;
  if (hook.opaque && stream_used_[other])
    a_.wait(stream, a_.record(other, "before opaque " + hook.label), "before opaque");
  std::vector<Use> uses;
  if (hook.parameter != ir::kNoValue)
    uses.push_back({a_.fixed(program_.state->gradients[hook.parameter]),
                    hook.writes_gradient ? Access::read_write : Access::read});
  a_.append(runtime::Hook{static_cast<std::int32_t>(slot), hook.opaque}, stream, std::move(uses),
            hook.label);
  if (!hook.opaque) return;
  const EventId done = a_.record(stream, "after opaque " + hook.label);
  a_.wait(kCompute, done, "after opaque");
  if (stream_used_[other]) a_.wait(other, done, "after opaque");
}

void StepAssembler::wait_for_hooks() {
  for (StreamId stream : {kHooks, kCommunication})
    if (stream_used_[stream])
      a_.wait(kCompute, a_.record(stream, "all hooks done"), "all hooks done");
}

void StepAssembler::optimizer() {
  if (program_.optimizer.empty()) return;
  a_.set_place(Phase::optimizer, -1);
  wait_for_hooks();
  for (ValueId id : program_.gradients->gradient_parameters) {
    auto found = program_.optimizer.find(id);
    if (found == program_.optimizer.end()) continue;
    const auto& code = found->second;
    const KernelProgram& program = code->program;
    std::vector<TensorId> inputs = {parameter(id), a_.fixed(program_.state->gradients[id])};
    std::vector<TensorId> targets = {inputs[0]};
    for (const auto& states : program_.state->states)
      if (states[id]) {
        inputs.push_back(a_.fixed(states[id]));
        targets.push_back(inputs.back());
      }
    const DType dtype = state_dtype(program_.graph->whole[id].type.dtype);
    for (std::size_t i = 0; i < kOptimizerScalars; ++i)
      inputs.push_back(a_.fixed(scalar_region(dtype, i)));

    // Results replace what they were computed from: in place where the program allows it,
    // otherwise by way of a temporary.
    std::vector<TensorId> homes = targets;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::int32_t in = program.input_slots[i == 0 ? 0 : i + 1];
      if (!may_overwrite(program, program.output_slots[i], in)) homes[i] = kNoTensor;
    }
    const std::vector<TensorId> slots = bind(program, inputs, {}, homes);
    launch_all(code, slots, {});
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (!a_.same_place(slots[program.output_slots[i]], targets[i]))
        a_.copy(slots[program.output_slots[i]], targets[i],
                "param/" + program_.graph->whole[id].name);
  }
}

void StepAssembler::declare_buffers() {
  for (int i = 0; i < kBufferCount; ++i) {
    const auto index = static_cast<BufferIndex>(i);
    runtime::BufferInfo info{.name = std::string(name_of(index)),
                             .bytes = program_.state->bytes[index]};
    info.initialised = index != kGradients && index != kOutputs && index != kArena;
    info.kept = index != kInputs && index != kScalars && index != kArena;
    a_.schedule->buffers.push_back(std::move(info));
  }
  a_.schedule->buffers[kInputs].bytes = program_.io->input_bytes;
  a_.schedule->buffers[kOutputs].bytes = program_.io->output_bytes;
  a_.schedule->streams = {{"compute", true, 0}, {"hooks", false, 0}, {"communication", false, 1}};
  for (const HookSlot& hook : hooks_) a_.schedule->hooks.push_back(hook.label);
}

BuiltSchedule StepAssembler::run() {
  const std::size_t nodes = program_.graph->whole.nodes.size();
  const std::size_t partitions = program_.graph->partitions.size();
  values_.assign(nodes, kNoTensor);
  parameters_.assign(nodes, kNoTensor);
  cotangents_.assign(nodes, kNoTensor);
  residuals_.resize(partitions);
  declare_buffers();
  for (std::size_t p = 0; p < partitions; ++p) forward(p);
  const std::vector<ValueId>& outputs = program_.graph->whole.outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorId home = a_.fixed(program_.io->outputs[i]);
    if (!a_.same_place(value(outputs[i]), home))
      a_.copy(value(outputs[i]), home, program_.graph->whole[outputs[i]].name);
  }
  if (!program_.backward.empty())
    for (std::size_t p = partitions; p-- > 0;) backward(p);
  optimizer();
  return a_.finish(options_);
}

}  // namespace

BuiltSchedule build_schedule(const StepProgram& program, const std::vector<HookSlot>& hooks,
                             const ScheduleOptions& options) {
  return StepAssembler(program, hooks, options).run();
}

}  // namespace riffle::jit
