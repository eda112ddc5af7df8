// compare: against the unsplit graph (bit by bit) or the double-precision reference; bisect.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/command.h"
#include "driver/comparison.h"
#include "driver/reference_scale.h"
#include "ir/evaluator.h"
#include "ir/passes.h"

namespace riffle::driver {
namespace {

using ir::Array;
using ir::BackwardValue;
using ir::ValueId;

Array array_of(const HostTensor& tensor) { return ir::array_from_bytes(tensor.type, tensor.bytes); }

/// Of a result in a graph: a value that was rounded to a coarse dtype stays so in a finer one.
double tolerance(Context& context, const ir::Graph& graph, DType dtype) {
  double coarsest = reference_tolerance(dtype);
  if (coarsest == 0) return 0;  // integers are equal
  const SessionOptions& options = context.session_options();
  if (options.cuda.tf32 && options.device.starts_with("cuda"))
    coarsest = std::max(coarsest, reference_tolerance(DType::f16));  // as many significant bits
  for (const ir::Node& node : graph.nodes)
    coarsest = std::max(coarsest, reference_tolerance(node.type.dtype));
  return coarsest;
}

/// One step on a copy of the state: nothing of the user's changes.
Executable stepped(Context& context, const std::vector<std::string>& split) {
  Executable copy = jit::clone(context.executable(), ir::make_split_policy(split));
  copy.step();
  return copy;
}

void finish(Context& context, std::string_view against, const std::vector<ComparedTensor>& rows,
            const std::string& verdict) {
  std::string text;
  Json tensors = Json::array();
  bool fits = true;
  for (const ComparedTensor& row : rows) {
    fits &= row.fits;
    tensors.push_back({{"name", row.name},
                       {"elements", row.elements},
                       {"different", row.different},
                       {"error", std::isfinite(row.error) ? Json(row.error) : Json("inf")},
                       {"fits", row.fits}});
    if (!row.fits)
      text += fmt::format("  {}: {} of {} elements differ, relative error {:.3g}\n", row.name,
                          row.different, row.elements, row.error);
  }
  text += fmt::format("compare {}: {}", against, fits ? verdict : "DIFFERENT");
  context.output().result(
      {{"command", "compare"}, {"against", against}, {"equal", fits}, {"tensors", tensors}}, text);
  if (!fits)
    throw ComparisonFailed(
        {.what = "the results differ from " + std::string(against), .hint = "bisect"});
}

void compare_unsplit(Context& context) {
  Executable split = stepped(context, context.split_words());
  Executable whole = stepped(context, {"none"});
  std::vector<ComparedTensor> rows;
  for (const std::string& name : whole.names()) {
    const HostTensor a = split.get(name), b = whole.get(name);
    ComparedTensor row{
        .name = name, .elements = b.type.elements(), .different = different_elements(a, b)};
    row.fits = row.different == 0;
    if (!row.fits) row.error = relative_error(array_of(a), array_of(b));
    rows.push_back(row);
  }
  finish(
      context, "unsplit", rows,
      fmt::format("bit-identical (loss, {} tensors: outputs, gradients and updated parameters; {} "
                  "partitions against 1)",
                  rows.size(), split.partition_count()));
}

std::vector<Array> squares_of_all(const std::vector<Array>& arrays) {
  std::vector<Array> squares;
  for (const Array& array : arrays) squares.push_back(squares_of(array));
  return squares;
}

/// A graph's outputs in double, and the squares of the terms that they are sums of.
struct Evaluated {
  std::vector<Array> outputs, squares;
  Evaluated(const ir::Graph& graph, const std::vector<Array>& sources,
            const std::vector<Array>& squares_of_sources) {
    const std::vector<Array> values = ir::evaluate_all(graph, sources);
    const std::vector<Array> scales = squared_scales(graph, values, squares_of_sources);
    for (ValueId id : graph.outputs) {
      outputs.push_back(values[static_cast<std::size_t>(id)]);
      squares.push_back(scales[static_cast<std::size_t>(id)]);
    }
  }
};

/// Loss, outputs and gradients of the whole graph in double, from the executable's state.
struct ReferenceResult {
  std::string name;
  Array value, squares;  ///< see reference_scale.h
};

std::vector<ReferenceResult> reference_results(const Executable& executable) {
  const ir::Graph& graph = executable.graph().ir();
  const ir::PartitionedGraph whole = ir::split(graph, *ir::split_none());
  const ir::DifferentiatedGraph gradients = ir::differentiate(whole);
  const ir::Partition& partition = whole.partitions.at(0);
  const ir::PartitionGradient& gradient = gradients.partitions.at(0);
  std::vector<Array> inputs;
  for (ValueId id : partition.input_values)
    inputs.push_back(array_of(executable.get(graph[id].name)));
  for (ValueId id : partition.parameter_values)
    inputs.push_back(array_of(executable.get("param/" + graph[id].name)));
  const Evaluated forward(gradient.forward, inputs, squares_of_all(inputs));

  std::vector<ReferenceResult> results;
  for (std::size_t i = 0; i < partition.output_values.size(); ++i)
    results.push_back(
        {graph[partition.output_values[i]].name, forward.outputs[i], forward.squares[i]});
  if (gradient.backward.outputs.empty()) return results;
  std::vector<Array> residuals, squares;
  for (const BackwardValue& input : gradient.backward_inputs) {
    const bool saved = input.kind == BackwardValue::Kind::residual;
    residuals.push_back(saved ? forward.outputs[input.forward_output]
                              : array_of(executable.get(graph[input.whole].name)));
    squares.push_back(saved ? forward.squares[input.forward_output] : squares_of(residuals.back()));
  }
  const Evaluated backward(gradient.backward, residuals, squares);
  for (std::size_t i = 0; i < backward.outputs.size(); ++i)
    results.push_back({"grad/" + graph[gradient.backward_outputs[i].whole].name,
                       backward.outputs[i], backward.squares[i]});
  return results;
}

void compare_reference(Context& context) {
  // The gradients belong to the parameters before the update.
  Executable copy = jit::clone(context.executable(), ir::make_split_policy(context.split_words()));
  const auto reference = reference_results(copy);
  copy.step();
  std::vector<ComparedTensor> rows;
  double worst = 0;
  for (const auto& [name, expected, squares] : reference) {
    const HostTensor tensor = copy.get(name);
    ComparedTensor row{.name = name, .elements = tensor.type.elements()};
    row.error = relative_error(array_of(tensor), expected, &squares);
    row.fits = row.error <= tolerance(context, copy.graph().ir(), tensor.type.dtype);
    if (!row.fits) row.different = row.elements;
    worst = std::max(worst, row.error);
    rows.push_back(row);
  }
  finish(context, "reference", rows,
         fmt::format("within tolerance (loss, outputs and gradients, {} tensors; largest relative "
                     "error {:.2g})",
                     rows.size(), worst));
}

void compare(Context& context, Arguments& arguments) {
  const std::string against =
      arguments.empty() ? "unsplit" : arguments.take("unsplit or reference");
  arguments.finish();
  jit::require_trainable(context.executable());
  if (against == "unsplit")
    compare_unsplit(context);
  else if (against == "reference")
    compare_reference(context);
  else
    throw UsageError(
        {.what = "cannot compare with '" + against + "'", .hint = "unsplit or reference"});
}

/// Results of one graph, compiled and by the reference, from the same inputs.
struct BothResults {
  std::vector<HostTensor> compiled;
  double error = 0;
  std::string worst;
  bool fits = true;
};

BothResults run_both(Context& context, const ir::Graph& graph,
                     const std::vector<HostTensor>& inputs) {
  // A part of a graph may return a scalar before what the whole graph calls its loss, and `get`
  // takes "loss" for the first output: here it is a name like any other.
  auto renamed = std::make_shared<ir::Graph>(graph);
  for (ir::Node& node : renamed->nodes)
    if (node.name == "loss") node.name = "loss of the whole";
  Executable compiled = jit::create(context.session(), Graph(renamed), ir::split_none());
  std::vector<Array> arrays;
  std::vector<ValueId> sources = graph.inputs();
  for (ValueId id : graph.parameters()) sources.push_back(id);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    compiled.set((*renamed)[sources[i]].name, inputs[i]);
    arrays.push_back(array_of(inputs[i]));
  }
  compiled.evaluate();
  const Evaluated expected(graph, arrays, squares_of_all(arrays));
  BothResults both;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string& name = graph[graph.outputs[i]].name;
    both.compiled.push_back(compiled.get((*renamed)[graph.outputs[i]].name));
    const double error =
        relative_error(array_of(both.compiled.back()), expected.outputs[i], &expected.squares[i]);
    if (error > both.error) {
      both.error = error;
      both.worst = name;
    }
    both.fits &= error <= tolerance(context, graph, both.compiled.back().type.dtype);
  }
  return both;
}

/// Runs the partitions one by one, each on what the compiled ones before it computed, and compares
/// each with the reference on the same inputs: the first that differs is where an error enters.
void bisect(Context& context, Arguments& arguments) {
  arguments.finish();
  Executable& executable = context.executable();
  jit::require_trainable(executable);
  const ir::PartitionedGraph& graph = jit::partitioned(executable);
  const ir::DifferentiatedGraph& gradients = jit::differentiated(executable);
  std::map<ValueId, HostTensor> values, cotangents;
  std::vector<std::vector<HostTensor>> forwards;
  auto value = [&](ValueId id) -> const HostTensor& {
    auto found = values.find(id);
    if (found == values.end()) {
      const ir::Node& node = graph.whole[id];
      found =
          values.emplace(id, executable.get((node.op == ir::Op::param ? "param/" : "") + node.name))
              .first;
    }
    return found->second;
  };
  std::string text;
  Json rows = Json::array();
  std::string first_wrong;
  auto report = [&](const std::string& name, const BothResults& both) {
    text += fmt::format("{:<24} relative error {:.2g}{}\n", name, both.error,
                        both.fits ? "" : "  ← leaves the reference at %" + both.worst);
    rows.push_back({{"name", name},
                    {"error", std::isfinite(both.error) ? Json(both.error) : Json("inf")},
                    {"fits", both.fits}});
    if (!both.fits && first_wrong.empty()) first_wrong = name;
  };
  const std::size_t partitions = graph.partitions.size();
  for (std::size_t p = 0; p < partitions; ++p) {
    const ir::Partition& partition = graph.partitions[p];
    std::vector<HostTensor> inputs;
    for (ValueId id : partition.input_values) inputs.push_back(value(id));
    for (ValueId id : partition.parameter_values) inputs.push_back(value(id));
    BothResults both = run_both(context, gradients.partitions[p].forward, inputs);
    for (std::size_t i = 0; i < partition.output_values.size(); ++i)
      values.insert_or_assign(partition.output_values[i], both.compiled[i]);
    report("forward " + partition.name, both);
    forwards.push_back(std::move(both.compiled));
  }
  for (std::size_t p = partitions; p-- > 0;) {
    const ir::PartitionGradient& gradient = gradients.partitions[p];
    if (gradient.backward.outputs.empty()) continue;
    std::vector<HostTensor> inputs;
    for (const BackwardValue& input : gradient.backward_inputs)
      inputs.push_back(input.kind == BackwardValue::Kind::residual
                           ? forwards[p][input.forward_output]
                       : input.kind == BackwardValue::Kind::primal ? value(input.whole)
                                                                   : cotangents.at(input.whole));
    BothResults both = run_both(context, gradient.backward, inputs);
    for (std::size_t i = 0; i < gradient.backward_outputs.size(); ++i)
      cotangents.insert_or_assign(gradient.backward_outputs[i].whole, both.compiled[i]);
    report("backward " + graph.partitions[p].name, both);
  }
  text += first_wrong.empty() ? "every partition agrees with the reference"
                              : "first to leave the reference: " + first_wrong;
  context.output().result({{"command", "bisect"}, {"first", first_wrong}, {"partitions", rows}},
                          text);
  if (!first_wrong.empty())
    throw ComparisonFailed({.what = first_wrong + " leaves the reference",
                            .hint = "show kernels K; set fuse off and bisect again"});
}

constexpr Command kCommands[] = {
    {"compare", "compare [unsplit|reference]",
     "Steps copies of the state: bit-identical to the unsplit graph, or close to the "
     "double-precision reference.",
     compare, Completes::words, "unsplit reference"},
    {"bisect", "bisect", "Finds the first partition whose result leaves the reference.", bisect},
};

}  // namespace

std::span<const Command> check_commands() { return kCommands; }

}  // namespace riffle::driver
