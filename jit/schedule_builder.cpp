// Start reading at StepAssembler::run, near the end: the stages of a step, in order.
#include "jit/schedule_builder.h"

#include <algorithm>
#include <utility>

#include "jit/kernel_order.h"
#include "jit/schedule_assembly.h"

namespace riffle::jit {
namespace {

using codegen::KernelProgram;
using ir::BackwardValue;
using ir::ValueId;
using runtime::Access;
using runtime::EventId;
using runtime::Phase;
using runtime::StreamId;

/// Is the output in `slot` read by a kernel, or another output as well?
bool has_other_readers(const KernelProgram& program, std::int32_t slot) {
  if (std::count(program.output_slots.begin(), program.output_slots.end(), slot) > 1) return true;
  for (const codegen::KernelSpec& kernel : program.kernels)
    for (const codegen::KernelOperand& operand : kernel.operands)
      if (operand.slot == slot && operand.access == codegen::Access::read) return true;
  return false;
}

/// Walks the step's stages in order and appends their commands.
class StepAssembler {
 public:
  StepAssembler(const StepProgram& program, const std::vector<HookSlot>& hooks,
                const ScheduleOptions& options)
      : program_(program), hooks_(hooks), options_(options) {}

  BuiltSchedule run();

 private:
  std::int32_t add_module(const std::shared_ptr<const CompiledGraph>& code);
  void launch(const std::shared_ptr<const CompiledGraph>& code, std::int32_t kernel,
              const std::vector<TensorId>& slots);
  void launch_all(const std::shared_ptr<const CompiledGraph>& code,
                  const std::vector<TensorId>& slots);
  std::vector<TensorId> bind(const KernelProgram& program, const std::vector<TensorId>& inputs,
                             const std::vector<TensorId>& parameters,
                             const std::vector<TensorId>& wanted_outputs);
  void forward(std::size_t partition);
  void backward(std::size_t partition);
  std::vector<TensorId> backward_inputs(std::size_t partition);
  std::vector<ValueId> backward_kernels(std::size_t partition, bool late);
  void optimizer();
  void declare_buffers();

  TensorId value(ValueId id);
  TensorId parameter(ValueId id);
  bool last_contribution(std::size_t partition, ValueId id) const;
  Region gradient_home(std::size_t partition, ValueId id) const;
  bool hook_changes(ValueId parameter) const;

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

void StepAssembler::launch(const std::shared_ptr<const CompiledGraph>& code, std::int32_t k,
                           const std::vector<TensorId>& slots) {
  const codegen::KernelSpec& kernel = code->program.kernels[k];
  std::vector<Use> uses;
  for (const codegen::KernelOperand& operand : kernel.operands)
    uses.push_back({slots[operand.slot], static_cast<Access>(operand.access)});
  const std::int32_t index =
      a_.append(runtime::Launch{add_module(code), k}, kCompute, std::move(uses), kernel.name);
  for (auto [written, read] : kernel.may_alias)
    a_.reuse_in_place(index, slots[kernel.operands[written].slot],
                      slots[kernel.operands[read].slot]);
}

void StepAssembler::launch_all(const std::shared_ptr<const CompiledGraph>& code,
                               const std::vector<TensorId>& slots) {
  for (std::size_t k = 0; k < code->program.kernels.size(); ++k)
    launch(code, static_cast<std::int32_t>(k), slots);
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
  launch_all(code, slots);
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

bool StepAssembler::hook_changes(ValueId parameter) const {
  return std::any_of(hooks_.begin(), hooks_.end(), [&](const HookSlot& hook) {
    return hook.parameter == parameter && hook.writes_gradient;
  });
}

std::vector<TensorId> StepAssembler::backward_inputs(std::size_t p) {
  const ir::PartitionGradient& gradient = program_.gradients->partitions[p];
  std::vector<TensorId> inputs;
  for (const BackwardValue& input : gradient.backward_inputs) switch (input.kind) {
      case BackwardValue::Kind::residual:
        inputs.push_back(residuals_[p][input.forward_output - gradient.forward_results]);
        break;
      case BackwardValue::Kind::primal:
        inputs.push_back(value(input.whole));
        break;
      case BackwardValue::Kind::cotangent:
        inputs.push_back(cotangents_[input.whole]);
        break;
    }
  return inputs;
}

void StepAssembler::backward(std::size_t p) {
  a_.set_place(Phase::backward, static_cast<std::int32_t>(p));
  partition_hooks(HookPoint::pre_backward, p);
  const bool late = options_.hooks_at == HooksAt::partition;
  std::vector<ValueId> ready;  // complete, hooks not yet appended
  if (program_.backward[p]) ready = backward_kernels(p, late);
  if (late) partition_hooks(HookPoint::post_backward, p);
  gradients_ready(ready);
  if (!late) partition_hooks(HookPoint::post_backward, p);
}

/// Appends the partition's kernels and, unless `late`, the hooks of each gradient as soon as it and
/// those before it in the graph's order are complete. Returns the gradients that are left.
std::vector<ValueId> StepAssembler::backward_kernels(std::size_t p, bool late) {
  const auto& code = program_.backward[p];
  const KernelProgram& program = code->program;
  // A backward graph reads parameters as inputs (primals); it declares none of its own.
  const auto& outputs = program_.gradients->partitions[p].backward_outputs;
  std::vector<TensorId> homes(outputs.size(), kNoTensor);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (Region home = gradient_home(p, outputs[i].whole)) homes[i] = a_.fixed(home);
  // What is written straight into the bucket may be read there by later kernels too, unless a hook
  // changes it meanwhile: then the bucket gets a copy.
  std::vector<TensorId> wanted = homes;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (hook_changes(outputs[i].whole) && has_other_readers(program, program.output_slots[i]))
      wanted[i] = kNoTensor;
  const std::vector<TensorId> slots = bind(program, backward_inputs(p), {}, wanted);

  // Outputs are in the order of the last contributions, which is the graph's ready order.
  std::vector<std::size_t> completing;
  std::vector<std::int32_t> first;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    cotangents_[outputs[i].whole] = slots[program.output_slots[i]];
    if (homes[i] == kNoTensor) continue;
    completing.push_back(i);
    first.push_back(program.output_slots[i]);
  }
  const auto writers = writers_of(program);
  std::vector<bool> launched(program.kernels.size(), false);
  std::vector<ValueId> ready;
  std::size_t next = 0;
  auto complete = [&] {
    for (; next < completing.size(); ++next) {
      const std::size_t i = completing[next];
      const std::int32_t slot = program.output_slots[i];
      if (!std::all_of(writers[slot].begin(), writers[slot].end(),
                       [&](std::int32_t k) { return launched[k]; }))
        break;
      const ValueId id = outputs[i].whole;
      if (slots[slot] != homes[i]) {
        a_.copy(slots[slot], homes[i], "grad/" + program_.graph->whole[id].name);
        cotangents_[id] = homes[i];
      }
      if (program_.state->gradients[id]) ready.push_back(id);
    }
    if (!late) gradients_ready(std::exchange(ready, {}));
  };
  complete();
  for (std::int32_t k : order_for(program, first)) {
    launch(code, k, slots);
    launched[k] = true;
    complete();
  }
  return ready;
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
  const HookSlot* before = nullptr;
  for (std::size_t slot : slots) {
    const HookSlot& hook = hooks_[slot];
    const StreamId stream = hook.is_stream_hook ? kCommunication : kHooks;
    if (!std::exchange(waiting[stream], true)) a_.wait(stream, ready, "ready " + hook.label);
    // Hooks on one gradient run in the order in which they were added, whatever their kinds.
    if (before && before->parameter == hook.parameter &&
        before->is_stream_hook != hook.is_stream_hook)
      a_.wait(stream,
              a_.record(before->is_stream_hook ? kCommunication : kHooks,
                        "earlier hooks " + hook.label),
              "earlier hooks " + hook.label);
    run_hook(slot);
    before = &hook;
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
  const bool of_gradient = hook.point == HookPoint::post_accumulate;
  a_.append(runtime::Hook{static_cast<std::int32_t>(slot), hook.opaque}, stream, std::move(uses),
            of_gradient ? hook.label : std::string(name_of(hook.point)) + " " + hook.label);
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
    launch_all(code, slots);
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
