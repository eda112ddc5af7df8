// Specialisations and the running of steps. Start reading at Executable::Impl::run.
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "ir/array.h"
#include "ir/retype.h"
#include "jit/hook_stream.h"
#include "jit/session_impl.h"

namespace riffle {
namespace {

using namespace jit;  // NOLINT: the implementation of one class, in its own file

constexpr std::size_t kMostSpecialisations = 8;

std::string compact(const TensorType& type) {  // f32[64,64]
  std::string text = to_string(type);
  std::erase(text, ' ');
  return text;
}

std::string recompiled_note(const ir::Graph& graph, const std::vector<TensorType>& before,
                            const std::vector<TensorType>& now) {
  std::string note = "recompiled:";
  const std::vector<ir::ValueId> inputs = graph.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (before[i] != now[i])
      note += (note.back() == ':' ? " " : ", ") + graph[inputs[i]].name + " " + compact(before[i]) +
              " → " + compact(now[i]);
  return note;
}

}  // namespace

Specialisation& Executable::Impl::specialisation(bool training, std::vector<std::string>& notes,
                                                 CompileReport* report) {
  if (training && not_trainable) std::rethrow_exception(not_trainable);
  Key key{training, {}};
  std::map<std::string, TensorType, std::less<>> types;
  for (ir::ValueId id : whole().inputs()) {
    auto given = inputs.find(whole()[id].name);
    key.types.push_back(given != inputs.end() ? given->second.type : whole()[id].type);
    types[whole()[id].name] = key.types.back();
  }
  auto found = std::find_if(specialisations.begin(), specialisations.end(),
                            [&](const auto& entry) { return entry.first == key; });
  if (found == specialisations.end()) {
    CompileReport local;
    auto spec = specialise(ir::retype(graph.ir(), types), *policy, training, optimizer, backends,
                           session->compiler, local);
    runtime::Device& device = *session->device;
    spec->inputs = device.allocate(spec->io.input_bytes, "inputs");
    spec->outputs = device.allocate(spec->io.output_bytes, "outputs");
    if (auto before = last_types.find(training); before != last_types.end())
      notes.push_back(recompiled_note(whole(), before->second, key.types));
    if (report) *report = local;
    if (specialisations.size() >= kMostSpecialisations) {
      auto oldest = std::min_element(
          specialisations.begin(), specialisations.end(),
          [](const auto& a, const auto& b) { return a.second->last_used < b.second->last_used; });
      if (last == oldest->second.get()) last = nullptr;
      specialisations.erase(oldest);
      ++fallbacks["specialisations dropped (more than 8 shapes)"];
    }
    specialisations.emplace_back(key, std::move(spec));
    found = std::prev(specialisations.end());
  }
  last_types[training] = key.types;
  found->second->last_used = ++use_clock;
  return *found->second;
}

std::vector<HookSlot> Executable::Impl::hook_slots(
    const Specialisation& spec, std::vector<runtime::HookFunction>& functions) const {
  std::vector<HookSlot> slots;
  if (!spec.training) return slots;
  auto add = [&](const HookSpec& hook, HookSlot slot, const TensorType& type) {
    slot.point = hook.point;
    slot.is_stream_hook = hook.is_stream_hook;
    slot.writes_gradient = hook.writes_gradient;
    slot.opaque = hook.opaque;
    slot.observer = hook.observer;
    slots.push_back(slot);
    auto call = [function = hook.function, name = slot.label, type, partition = slot.partition,
                 this](const runtime::HookCall& hook_call) {
      const std::int32_t where = hook_call.command ? hook_call.command->partition : partition;
      jit::HookStreamOn stream(hook_call.stream, hook_call.command);
      function({name, type, hook_call.gradient, where, steps, hook_call.stream ? &stream : nullptr,
                hook_call.address});
    };
    functions.push_back({hook.is_stream_hook, std::move(call)});
  };
  for (const auto& [id, hook] : hooks) {
    if (hook.point == HookPoint::post_accumulate) {
      for (ir::ValueId parameter : spec.gradients.gradient_parameters) {
        const ir::Node& node = spec.graph.whole[parameter];
        if (fnmatch(hook.pattern.c_str(), node.name.c_str(), 0) == 0)
          add(hook, {.label = node.name, .parameter = parameter}, node.type);
      }
    } else {
      for (std::size_t p = 0; p < spec.graph.partitions.size(); ++p) {
        const std::string& name = spec.graph.partitions[p].name;
        if (fnmatch(hook.pattern.c_str(), name.c_str(), 0) == 0)
          add(hook, {.label = name, .partition = static_cast<std::int32_t>(p)}, {});
      }
    }
  }
  return slots;
}

/// Builds the schedule anew when hooks, optimizer or settings changed since. Compiles nothing but a
/// new optimizer's kernels.
void Executable::Impl::refresh(Specialisation& spec) {
  if (spec.built_for == configuration) return;
  std::vector<runtime::HookFunction> functions;
  const std::vector<HookSlot> slots = hook_slots(spec, functions);
  StepProgram program{.graph = &spec.graph,
                      .gradients = &spec.gradients,
                      .state = &state->layout(),
                      .io = &spec.io,
                      .forward = spec.forward,
                      .backward = spec.backward,
                      .optimizer = spec.optimizer};
  spec.built = build_schedule(
      program, slots, {.hooks_at = hooks_at, .free_commands = session->options.debug_memory});
  spec.modules.clear();
  for (const auto& code : spec.built.modules)
    spec.modules.push_back(session->device->load(code->image));
  if (!spec.arena || spec.arena->bytes() < spec.built.plan.peak_bytes) {
    spec.arena.reset();
    spec.arena = session->device->allocate(spec.built.plan.peak_bytes, "arena");
  }
  spec.built_for = configuration;
}

void Executable::Impl::upload_inputs(Specialisation& spec) {
  for (ir::ValueId id : whole().inputs()) {
    auto given = inputs.find(whole()[id].name);
    if (given == inputs.end())
      throw UsageError({.what = "input %" + whole()[id].name + " has no value yet",
                        .hint = "init, tensors FILE.safetensors or data NAME; in C++: set"});
    const std::int64_t version = input_versions.at(given->first);
    if (spec.input_versions[id] != version)
      spec.inputs->write(spec.io.inputs[id].offset, given->second.bytes);
    spec.input_versions[id] = version;
  }
}

double Executable::Impl::read_loss(const Specialisation& spec) const {
  if (!partitioned.has_loss) return 0;
  const Region& region = spec.io.outputs[0];
  std::vector<std::byte> bytes(static_cast<std::size_t>(region.type.bytes()));
  spec.outputs->read(region.offset, bytes);
  return ir::array_from_bytes(region.type, bytes).data[0];
}

/// A long training is traced in bounded memory: of its spans the last hundred thousand or so stay,
/// in whole steps, with the schedules that hold their commands.
void Executable::Impl::forget_oldest_spans() {
  constexpr std::size_t kMostSpans = 200'000;
  if (spans.size() < kMostSpans) return;
  const std::int32_t step = spans[spans.size() / 2].step;
  std::erase_if(spans, [&](const runtime::Span& span) { return span.step <= step; });
  std::erase_if(traced_schedules, [&](const BuiltSchedule& built) {
    const runtime::Command* first = built.schedule->commands.data();
    const runtime::Command* end = first + built.schedule->commands.size();
    return std::none_of(spans.begin(), spans.end(), [&](const runtime::Span& span) {
      return std::less_equal<>()(first, span.command) && std::less<>()(span.command, end);
    });
  });
}

StepResult Executable::Impl::run(bool training) {
  const auto begin = std::chrono::steady_clock::now();
  for (ir::ValueId id : whole().parameters())
    if (!parameter_set[id])
      throw UsageError({.what = "parameter %" + whole()[id].name + " has no value yet",
                        .hint = "init [--seed N] or tensors FILE.safetensors"});
  cancelled = false;
  StepResult result{.step = steps, .loss = 0, .milliseconds = 0, .notes = {}};
  Specialisation& spec = specialisation(training, result.notes, nullptr);
  refresh(spec);
  upload_inputs(spec);
  state->write_scalars(optimizer, optimizer_steps + 1);

  runtime::Bindings bindings;
  for (BufferIndex index : {kParameters, kGradients, kState0, kState1, kScalars})
    bindings.buffers.push_back(state->buffer(index));
  bindings.buffers.push_back(spec.inputs.get());
  bindings.buffers.push_back(spec.outputs.get());
  bindings.buffers.push_back(spec.arena.get());
  for (const auto& module : spec.modules) bindings.modules.push_back(module.get());
  hook_slots(spec, bindings.hooks);
  bindings.cancelled = [this, all = session->cancel_flag] {
    return cancelled.load(std::memory_order_relaxed) ||
           (all && all->load(std::memory_order_relaxed));
  };

  last = &spec;
  last_ran = false;
  if (!executor) {
    const bool debug = session->options.debug_memory;
    executor = std::make_unique<runtime::Executor>(
        *session->device,
        runtime::ExecutorOptions{.poison_freed = debug, .check_hook_writes = debug});
  }
  executor->prepare(spec.built.schedule);
  // Evaluations between the steps of a training would stand in its timeline as part of a step.
  const bool traced = tracing && (training || not_trainable);
  trace.step = static_cast<std::int32_t>(training ? steps : evaluations);
  if (traced) session->device->set_trace(&trace);
  try {
    executor->run(bindings);
  } catch (...) {
    session->device->set_trace(nullptr);
    trace.take();
    throw;
  }
  session->device->set_trace(nullptr);
  if (traced) {
    forget_oldest_spans();
    const std::vector<runtime::Span> taken = trace.take();
    spans.insert(spans.end(), taken.begin(), taken.end());
    std::erase_if(traced_schedules, [&](const BuiltSchedule& built) {
      return built.schedule == spec.built.schedule;
    });
    traced_schedules.push_back(spec.built);
  }
  last_ran = true;
  if (training) {
    ++steps;
    ++optimizer_steps;
  } else {
    ++evaluations;
  }
  result.loss = read_loss(spec);
  for (const std::string& name : inputs_with_nan) result.notes.push_back("NaN in input " + name);
  if (std::isnan(result.loss)) result.notes.push_back("the loss is NaN");
  result.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace riffle
