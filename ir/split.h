// Splitting: a policy says where to cut, the mechanism cuts.
//
//   Graph ── policy ──▶ cut positions ── split() ──▶ PartitionedGraph (partitions + stitched graph)
//
// Partitions are contiguous intervals of program order. A policy is one small file under
// ir/split_policies/; it sees the graph and says after which node to cut.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
/// Sorted, unique, each in 1 … counted.size()-1 (others are dropped).
class SplitPolicy {
 public:
  virtual ~SplitPolicy() = default;
  virtual std::string describe() const = 0;  ///< "nodes 3"
  virtual std::vector<std::size_t> cuts(const SplitView& view) const = 0;
};

std::unique_ptr<SplitPolicy> split_none();
/// N compute nodes a partition, counted from the output.
std::unique_ptr<SplitPolicy> split_by_nodes(std::int64_t nodes);
/// At least N trainable parameters (tensors) a partition, counted from the output.
std::unique_ptr<SplitPolicy> split_by_params(std::int64_t params);
/// At least `cap` bytes of trainable parameters a partition, the first (last layers) at `first`.
std::unique_ptr<SplitPolicy> split_by_bytes(std::int64_t cap, std::int64_t first);
/// At explicit breaks.
std::unique_ptr<SplitPolicy> split_at_markers();
/// Exactly there: for tests and tools.
std::unique_ptr<SplitPolicy> split_at(std::vector<std::size_t> cuts);

struct Partition {
  std::string name;    ///< "partition_0": 0 is the first to run forward
  /// Inputs (values from outside: graph inputs and other partitions' results, both `input` nodes)
  /// and the parameters it uses keep their names from the whole graph.
  Graph graph;
  /// Per partition input / parameter / output: the value in the whole graph, in the order of
  /// graph.inputs(), graph.parameters(), graph.outputs.
  std::vector<ValueId> input_values, parameter_values, output_values;
};

struct PartitionedGraph {
  Graph whole;
  std::vector<Partition> partitions;
  std::string policy;
  bool has_loss = false;  ///< the first output is a scalar that depends on a trainable parameter

  /// The stitched graph as a table: placeholders, one call a partition, its results taken out by
  /// index, output.
  std::vector<TableRow> stitched_rows() const;
};

/// Never throws for a verified graph: every value may cross a cut. No cut gives one partition.
PartitionedGraph split(const Graph& graph, const SplitPolicy& policy);

/// The nodes after the model's last output that only the loss needs.
std::vector<bool> loss_nodes(const Graph& graph);

}  // namespace riffle::ir
