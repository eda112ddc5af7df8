// Cuts a graph into partitions at the positions that a policy names, and draws the stitched graph.
// Start reading at `split`.
#include "ir/split.h"

#include <fmt/format.h>

#include <algorithm>

namespace riffle::ir {
namespace {

bool is_source(const Node& node) { return info(node.op).family == OpFamily::source; }
bool is_constant(const Node& node) {
  return is_source(node) && node.op != Op::input && node.op != Op::param;
}

bool has_scalar_first_output(const Graph& graph) {
  if (graph.outputs.empty()) return false;
  const TensorType& type = graph[graph.outputs[0]].type;
  return is_floating(type.dtype) && type.shape.empty();
}

/// Compute nodes of `graph`, in program order.
std::vector<ValueId> compute_nodes(const Graph& graph) {
  std::vector<ValueId> nodes;
  for (ValueId v = 0; v < graph.size(); ++v) {
    if (is_compute(graph[v])) nodes.push_back(v);
  }
  return nodes;
}

/// Where, in the list of compute nodes, the run of loss nodes begins.
std::size_t first_loss_node(const Graph& graph, const std::vector<ValueId>& compute) {
  if (!has_scalar_first_output(graph)) return compute.size();
  const ValueId loss = graph.outputs[0];
  ValueId last_output = kNoValue;
  for (ValueId v : graph.outputs) {
    if (v != loss && is_compute(graph[v])) last_output = std::max(last_output, v);
  }
  if (last_output != kNoValue) {
    // Nothing after the last other output can be needed by anything but the loss.
    if (loss < last_output) return compute.size();
    return static_cast<std::size_t>(std::upper_bound(compute.begin(), compute.end(), last_output) -
                                    compute.begin());
  }
  std::size_t first = compute.size();
  for (std::size_t i = compute.size(); i-- > 0;) {
    const Node& node = graph[compute[i]];
    if (info(node.op).has(kLoss)) {
      first = i;
    } else if (!node.type.shape.empty()) {
      break;
    }
  }
  return first;
}

/// The nodes of `whole` that `computed` lists (in program order), as a graph of their own that
/// returns `outputs`.
Partition extract(const Graph& whole, const std::vector<ValueId>& computed,
                  const std::vector<ValueId>& outputs, std::string name) {
  Partition partition;
  partition.name = std::move(name);
  partition.graph.name = partition.name;

  std::vector<bool> inside(whole.nodes.size(), false);
  for (ValueId v : computed) inside[static_cast<std::size_t>(v)] = true;
  std::vector<ValueId> sources;
  auto need = [&](ValueId v) {
    if (!inside[static_cast<std::size_t>(v)]) sources.push_back(v);
  };
  for (ValueId v : computed) {
    for (ValueId operand : whole[v].operands) need(operand);
  }
  for (ValueId v : outputs) need(v);
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());

  std::vector<ValueId> here(whole.nodes.size(), kNoValue);
  auto place = [&](ValueId v, Node node) {
    here[static_cast<std::size_t>(v)] = partition.graph.size();
    partition.graph.nodes.push_back(std::move(node));
  };
  for (ValueId v : sources) {
    Node node = whole[v];
    if (!is_source(node)) {  // another partition's result
      node.op = Op::input;
      node.operands.clear();
      node.attrs = Attrs{{"requires_grad", false}};
    }
    if (node.op == Op::input) partition.input_values.push_back(v);
    if (node.op == Op::param) partition.parameter_values.push_back(v);
    place(v, std::move(node));
  }
  for (ValueId v : computed) {
    Node node = whole[v];
    for (ValueId& operand : node.operands) operand = here[static_cast<std::size_t>(operand)];
    place(v, std::move(node));
  }
  for (ValueId v : outputs) {
    partition.graph.outputs.push_back(here[static_cast<std::size_t>(v)]);
    partition.output_values.push_back(v);
  }
  return partition;
}

bool depends_on_trainable(const Graph& graph, ValueId value) {
  std::vector<bool> depends(graph.nodes.size(), false);
  for (ValueId v = 0; v <= value; ++v) {
    const Node& node = graph[v];
    bool d = is_trainable(node) || (node.op == Op::input && node.attrs.flag("requires_grad"));
    for (ValueId operand : node.operands) d = d || depends[static_cast<std::size_t>(operand)];
    depends[static_cast<std::size_t>(v)] = d;
  }
  return depends[static_cast<std::size_t>(value)];
}

std::string value_list(const std::vector<std::string>& names) {
  return fmt::format("({}{})", fmt::join(names, ", "), names.size() == 1 ? "," : "");
}

}  // namespace

std::vector<bool> loss_nodes(const Graph& graph) {
  std::vector<bool> is_loss(graph.nodes.size(), false);
  const std::vector<ValueId> compute = compute_nodes(graph);
  for (std::size_t i = first_loss_node(graph, compute); i < compute.size(); ++i) {
    is_loss[static_cast<std::size_t>(compute[i])] = true;
  }
  return is_loss;
}

PartitionedGraph split(const Graph& graph, const SplitPolicy& policy) {
  PartitionedGraph result;
  result.whole = graph;
  result.policy = policy.describe();
  result.has_loss = has_scalar_first_output(graph) && depends_on_trainable(graph, graph.outputs[0]);

  std::vector<ValueId> compute = compute_nodes(graph);
  const std::size_t counted = first_loss_node(graph, compute);
  SplitView view{graph, {compute.begin(), compute.begin() + static_cast<std::ptrdiff_t>(counted)}};
  std::vector<std::size_t> cuts = policy.cuts(view);
  std::sort(cuts.begin(), cuts.end());
  if (!cuts.empty() && cuts.back() > counted)
    throw UsageError(
        {.what = fmt::format("split {}: there is no place {} to cut: the model has {} "
                             "compute node{}",
                             result.policy, cuts.back(), counted, counted == 1 ? "" : "s"),
         .hint = fmt::format("0 to {}; show graph lists the nodes", counted)});

  // Interval k of the compute nodes is [bounds[k], bounds[k+1]).
  std::vector<std::size_t> bounds = {0};
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(compute.size());
  const std::size_t count = bounds.size() - 1;
  result.partition_of.assign(graph.nodes.size(), -1);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = bounds[k]; i < bounds[k + 1]; ++i) {
      result.partition_of[static_cast<std::size_t>(compute[i])] = static_cast<std::int32_t>(k);
    }
  }

  std::vector<bool> leaves(graph.nodes.size(), false);  // read outside its partition
  for (ValueId v : compute) {
    for (ValueId operand : graph[v].operands) {
      const auto from = static_cast<std::size_t>(operand);
      if (result.partition_of[from] >= 0 &&
          result.partition_of[from] != result.partition_of[static_cast<std::size_t>(v)]) {
        leaves[from] = true;
      }
    }
  }
  for (ValueId v : graph.outputs) {
    if (is_compute(graph[v]) || is_constant(graph[v])) leaves[static_cast<std::size_t>(v)] = true;
  }

  for (std::size_t k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    std::vector<ValueId> computed(compute.begin() + static_cast<std::ptrdiff_t>(bounds[k]),
                                  compute.begin() + static_cast<std::ptrdiff_t>(bounds[k + 1]));
    std::vector<ValueId> outputs;
    for (ValueId v = 0; v < graph.size(); ++v) {
      if (!leaves[static_cast<std::size_t>(v)]) continue;
      const std::int32_t home = result.partition_of[static_cast<std::size_t>(v)];
      if (home == static_cast<std::int32_t>(k) || (last && is_constant(graph[v]))) {
        outputs.push_back(v);
      }
    }
    result.partitions.push_back(extract(graph, computed, outputs, fmt::format("partition_{}", k)));
  }
  return result;
}

namespace {
/// `shown` with the correspondence to the whole graph.
Partition shown_partition(const PartitionedGraph& graph, std::size_t k) {
  const Graph& whole = graph.whole;
  const Partition& partition = graph.partitions[k];
  const std::vector<bool> is_loss = loss_nodes(whole);
  std::vector<bool> leaves(whole.nodes.size(), false);
  for (ValueId v : partition.output_values) leaves[static_cast<std::size_t>(v)] = true;
  for (ValueId v = 0; v < whole.size(); ++v) {
    if (!is_loss[static_cast<std::size_t>(v)]) continue;
    for (ValueId operand : whole[v].operands) leaves[static_cast<std::size_t>(operand)] = true;
  }
  std::vector<ValueId> computed, outputs;
  for (ValueId v = 0; v < whole.size(); ++v) {
    const auto i = static_cast<std::size_t>(v);
    if (graph.partition_of[i] == static_cast<std::int32_t>(k) && !is_loss[i]) {
      computed.push_back(v);
      if (leaves[i]) outputs.push_back(v);
    }
  }
  for (ValueId v : partition.output_values) {
    if (is_constant(whole[v])) outputs.push_back(v);
  }
  std::sort(outputs.begin(), outputs.end());
  return extract(whole, computed, outputs, partition.name);
}
}  // namespace

Graph PartitionedGraph::shown(std::size_t k) const { return shown_partition(*this, k).graph; }

std::vector<TableRow> PartitionedGraph::stitched_rows() const {
  // The loss nodes are drawn as a graph of their own, so that they look as they do everywhere.
  const std::vector<bool> is_loss = loss_nodes(whole);
  std::vector<ValueId> loss;
  for (ValueId v = 0; v < whole.size(); ++v) {
    if (is_loss[static_cast<std::size_t>(v)]) loss.push_back(v);
  }
  const Partition outside = extract(whole, loss, whole.outputs, "loss");

  // Parameters stay inside the partitions; those that the loss reads or that are returned do not.
  std::vector<ValueId> placeholders = whole.inputs();
  for (ValueId v : outside.parameter_values) placeholders.push_back(v);
  std::sort(placeholders.begin(), placeholders.end());
  std::vector<TableRow> rows;
  for (ValueId v : placeholders) {
    rows.push_back({"placeholder", whole[v].name, whole[v].name, "()", "{}"});
  }
  NameScope names;
  for (const Node& node : whole.nodes) names.take(node.name);
  std::unordered_set<std::string> taken_out;
  for (std::size_t k = 0; k < partitions.size(); ++k) {
    const Partition part = shown_partition(*this, k);
    std::vector<std::string> arguments;
    for (ValueId v : part.input_values) arguments.push_back(whole[v].name);
    rows.push_back(
        {"call_module", names.unique(part.name), part.name, value_list(arguments), "{}"});
    const std::string call = rows.back().name;
    for (std::size_t i = 0; i < part.output_values.size(); ++i) {
      const std::string& name = whole[part.output_values[i]].name;
      rows.push_back({"call_function", name, "getitem", fmt::format("({}, {})", call, i), "{}"});
      taken_out.insert(name);
    }
  }
  for (const TableRow& row : table_rows(outside.graph)) {
    if (row.opcode != "placeholder" && !taken_out.contains(row.name)) rows.push_back(row);
  }
  return rows;
}

}  // namespace riffle::ir
