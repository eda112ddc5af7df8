#include <fnmatch.h>

#include "jit/session_impl.h"

namespace riffle::jit {

Executable::Impl::Impl(std::shared_ptr<Session::Impl> owner, ir::Graph g,
                       std::unique_ptr<ir::SplitPolicy> p)
    : session(std::move(owner)), graph(std::move(g)), policy(std::move(p)) {
  partitioned = ir::split(graph, *policy);
  try {
    differentiated = ir::differentiate(partitioned);
  } catch (const GraphError&) {
    not_trainable = std::current_exception();
    differentiated = ir::forward_only(partitioned);
  }
  parameter_set.assign(graph.nodes.size(), false);
  state = std::make_unique<State>(*session->device, partitioned.whole, differentiated, optimizer);
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

const ir::Graph& Executable::graph() const { return impl_->graph; }
const ir::PartitionedGraph& Executable::partitioned() const { return impl_->partitioned; }
const ir::DifferentiatedGraph& Executable::differentiated() const { return impl_->differentiated; }

CompileReport Executable::compile() {
  CompileReport report;
  std::vector<std::string> notes;
  Specialisation& spec = impl_->specialisation(!impl_->not_trainable, notes, &report);
  impl_->refresh(spec);
  impl_->last = &spec;
  impl_->last_ran = false;
  return report;
}
bool Executable::compiled() const noexcept { return impl_->last != nullptr; }

const CompiledGraph& Executable::forward_module(std::size_t partition) {
  if (!impl_->last) compile();
  if (partition >= impl_->last->forward.size())
    throw UsageError({.what = "there is no partition " + std::to_string(partition),
                      .hint = "0 to " + std::to_string(impl_->last->forward.size() - 1)});
  return *impl_->last->forward[partition];
}
const CompiledGraph* Executable::backward_module(std::size_t partition) {
  forward_module(partition);  // checks, compiles
  if (partition >= impl_->last->backward.size()) return nullptr;
  return impl_->last->backward[partition].get();
}
std::shared_ptr<const runtime::Schedule> Executable::schedule() {
  if (!impl_->last) compile();
  impl_->refresh(*impl_->last);
  return impl_->last->built.schedule;
}

void Executable::set_backend(std::size_t partition, Backend backend) {
  if (partition >= impl_->partitioned.partitions.size())
    throw UsageError(
        {.what = "there is no partition " + std::to_string(partition), .hint = "show partitions"});
  impl_->backends.resize(impl_->partitioned.partitions.size(), Backend::cpu);
  impl_->backends[partition] = backend;
  impl_->fallbacks.erase("partitions on the reference evaluator");
  for (Backend used : impl_->backends)
    if (used == Backend::reference) ++impl_->fallbacks["partitions on the reference evaluator"];
  impl_->specialisations.clear();
  impl_->last_types.clear();
  impl_->last = nullptr;
}
Backend Executable::backend(std::size_t partition) const {
  return partition < impl_->backends.size() ? impl_->backends[partition] : Backend::cpu;
}
std::size_t Executable::specialisations() const noexcept { return impl_->specialisations.size(); }

void Executable::set_hooks_at(HooksAt at) {
  impl_->hooks_at = at;
  ++impl_->configuration;
}
HooksAt Executable::hooks_at() const noexcept { return impl_->hooks_at; }

void Executable::init(std::uint64_t seed) { impl_->initialise(seed); }
void Executable::set(std::string_view name, HostTensor tensor) {
  impl_->set_tensor(name, std::move(tensor));
}
HostTensor Executable::get(std::string_view name) { return impl_->get_tensor(name); }
bool Executable::has(std::string_view name) {
  try {
    impl_->get_tensor(name);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}
std::vector<std::string> Executable::names() { return impl_->tensor_names(); }

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
  impl_->optimizer = std::move(optimizer);
  impl_->state->reset_optimizer(impl_->optimizer);
  impl_->optimizer_steps = 0;
  CompileReport report;
  for (auto& [key, spec] : impl_->specialisations)
    if (spec->training)
      compile_optimizer(*spec, impl_->optimizer, impl_->session->compiler, report);
  ++impl_->configuration;
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
const std::vector<runtime::Span>& Executable::spans() const { return impl_->spans; }
runtime::Overlap Executable::overlap() const { return runtime::measure_overlap(impl_->spans); }

MemoryReport Executable::memory() {
  if (!impl_->last) compile();
  impl_->refresh(*impl_->last);
  const Specialisation& spec = *impl_->last;
  const StateLayout& layout = impl_->state->layout();
  MemoryReport report;
  report.arena_bytes = spec.built.plan.peak_bytes;
  report.lower_bound_bytes = spec.built.plan.lower_bound_bytes;
  report.parameter_bytes = layout.bytes[kParameters];
  report.gradient_bytes = layout.bytes[kGradients];
  report.optimizer_bytes = layout.bytes[kState0] + layout.bytes[kState1];
  report.input_bytes = spec.io.input_bytes;
  report.output_bytes = spec.io.output_bytes;
  for (const ir::PartitionGradient& gradient : spec.gradients.partitions)
    report.residual_bytes += gradient.residual_bytes;
  report.device_allocated = impl_->session->device->allocated_bytes();
  report.device_peak = impl_->session->device->peak_bytes();
  return report;
}
const Fallbacks& Executable::fallbacks() const noexcept { return impl_->fallbacks; }

}  // namespace riffle::jit
