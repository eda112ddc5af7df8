// From a split graph to forward and backward graphs, last partition first. Start reading at
// `differentiate`. The reverse walk is in reverse.cpp, the choice of what is saved in
// residuals.cpp.
#include "ir/autodiff.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/passes.h"
#include "ir/residuals.h"
#include "ir/reverse.h"

namespace riffle::ir {
namespace {

std::vector<bool> ancestors(const Graph& graph, const std::vector<ValueId>& of) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (ValueId v : of) needed[static_cast<std::size_t>(v)] = true;
  for (ValueId v = graph.size(); v-- > 0;) {
    if (!needed[static_cast<std::size_t>(v)]) continue;
    for (ValueId operand : graph[v].operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  return needed;
}

/// Copies nodes of one graph into another, translating operands.
class Copier {
 public:
  Copier(const Graph& from, std::string name) : from_(from), here_(from.nodes.size(), kNoValue) {
    to_.name = std::move(name);
  }
  bool has(ValueId v) const { return here_[static_cast<std::size_t>(v)] != kNoValue; }
  ValueId at(ValueId v) const { return here_[static_cast<std::size_t>(v)]; }

  void copy(ValueId v) {
    Node node = from_[v];
    for (ValueId& operand : node.operands) operand = at(operand);
    put(v, std::move(node));
  }
  /// As something that is given, whatever computes it there.
  void copy_as_input(ValueId v) {
    Node node = from_[v];
    node.op = Op::input;
    node.operands.clear();
    node.attrs = Attrs{{"requires_grad", false}};
    put(v, std::move(node));
  }
  void put(ValueId v, Node node) {
    here_[static_cast<std::size_t>(v)] = to_.size();
    to_.nodes.push_back(std::move(node));
  }
  void output(ValueId v) { to_.outputs.push_back(at(v)); }
  Graph take() { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> here_;
};

/// A partition's joint graph in primitives, being taken apart.
struct Parts {
  const Graph& joint;
  const Partition& partition;
  std::size_t results;                     ///< outputs that are the partition's own
  std::vector<ValueId> inputs;             ///< joint.inputs()
  const std::vector<ValueId>& cotangents;  ///< whole values of inputs after the partition's own
  bool has_seed;

  std::vector<ValueId> result_values() const {
    return {joint.outputs.begin(), joint.outputs.begin() + static_cast<std::ptrdiff_t>(results)};
  }
  std::vector<ValueId> gradient_values() const {
    return {joint.outputs.begin() + static_cast<std::ptrdiff_t>(results), joint.outputs.end()};
  }
  std::size_t own_inputs() const { return partition.input_values.size(); }
};

Graph forward_graph(const Parts& parts, const std::vector<ValueId>& residuals) {
  std::vector<ValueId> outputs = parts.result_values();
  outputs.insert(outputs.end(), residuals.begin(), residuals.end());
  std::vector<bool> keep = ancestors(parts.joint, outputs);
  for (std::size_t i = 0; i < parts.own_inputs(); ++i) {
    keep[static_cast<std::size_t>(parts.inputs[i])] = true;
  }
  for (ValueId v : parts.joint.parameters()) keep[static_cast<std::size_t>(v)] = true;
  Copier copier(parts.joint, parts.partition.name + "_forward");
  for (ValueId v = 0; v < parts.joint.size(); ++v) {
    if (keep[static_cast<std::size_t>(v)]) copier.copy(v);
  }
  for (ValueId v : outputs) copier.output(v);
  return copier.take();
}

/// Its inputs: residuals, what is read again, cotangents; each in program order.
Graph backward_graph(const Parts& parts, const std::vector<bool>& saved,
                     std::vector<BackwardValue>& inputs) {
  const Graph& joint = parts.joint;
  const std::vector<ValueId> gradients = parts.gradient_values();
  std::vector<bool> needed(joint.nodes.size(), false);
  for (ValueId v : gradients) needed[static_cast<std::size_t>(v)] = true;
  for (ValueId v = joint.size(); v-- > 0;) {
    const auto i = static_cast<std::size_t>(v);
    if (!needed[i] || saved[i]) continue;
    for (ValueId operand : joint[v].operands) needed[static_cast<std::size_t>(operand)] = true;
  }

  Copier copier(joint, parts.partition.name + "_backward");
  auto take = [&](ValueId v, BackwardValue what) {
    copier.copy_as_input(v);
    inputs.push_back(what);
  };
  std::size_t residual = parts.results;
  for (ValueId v = 0; v < joint.size(); ++v) {
    if (!saved[static_cast<std::size_t>(v)]) continue;
    take(v, {.kind = BackwardValue::Kind::residual, .forward_output = residual++});
  }
  auto read_again = [&](ValueId v, ValueId whole) {
    if (!needed[static_cast<std::size_t>(v)] || copier.has(v)) return;
    take(v, {.kind = BackwardValue::Kind::primal, .whole = whole});
  };
  for (std::size_t i = 0; i < parts.own_inputs(); ++i) {
    read_again(parts.inputs[i], parts.partition.input_values[i]);
  }
  const std::vector<ValueId> parameters = joint.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    read_again(parameters[i], parts.partition.parameter_values[i]);
  }
  for (std::size_t i = 0; i < parts.cotangents.size(); ++i) {
    const ValueId v = parts.inputs[parts.own_inputs() + i];
    if (!needed[static_cast<std::size_t>(v)]) continue;
    take(v, {.kind = BackwardValue::Kind::cotangent, .whole = parts.cotangents[i]});
  }
  if (parts.has_seed && needed[static_cast<std::size_t>(parts.inputs.back())]) {
    Node one = joint[parts.inputs.back()];
    one.op = Op::full;
    one.attrs = Attrs{{"size", Ints{}}, {"fill_value", 1.0}, {"dtype", one.type.dtype}};
    copier.put(parts.inputs.back(), std::move(one));
  }
  for (ValueId v = 0; v < joint.size(); ++v) {
    if (needed[static_cast<std::size_t>(v)] && !copier.has(v)) copier.copy(v);
  }
  for (ValueId v : gradients) copier.output(v);
  return copier.take();
}

/// Removes inputs that the graph does not read, and their entries in `meaning`.
void drop_unused_inputs(Graph& graph, std::vector<BackwardValue>& meaning) {
  const auto users = users_of(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  std::vector<BackwardValue> kept;
  const std::vector<ValueId> inputs = graph.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool used = !users[static_cast<std::size_t>(inputs[i])].empty() ||
                      std::count(graph.outputs.begin(), graph.outputs.end(), inputs[i]) > 0;
    keep[static_cast<std::size_t>(inputs[i])] = used;
    if (used) kept.push_back(meaning[i]);
  }
  graph = filter(graph, keep);
  meaning = std::move(kept);
}

/// "grad.net1.weight" for what computes the gradient of net1.weight.
void name_gradients(Graph& graph, const std::vector<BackwardValue>& outputs, const Graph& whole) {
  NameScope names;
  for (const Node& node : graph.nodes) names.take(node.name);
  std::vector<bool> named(graph.nodes.size(), false);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId v = graph.outputs[i];
    if (graph[v].op == Op::input || named[static_cast<std::size_t>(v)]) continue;
    named[static_cast<std::size_t>(v)] = true;
    const std::string wanted = "grad." + whole[outputs[i].whole].name;
    if (graph[v].name != wanted) graph[v].name = names.unique(wanted);
  }
}

PartitionGradient take_apart(const Graph& joint, const Partition& partition,
                             const JointGraph& meaning, const std::vector<bool>& kept_values,
                             const Graph& whole) {
  Parts parts{joint,
              partition,
              partition.output_values.size(),
              joint.inputs(),
              meaning.cotangent_inputs,
              meaning.has_seed};
  const std::size_t n = joint.nodes.size();
  const std::vector<ValueId> results = parts.result_values();
  const std::vector<ValueId> gradients = parts.gradient_values();

  std::vector<bool> backward(n, false), is_result(n, false), kept(n, false);
  for (std::size_t i = parts.own_inputs(); i < parts.inputs.size(); ++i) {
    backward[static_cast<std::size_t>(parts.inputs[i])] = true;
  }
  for (std::size_t v = 0; v < n; ++v) {
    for (ValueId operand : joint.nodes[v].operands) {
      if (backward[static_cast<std::size_t>(operand)]) backward[v] = true;
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    is_result[static_cast<std::size_t>(results[i])] = true;
    if (kept_values[static_cast<std::size_t>(partition.output_values[i])]) {
      kept[static_cast<std::size_t>(results[i])] = true;
    }
  }
  std::vector<bool> saved = choose_residuals({.graph = joint,
                                              .forward = ancestors(joint, results),
                                              .backward = backward,
                                              .gradients = gradients,
                                              .results = is_result,
                                              .kept = kept});

  PartitionGradient result;
  result.forward_results = results.size();
  if (!gradients.empty()) {
    result.backward = lower_to_primitives(backward_graph(parts, saved, result.backward_inputs));
    drop_unused_inputs(result.backward, result.backward_inputs);
  }
  for (ValueId v : meaning.cotangent_outputs) {
    result.backward_outputs.push_back({.kind = BackwardValue::Kind::cotangent, .whole = v});
  }
  name_gradients(result.backward, result.backward_outputs, whole);

  // Simplifying may have shown that a residual is not read after all.
  std::vector<ValueId> all, residuals;
  for (ValueId v = 0; v < joint.size(); ++v) {
    if (saved[static_cast<std::size_t>(v)]) all.push_back(v);
  }
  for (BackwardValue& input : result.backward_inputs) {
    if (input.kind != BackwardValue::Kind::residual) continue;
    residuals.push_back(all[input.forward_output - parts.results]);
    input.forward_output = parts.results + residuals.size() - 1;
    result.residual_bytes += joint[residuals.back()].type.bytes();
  }
  result.forward = forward_graph(parts, residuals);
  return result;
}

void check_loss(const Graph& graph) {
  if (graph.outputs.empty()) {
    throw GraphError({.what = "there is no loss: the graph returns nothing",
                      .where = fmt::format("@{}", graph.name),
                      .hint = "return the loss first: return %loss"});
  }
  const Node& loss = graph[graph.outputs[0]];
  if (is_floating(loss.type.dtype) && loss.type.shape.empty()) return;
  const std::string place = to_string(loss.location);
  throw GraphError(
      {.what = fmt::format("the first output, %{}, is {}, and a loss is a floating scalar",
                           loss.name, to_string(loss.type)),
       .where = place.empty() ? fmt::format("%{} in @{}", loss.name, graph.name) : place,
       .hint = "return the loss first, or reduce it with mean or sum"});
}

}  // namespace

DifferentiatedGraph differentiate(const PartitionedGraph& graph) {
  const Graph& whole = graph.whole;
  check_loss(whole);
  const std::size_t n = whole.nodes.size();
  std::vector<bool> roots(n, false);
  for (ValueId v = 0; v < whole.size(); ++v) {
    const Node& node = whole[v];
    roots[static_cast<std::size_t>(v)] =
        is_trainable(node) ||
        (node.op == Op::input && node.attrs.flag("requires_grad") && is_floating(node.type.dtype));
  }
  const std::vector<bool> wanted = differentiable_from(whole, roots);
  const ValueId loss = whole.outputs[0];
  const std::int32_t home = graph.partition_of[static_cast<std::size_t>(loss)];
  const std::size_t seeded =
      home < 0 ? graph.partitions.size() - 1 : static_cast<std::size_t>(home);

  DifferentiatedGraph result;
  result.partitions.resize(graph.partitions.size());
  std::vector<bool> started(n, false);  // later partitions have contributed to its gradient
  std::vector<bool> kept(n, false);     // later partitions read it again in their backward
  std::vector<ValueId> ready;           // inputs and parameters, by their last contribution
  std::vector<std::size_t> ready_in(n, 0);
  std::unordered_map<std::string_view, ValueId> by_name;
  for (ValueId v = 0; v < whole.size(); ++v) by_name.emplace(whole[v].name, v);
  for (std::size_t k = graph.partitions.size(); k-- > 0;) {
    const JointGraph joint =
        differentiate_joint({.graph = graph,
                             .partition = k,
                             .wanted = wanted,
                             .started = started,
                             .by_name = by_name,
                             .seed = k == seeded && wanted[static_cast<std::size_t>(loss)]});
    result.partitions[k] =
        take_apart(lower_to_primitives(joint.graph), graph.partitions[k], joint, kept, whole);
    for (const BackwardValue& input : result.partitions[k].backward_inputs) {
      if (input.kind == BackwardValue::Kind::primal) {
        kept[static_cast<std::size_t>(input.whole)] = true;
      }
    }
    for (ValueId v : joint.cotangent_outputs) {
      started[static_cast<std::size_t>(v)] = true;
      if (!roots[static_cast<std::size_t>(v)]) continue;
      std::erase(ready, v);
      ready.push_back(v);
      ready_in[static_cast<std::size_t>(v)] = k;
    }
  }
  for (ValueId v : ready) {
    if (whole[v].op == Op::param) {
      result.gradient_parameters.push_back(v);
      result.ready_in.push_back(ready_in[static_cast<std::size_t>(v)]);
    } else {
      result.gradient_inputs.push_back(v);
    }
  }
  for (ValueId v : whole.parameters()) {
    if (is_trainable(whole[v]) && !started[static_cast<std::size_t>(v)]) {
      result.unused_parameters.push_back(v);
    }
  }
  return result;
}

DifferentiatedGraph forward_only(const PartitionedGraph& graph) {
  DifferentiatedGraph result;
  for (const Partition& partition : graph.partitions) {
    PartitionGradient part;
    part.forward = lower_to_primitives(partition.graph);
    part.forward.name = partition.name + "_forward";
    part.forward_results = partition.output_values.size();
    result.partitions.push_back(std::move(part));
  }
  return result;
}

}  // namespace riffle::ir
