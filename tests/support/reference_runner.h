// Runs a split and differentiated graph with the reference evaluator, partition by partition: what
// any real way of running it is compared with.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/array.h"
#include "ir/autodiff.h"
#include "ir/split.h"

namespace riffle::test {

struct ReferenceStep {
  std::vector<ir::Array> outputs;              ///< as whole.outputs
  std::map<std::string, ir::Array> gradients;  ///< of parameters and inputs that have one, by name
  /// Names of parameters and inputs, as their gradients became complete.
  std::vector<std::string> ready_order;
};

/// `arrays`: for whole.inputs(), then whole.parameters(). Backward graphs run last to first, each
/// on the residuals of its forward and the cotangents of the ones before. Throws GraphError when a
/// graph asks for a value that nothing has made.
ReferenceStep run_reference(const ir::PartitionedGraph& graph,
                            const ir::DifferentiatedGraph& differentiated,
                            std::span<const ir::Array> arrays);

/// Equal bits of every element, where all NaNs count as equal and shapes and dtypes must be equal.
bool identical(const ir::Array& a, const ir::Array& b);

}  // namespace riffle::test
