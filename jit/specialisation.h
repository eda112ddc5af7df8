// A specialisation: the Executable's graph at one set of input shapes, for training or not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/autodiff.h"
#include "ir/split.h"
#include "jit/compile_partition.h"
#include "jit/layout.h"
#include "jit/schedule_builder.h"
#include "runtime/device.h"

namespace riffle::jit {

/// What runs a partition: code for the session's device, code for the host (the same on cpu), or
/// the double-precision evaluator.
enum class Backend : std::uint8_t { device, host, reference };

/// Buffers, modules and schedule that one run needs. Owned by an Executable.
struct Specialisation {
  ir::PartitionedGraph graph;
  ir::DifferentiatedGraph gradients;
  bool training = true;
  InputOutputLayout io;
  std::vector<std::shared_ptr<const CompiledGraph>> forward, backward;
  std::map<ir::ValueId, std::shared_ptr<const CompiledGraph>> optimizer;

  BuiltSchedule built;
  std::int64_t built_for = -1;  ///< version of hooks and settings that `built` reflects
  std::vector<std::unique_ptr<runtime::Module>> modules;  ///< by Launch::module
  std::unique_ptr<runtime::Buffer> inputs, outputs, arena;
  std::vector<std::int64_t> input_versions;  ///< by ValueId: what `inputs` holds
  std::int64_t last_used = 0;
};

/// Splits, differentiates and compiles `graph`. `backends` is per partition (may be shorter).
std::unique_ptr<Specialisation> specialise(const ir::Graph& graph, const ir::SplitPolicy& policy,
                                           bool training, const OptimizerSpec& optimizer,
                                           const std::vector<Backend>& backends, Compiler& compiler,
                                           CompileReport& report);

/// Compiles the optimizer's kernels, one a parameter type, shared.
void compile_optimizer(Specialisation& specialisation, const OptimizerSpec& optimizer,
                       Compiler& compiler, CompileReport& report);

/// A module that runs the double-precision evaluator instead of compiled kernels: a program of one
/// kernel that reads every input and parameter and writes every output.
std::shared_ptr<const CompiledGraph> reference_module(const ir::Graph& graph,
                                                      const std::string& name);

}  // namespace riffle::jit
