// Graphs that parse are split at a place of the input's choosing, differentiated, lowered and
// planned as kernels: a riffle::Error, or a program that verifies.
#include <string_view>

#include "codegen/kernel_spec.h"
#include "ir/autodiff.h"
#include "ir/passes.h"
#include "ir/split.h"
#include "ir/text.h"
#include "riffle/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace riffle;
  if (size < 2) return 0;
  try {
    const ir::Graph graph =
        ir::parse(std::string_view(reinterpret_cast<const char*>(data + 1), size - 1), "input");
    if (graph.nodes.size() > 200) return 0;
    for (const ir::Node& node : graph.nodes)
      if (node.type.rank() > 8) return 0;
    const ir::PartitionedGraph parts = ir::split(graph, *ir::split_at({data[0] % 8U}));
    const ir::DifferentiatedGraph gradients = ir::differentiate(parts);
    for (const ir::PartitionGradient& gradient : gradients.partitions)
      for (const ir::Graph* part : {&gradient.forward, &gradient.backward})
        if (!part->outputs.empty())
          codegen::verify(codegen::build_kernels(ir::lower_to_primitives(*part)));
  } catch (const Error&) {
  }
  return 0;
}
