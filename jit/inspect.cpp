// What tools inside riffle see of an Executable.
#include <algorithm>
#include <functional>

#include "jit/session_impl.h"

namespace riffle::jit {
namespace {

Specialisation& current(Executable& executable) { return executable.impl().reported(); }

void check_partition(const Executable& executable, std::size_t partition) {
  const std::size_t count = executable.impl().partitioned.partitions.size();
  if (partition >= count)
    throw UsageError({.what = "there is no partition " + std::to_string(partition),
                      .hint = "0 to " + std::to_string(count - 1)});
}

void count_backends(Executable::Impl& impl) {
  const std::pair<Backend, const char*> kinds[] = {
      {Backend::reference, "partitions on the reference evaluator"},
      {Backend::host, "partitions compiled for the host"}};
  for (const auto& [kind, name] : kinds) {
    impl.fallbacks.erase(name);
    if (const auto count = std::ranges::count(impl.backends, kind)) impl.fallbacks[name] = count;
  }
}

void copy_buffer(runtime::Buffer& from, runtime::Buffer& to) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(to.bytes()));
  from.read(0, bytes);
  to.write(0, bytes);
}

}  // namespace

const ir::PartitionedGraph& partitioned(const Executable& executable) {
  return executable.impl().partitioned;
}
const ir::DifferentiatedGraph& differentiated(const Executable& executable) {
  return executable.impl().differentiated;
}
void require_trainable(const Executable& executable) {
  if (executable.impl().not_trainable) std::rethrow_exception(executable.impl().not_trainable);
}

void check_tensor(const Executable& executable, std::string_view name, const HostTensor& tensor) {
  executable.impl().check_tensor(name, tensor);
}

namespace {

/// Gradients and optimizer state lie in ready order, which is the graph's, not the split's; they
/// are copied by parameter all the same.
void copy_region(const State& from, const Region& source, State& to, const Region& target) {
  if (source && target) to.write(target, from.read(source));
}

bool on_closed_device(const Executable::Impl& impl) {
  return !impl.session->device->closed().empty();
}

/// From a device that an error has closed nothing can be read any more.
bool bytes_go_over(const Executable::Impl& from, const Executable::Impl& to) {
  return from.state->buffer(kParameters)->keeps_bytes() && !on_closed_device(from) &&
         to.state->buffer(kParameters)->keeps_bytes();
}

Executable clone_into(const Executable::Impl& from, std::shared_ptr<Session::Impl> session,
                      std::unique_ptr<ir::SplitPolicy> policy) {
  auto to = std::make_unique<Executable::Impl>(std::move(session), from.graph, std::move(policy));
  to->optimizer = from.optimizer;
  to->state->reset_optimizer(to->optimizer);
  to->inputs = from.inputs;
  to->input_versions = from.input_versions;
  to->inputs_with_nan = from.inputs_with_nan;
  to->next_version = from.next_version;
  // A device that keeps no bytes has no values to give, and needs none.
  if (bytes_go_over(from, *to) || !to->state->buffer(kParameters)->keeps_bytes()) {
    to->parameter_set = from.parameter_set;
    to->optimizer_steps = from.optimizer_steps;
  }
  if (!bytes_go_over(from, *to)) return Executable(std::move(to));
  copy_buffer(*from.state->buffer(kParameters), *to->state->buffer(kParameters));
  for (ir::ValueId id : from.differentiated.gradient_parameters)
    for (int i = 0; i < state_count(from.optimizer); ++i)
      copy_region(*from.state, from.state->layout().states[i][id], *to->state,
                  to->state->layout().states[i][id]);
  return Executable(std::move(to));
}

}  // namespace

Executable clone(const Executable& executable, std::unique_ptr<ir::SplitPolicy> policy) {
  return clone_into(executable.impl(), executable.impl().session, std::move(policy));
}
Executable clone(const Executable& executable, const Session& session,
                 std::unique_ptr<ir::SplitPolicy> policy) {
  return clone_into(executable.impl(), session.impl().shared_from_this(), std::move(policy));
}

void continue_from(const Executable& from, Executable& to) {
  const Executable::Impl& old = from.impl();
  Executable::Impl& now = to.impl();
  now.hooks = old.hooks;
  now.next_hook = old.next_hook;
  now.hooks_at = old.hooks_at;
  now.steps = old.steps;
  now.evaluations = old.evaluations;
  now.fallbacks = old.fallbacks;
  if (old.partitioned.partition_of == now.partitioned.partition_of) now.backends = old.backends;
  count_backends(now);
  if (bytes_go_over(old, now))
    for (ir::ValueId id : old.differentiated.gradient_parameters)
      copy_region(*old.state, old.state->layout().gradients[id], *now.state,
                  now.state->layout().gradients[id]);
  ++now.configuration;
}
bool keeps_values(const Executable& executable) {
  return executable.impl().state->buffer(kParameters)->keeps_bytes();
}
bool lost_values(const Executable& executable) { return on_closed_device(executable.impl()); }
bool has_values(const Executable& executable) {
  const Executable::Impl& impl = executable.impl();
  return std::ranges::all_of(impl.whole().parameters(),
                             [&](ir::ValueId id) { return impl.parameter_set[id]; });
}

const CompiledGraph& forward_module(Executable& executable, std::size_t partition) {
  check_partition(executable, partition);
  return *current(executable).forward[partition];
}
const CompiledGraph* backward_module(Executable& executable, std::size_t partition) {
  check_partition(executable, partition);
  const auto& backward = current(executable).backward;
  return partition < backward.size() ? backward[partition].get() : nullptr;
}
std::shared_ptr<const runtime::Schedule> schedule(Executable& executable) {
  Specialisation& spec = current(executable);
  executable.impl().refresh(spec);
  return spec.built.schedule;
}
std::size_t specialisation_count(const Executable& executable) noexcept {
  return executable.impl().specialisations.size();
}

void set_backend(Executable& executable, std::size_t partition, Backend backend) {
  check_partition(executable, partition);
  Executable::Impl& impl = executable.impl();
  impl.backends.resize(impl.partitioned.partitions.size(), Backend::device);
  impl.backends[partition] = backend;
  count_backends(impl);
  impl.specialisations.clear();
  impl.last_types.clear();
  impl.last = nullptr;
}
Backend backend(const Executable& executable, std::size_t partition) {
  const auto& backends = executable.impl().backends;
  return partition < backends.size() ? backends[partition] : Backend::device;
}

void pause_tracing(Executable& executable, bool paused) { executable.impl().tracing = !paused; }

namespace {
const BuiltSchedule& built_for(const Executable& executable, const runtime::Span& span) {
  for (const BuiltSchedule& built : executable.impl().traced_schedules) {
    const auto& commands = built.schedule->commands;
    if (std::less_equal<>()(commands.data(), span.command) &&
        std::less<>()(span.command, commands.data() + commands.size()))
      return built;
  }
  throw UsageError({.what = "this span's step is not traced any more"});
}
}  // namespace

const runtime::Schedule& schedule_of(const Executable& executable, const runtime::Span& span) {
  return *built_for(executable, span).schedule;
}
const codegen::KernelSpec* kernel_of(const Executable& executable, const runtime::Span& span) {
  const auto* launch = std::get_if<runtime::Launch>(&span.command->what);
  if (!launch) return nullptr;
  const auto& module = *built_for(executable, span).modules.at(launch->module);
  return &module.program.kernels.at(launch->kernel);
}

const std::vector<runtime::Span>& spans(const Executable& executable) {
  return executable.impl().spans;
}

}  // namespace riffle::jit
