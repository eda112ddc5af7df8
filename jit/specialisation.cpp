#include "jit/specialisation.h"

#include <chrono>

namespace riffle::jit {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// What is to be compiled, and where the result goes.
struct Job {
  const ir::Graph* graph;
  std::string name;
  CodeTarget target;
  std::shared_ptr<const CompiledGraph>* result;
};

void compile_jobs(const std::vector<Job>& jobs, Compiler& compiler, CompileReport& report) {
  std::vector<const ir::Graph*> graphs;
  std::vector<std::string> names;
  std::vector<CodeTarget> targets;
  for (const Job& job : jobs) {
    graphs.push_back(job.graph);
    names.push_back(job.name);
    targets.push_back(job.target);
  }
  auto compiled = compiler.compile_all(graphs, names, targets);
  report.modules += jobs.size();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    // The compiler's own statistics are all sessions' that share it.
    if (compiled[i]->from_memory)
      ++report.from_memory;
    else if (compiled[i]->from_disk)
      ++report.from_disk;
    else
      ++report.compiled;
    *jobs[i].result = std::move(compiled[i]);
  }
}

Backend backend_of(const std::vector<Backend>& backends, std::size_t partition) {
  return partition < backends.size() ? backends[partition] : Backend::device;
}

}  // namespace

std::unique_ptr<Specialisation> specialise(const ir::Graph& graph, const ir::SplitPolicy& policy,
                                           bool training, const OptimizerSpec& optimizer,
                                           const std::vector<Backend>& backends, Compiler& compiler,
                                           CompileReport& report) {
  const auto begin = Clock::now();
  auto spec = std::make_unique<Specialisation>();
  spec->training = training;
  spec->graph = ir::split(graph, policy);
  spec->gradients = training ? ir::differentiate(spec->graph) : ir::forward_only(spec->graph);
  spec->io = layout_input_output(spec->graph.whole, spec->gradients.gradient_inputs);
  spec->input_versions.assign(spec->graph.whole.nodes.size(), -1);

  const std::size_t partitions = spec->graph.partitions.size();
  spec->forward.resize(partitions);
  if (training) spec->backward.resize(partitions);
  std::vector<Job> jobs;
  auto add = [&](std::size_t p, const ir::Graph& part, const std::string& name,
                 std::shared_ptr<const CompiledGraph>& result) {
    const Backend backend = backend_of(backends, p);
    if (backend == Backend::reference)
      result = reference_module(part, name);
    else
      jobs.push_back(
          {&part, name, backend == Backend::host ? CodeTarget::host : CodeTarget::device, &result});
  };
  for (std::size_t p = 0; p < partitions; ++p) {
    const ir::PartitionGradient& gradient = spec->gradients.partitions[p];
    const std::string& name = spec->graph.partitions[p].name;
    add(p, gradient.forward, "forward " + name, spec->forward[p]);
    if (training && !gradient.backward.outputs.empty())
      add(p, gradient.backward, "backward " + name, spec->backward[p]);
  }
  compile_jobs(jobs, compiler, report);
  if (training) compile_optimizer(*spec, optimizer, compiler, report);
  for (const auto* modules : {&spec->forward, &spec->backward})
    for (const auto& module : *modules)
      if (module) report.kernels += module->program.kernels.size();
  report.milliseconds += milliseconds_since(begin);
  return spec;
}

void compile_optimizer(Specialisation& spec, const OptimizerSpec& optimizer, Compiler& compiler,
                       CompileReport& report) {
  spec.optimizer.clear();
  if (optimizer.name == "none") return;
  // Parameters of equal dtype and size share one graph, and so one module.
  std::map<std::pair<DType, std::int64_t>, ir::Graph> graphs;
  const std::vector<ir::ValueId>& parameters = spec.gradients.gradient_parameters;
  std::vector<Job> jobs;
  for (ir::ValueId id : parameters) {
    const TensorType& type = spec.graph.whole[id].type;
    if (type.elements() == 0) continue;
    auto [place, inserted] = graphs.try_emplace({type.dtype, type.elements()});
    if (inserted) place->second = optimizer_graph(optimizer, type.dtype, type.elements());
    jobs.push_back(
        {&place->second, "optimizer " + optimizer.name, CodeTarget::device, &spec.optimizer[id]});
  }
  CompileReport of_optimizer;  // its kernels are not partitions' modules
  compile_jobs(jobs, compiler, of_optimizer);
  report.optimizer_compiled += of_optimizer.compiled;
}

}  // namespace riffle::jit
