// Splitting: a policy says where to cut, the mechanism cuts.
//
//   Graph ── policy ──▶ cut positions ── split() ──▶ PartitionedGraph (partitions + stitched graph)
//
// Partitions are contiguous intervals of program order. A policy is one small file under
// ir/split_policies/; it sees the graph and says after which node to cut. The table in
// ir/split_policies/registry.cpp is what the driver parses, completes and helps from.
//
// Where values live: a graph input or parameter that a partition uses is an `input` or `param` of
// it; a constant (`full`, `arange`) is copied into each partition that uses it and never crosses;
// any other value crosses as an output of the partition that computes it and an `input` of those
// that read it. Inputs and parameters that are returned unchanged are outputs of no partition: the
// stitched graph returns them itself. Returned constants are outputs of the last partition.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/text.h"

namespace riffle::ir {

/// What a policy may look at: the compute nodes of the model (not the loss), in program order.
struct SplitView {
  const Graph& graph;
  std::vector<ValueId> counted;  ///< compute nodes that policies count
};

/// Positions in `SplitView::counted`: a cut at k separates counted[k-1] from counted[k].
/// In any order, within 0 … counted.size(). A cut at 0 and a repeated cut make
/// an empty partition, a cut at counted.size() a last one that holds the loss alone: no policy
/// but split_at does that.
class SplitPolicy {
 public:
  virtual ~SplitPolicy() = default;
  virtual std::string describe() const = 0;  ///< "nodes 3"
  virtual std::vector<std::size_t> cuts(const SplitView& view) const = 0;
};

// Each throws UsageError for a number that is not positive.

std::unique_ptr<SplitPolicy> split_none();
/// N compute nodes a partition, counted from the output.
std::unique_ptr<SplitPolicy> split_by_nodes(std::int64_t nodes);
/// At least N trainable parameters (tensors) a partition, counted from the output.
std::unique_ptr<SplitPolicy> split_by_params(std::int64_t params);
/// At least `cap` bytes of trainable parameters a partition, the first (last layers) at `first`.
/// A parameter counts where it is first used in program order: there its gradient becomes ready.
std::unique_ptr<SplitPolicy> split_by_bytes(std::int64_t cap, std::int64_t first);
/// At explicit breaks. Those before the first or after the last counted node cut nothing.
std::unique_ptr<SplitPolicy> split_at_markers();
/// Exactly there: for tests and tools. Throws UsageError for a negative position.
std::unique_ptr<SplitPolicy> split_at(std::vector<std::size_t> cuts);

/// An argument of a policy as the driver's `split NAME …` takes it.
struct SplitArgument {
  enum class Kind : std::uint8_t { count, bytes };  ///< bytes: "4096", "512KiB", "25MiB", "1GB"
  std::string_view name;                            ///< "N"; an option is given as "--first VALUE"
  Kind kind = Kind::count;
  std::string_view help;
  bool option = false;
  bool repeated = false;  ///< any number of them, last in the list
  std::optional<std::int64_t> default_value = std::nullopt;
};

/// One row of the table of policies.
struct SplitPolicyInfo {
  std::string_view name;
  std::vector<SplitArgument> arguments;
  std::string_view help;
  /// Values in the order of `arguments`, defaults filled in.
  std::unique_ptr<SplitPolicy> (*make)(std::span<const std::int64_t> values);

  std::string usage() const;  ///< "bytes CAP [--first BYTES]"
};
std::vector<SplitPolicyInfo> split_policies();

/// By name and arguments as typed: {"bytes", "25MiB", "--first", "1MiB"}.
/// Throws UsageError that says what would fit.
std::unique_ptr<SplitPolicy> make_split_policy(std::span<const std::string> words);

struct Partition {
  std::string name;  ///< "partition_0": 0 is the first to run forward
  /// Inputs (values from outside: graph inputs and other partitions' results, both `input` nodes)
  /// and the parameters it uses keep their names and program ids from the whole graph and come
  /// first, in program order, with the constants.
  Graph graph;
  /// Per partition input / parameter / output: the value in the whole graph, in the order of
  /// graph.inputs(), graph.parameters(), graph.outputs. Outputs are in program order, each once.
  std::vector<ValueId> input_values, parameter_values, output_values;
};

struct PartitionedGraph {
  Graph whole;
  std::vector<Partition> partitions;
  std::string policy;
  /// The first output is a floating scalar that depends on a trainable parameter or on an input
  /// whose gradient is wanted.
  bool has_loss = false;
  /// Per node of `whole`: index of the partition that computes it; -1 for sources and breaks.
  std::vector<std::int32_t> partition_of;

  /// Partition k as people see it: without the loss nodes, and with the values that they read
  /// among its outputs. What runs is partitions[k].graph.
  Graph shown(std::size_t k) const;
  /// The stitched graph as a table: placeholders, one call a partition, its results taken out by
  /// index, the loss nodes, output.
  std::vector<TableRow> stitched_rows() const;
};

/// Every value of a verified graph may cross a cut. No cut gives one partition. Throws UsageError
/// for a cut beyond the nodes that policies count.
PartitionedGraph split(const Graph& graph, const SplitPolicy& policy);

/// The nodes after the model's last output that only the loss needs: policies do not count them,
/// and they run with the last partition. The loss is the first output, when it is a floating
/// scalar.
/// - When other computed values are returned: the compute nodes after the last of them.
/// - When only the loss is returned: the longest run of compute nodes at the program's end that
///   begins with a loss op (mse_loss, nll_loss, cross_entropy) and goes on with loss ops and
///   scalar-valued nodes. A loss written out in other ops is counted like the model.
/// Nodes that nothing needs count as what surrounds them.
std::vector<bool> loss_nodes(const Graph& graph);

}  // namespace riffle::ir
