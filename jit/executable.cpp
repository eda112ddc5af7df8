// Executable's interface; what it stands for is in executable_run.cpp, executable_tensors.cpp and
// specialisation.cpp.
#include <fnmatch.h>

#include "jit/session_impl.h"

namespace riffle {

using namespace jit;  // NOLINT: the implementation of one class, in its own file

namespace {

/// Inputs, parameters and outputs share their names with what get() calls loss, grad/… and param/….
void check_names(const ir::PartitionedGraph& graph) {
  const ir::Graph& whole = graph.whole;
  const auto check = [&](ir::ValueId id) {
    const ir::Node& node = whole[id];
    const bool prefixed = node.name.starts_with("grad/") || node.name.starts_with("param/");
    // A parameter of that name stays within reach as param/loss.
    const bool other_loss = graph.has_loss && node.name == "loss" && ir::is_compute(node) &&
                            id != whole.outputs.front();
    if (prefixed || other_loss)
      throw GraphError(
          {.what = "%" + node.name +
                   (prefixed ? ": names that begin with grad/ or param/ are those of gradients and "
                               "parameters"
                             : ": the name is that of the first output, the loss"),
           .where = to_string(node.location),
           .hint = "another name"});
  };
  for (ir::ValueId id : whole.inputs()) check(id);
  for (ir::ValueId id : whole.parameters()) check(id);
  for (ir::ValueId id : whole.outputs) check(id);
}

}  // namespace

Executable::Impl::Impl(std::shared_ptr<Session::Impl> owner, Graph g,
                       std::unique_ptr<ir::SplitPolicy> p)
    : session(std::move(owner)), graph(std::move(g)), policy(std::move(p)) {
  partitioned = ir::split(graph.ir(), *policy);
  check_names(partitioned);
  try {
    differentiated = ir::differentiate(partitioned);
  } catch (const GraphError&) {
    not_trainable = std::current_exception();
    differentiated = ir::forward_only(partitioned);
  }
  parameter_set.assign(graph.ir().nodes.size(), false);
  state = std::make_unique<State>(*session->device, partitioned.whole, differentiated, optimizer);
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

const Graph& Executable::graph() const noexcept { return impl_->graph; }
std::size_t Executable::partition_count() const noexcept {
  return impl_->partitioned.partitions.size();
}

Specialisation& Executable::Impl::reported() {
  Specialisation* found = nullptr;
  for (const auto& [key, spec] : specialisations)
    if (!found ||
        std::pair(spec->training, spec->last_used) > std::pair(found->training, found->last_used))
      found = spec.get();
  if (found) return *found;
  std::vector<std::string> notes;
  return specialisation(!not_trainable, notes, nullptr);
}

CompileReport Executable::compile() {
  CompileReport report;
  std::vector<std::string> notes;
  Specialisation& spec = impl_->specialisation(!impl_->not_trainable, notes, &report);
  impl_->refresh(spec);
  impl_->last = &spec;
  impl_->last_ran = false;
  return report;
}
void Executable::set_hooks_at(HooksAt at) {
  impl_->hooks_at = at;
  ++impl_->configuration;
}
HooksAt Executable::hooks_at() const noexcept { return impl_->hooks_at; }

void Executable::init(std::uint64_t seed) { impl_->initialise(seed); }
void Executable::set(std::string_view name, HostTensor tensor) {
  impl_->set_tensor(name, std::move(tensor));
}
HostTensor Executable::get(std::string_view name) const { return impl_->get_tensor(name); }
bool Executable::has(std::string_view name) const {
  try {
    impl_->get_tensor(name);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}
std::vector<std::string> Executable::names() const { return impl_->tensor_names(); }

HookId Executable::add_hook(HookSpec hook) {
  if (!hook.function) throw UsageError({.what = "a hook needs a function"});
  const HookId id = impl_->next_hook++;
  if (hook.opaque) ++impl_->fallbacks["opaque hooks (barriers)"];
  impl_->hooks.emplace_back(id, std::move(hook));
  ++impl_->configuration;
  return id;
}
bool Executable::remove_hook(HookId id) {
  const auto removed = std::erase_if(impl_->hooks, [&](const auto& h) { return h.first == id; });
  ++impl_->configuration;
  return removed > 0;
}
void Executable::remove_all_hooks() {
  impl_->hooks.clear();
  ++impl_->configuration;
}
std::vector<std::pair<HookId, HookSpec>> Executable::hooks() const { return impl_->hooks; }
std::vector<std::string> Executable::matching_parameters(std::string_view pattern) const {
  std::vector<std::string> names;
  for (ir::ValueId id : impl_->differentiated.gradient_parameters) {
    const std::string& name = impl_->whole()[id].name;
    if (fnmatch(std::string(pattern).c_str(), name.c_str(), 0) == 0) names.push_back(name);
  }
  return names;
}

void Executable::set_optimizer(OptimizerSpec optimizer) {
  check(optimizer);
  // Compiled before anything else changes: when that fails, all stays as it was.
  std::vector<std::pair<Specialisation*, decltype(Specialisation::optimizer)>> before;
  CompileReport report;
  try {
    for (auto& [key, spec] : impl_->specialisations)
      if (spec->training) {
        before.emplace_back(spec.get(), spec->optimizer);
        compile_optimizer(*spec, optimizer, impl_->session->compiler, report);
      }
  } catch (...) {
    for (auto& [spec, code] : before) spec->optimizer = std::move(code);
    throw;
  }
  impl_->optimizer = std::move(optimizer);
  ++impl_->configuration;
  impl_->optimizer_steps = 0;
  impl_->state->reset_optimizer(impl_->optimizer);
}
const OptimizerSpec& Executable::optimizer() const noexcept { return impl_->optimizer; }
void Executable::set_learning_rate(double lr) {
  OptimizerSpec changed = impl_->optimizer;
  changed.lr = lr;
  check(changed);
  impl_->optimizer = std::move(changed);
}

StepResult Executable::step() { return impl_->run(true); }
StepResult Executable::evaluate() { return impl_->run(false); }
void Executable::cancel() noexcept { impl_->cancelled.store(true); }
std::int64_t Executable::steps_done() const noexcept { return impl_->steps; }

void Executable::set_tracing(bool on) {
  if (on && !impl_->tracing) {
    impl_->spans.clear();
    impl_->traced_schedules.clear();
  }
  impl_->tracing = on;
}
OverlapReport Executable::overlap() const {
  const runtime::Overlap overlap = runtime::measure_overlap(impl_->spans);
  auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  return {ms(overlap.wall_ns), ms(overlap.compute_ns), ms(overlap.hook_ns), ms(overlap.hidden_ns),
          ms(overlap.exposed_ns)};
}

namespace {
const runtime::Schedule& traced_schedule(const Executable::Impl& impl) {
  if (impl.traced_schedules.empty())
    throw UsageError({.what = "nothing was traced yet", .hint = "set_tracing(true), then step"});
  return *impl.traced_schedules.back().schedule;
}
}  // namespace

std::string Executable::chrome_trace() const {
  return runtime::chrome_trace(impl_->spans, traced_schedule(*impl_));
}
std::string Executable::timeline(int width, bool unicode) const {
  const runtime::Schedule& schedule = traced_schedule(*impl_);
  std::vector<runtime::Span> last_step;
  for (const runtime::Span& span : impl_->spans)
    if (span.step == impl_->spans.back().step) last_step.push_back(span);
  return runtime::terminal_timeline(last_step, schedule, width, unicode);
}

MemoryReport Executable::memory() {
  Specialisation& spec = impl_->reported();
  impl_->refresh(spec);
  const StateLayout& layout = impl_->state->layout();
  MemoryReport report;
  report.arena = spec.built.plan.peak_bytes;
  report.lower_bound = spec.built.plan.lower_bound_bytes;
  report.parameters = layout.bytes[kParameters];
  report.gradients = layout.bytes[kGradients];
  report.optimizer = layout.bytes[kState0] + layout.bytes[kState1];
  report.inputs = spec.io.input_bytes;
  report.outputs = spec.io.output_bytes;
  for (const ir::PartitionGradient& gradient : spec.gradients.partitions)
    report.residuals += gradient.residual_bytes;
  report.device_allocated = impl_->session->device->allocated_bytes();
  report.device_peak = impl_->session->device->peak_bytes();
  return report;
}
const Fallbacks& Executable::fallbacks() const noexcept { return impl_->fallbacks; }

std::string_view name_of(HookPoint point) noexcept {
  constexpr std::string_view kNames[] = {"post_accumulate", "pre_forward", "post_forward",
                                         "pre_backward", "post_backward"};
  return kNames[static_cast<int>(point)];
}

}  // namespace riffle
