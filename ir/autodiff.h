// Reverse-mode differentiation of one partition: forward and backward with explicit residuals.
//
//   forward(inputs, params)            → outputs, residuals
//   backward(residuals, cotangents in) → cotangents out
//
// Both are graphs of primitives. A cotangent of a value that several partitions use is passed on:
// the backward of an earlier partition takes the partial sum made by the later ones as an input
// and adds to it, so contributions fold in reverse program order wherever the cuts are.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/split.h"

namespace riffle::ir {

/// What a backward graph's input or output is. `whole` is the value in PartitionedGraph::whole.
struct BackwardValue {
  enum class Kind : std::uint8_t {
    residual,   ///< in: a value saved by this partition's forward (index into forward outputs)
    primal,     ///< in: an input or parameter of the partition, read again
    cotangent,  ///< in: partial or complete gradient of `whole`; out: likewise
  };
  Kind kind = Kind::residual;
  ValueId whole = kNoValue;        ///< primal, cotangent
  std::size_t forward_output = 0;  ///< residual: position in forward.outputs
};

struct PartitionGradient {
  /// Inputs and parameters: all of the partition's, used or not. Outputs: the partition's outputs,
  /// then the residuals, each once (a result may be a residual too and then occurs twice).
  Graph forward;
  std::size_t forward_results = 0;  ///< how many outputs are the partition's own
  /// Empty outputs when nothing in the partition needs a gradient. All that it reads are `input`
  /// nodes (parameters too), and each is read: residuals under the name of the value, then what is
  /// read again, then cotangents ("grad.NAME"). Outputs are in the order of the last contributions.
  Graph backward;
  std::vector<BackwardValue> backward_inputs;  ///< in the order of backward.inputs()
  std::vector<BackwardValue>
      backward_outputs;  ///< in the order of backward.outputs; all cotangents
  std::int64_t residual_bytes = 0;
};

/// Contributions to a gradient come in reverse program order, and within a node from its last
/// operand to its first; "ready order" is the order of the last contributions. It depends on the
/// whole graph alone.
struct DifferentiatedGraph {
  std::vector<PartitionGradient> partitions;  ///< as PartitionedGraph::partitions
  std::vector<ValueId> gradient_parameters;   ///< trainable, loss depends on them: in ready order
  std::vector<ValueId> unused_parameters;     ///< trainable, but the loss does not depend on them
  std::vector<ValueId>
      gradient_inputs;  ///< inputs with requires_grad that the loss depends on: in ready order
  /// Per entry of gradient_parameters: partition whose backward makes the last contribution.
  std::vector<std::size_t> ready_in;
};

/// Throws GraphError when the first output is not a floating scalar, or a value on the way is not
/// differentiable by name. The loss's own cotangent (1) is a constant of the partition that
/// computes it; of the last one when an input or parameter is returned as the loss.
/// A gradient that is zero by rule (through `sign`, a comparison, an index) is absent, and such a
/// parameter unused.
DifferentiatedGraph differentiate(const PartitionedGraph& graph);

/// With no gradient: forward only (eval). residual_bytes 0, empty backward.
DifferentiatedGraph forward_only(const PartitionedGraph& graph);

}  // namespace riffle::ir
