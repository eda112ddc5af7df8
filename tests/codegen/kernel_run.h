// Graphs from the op samples, and running them through kernels and the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "codegen/kernel_interpreter.h"
#include "codegen/kernel_spec.h"
#include "ir/builder.h"
#include "ir/evaluator.h"
#include "ir/graph.h"
#include "ir/passes.h"
#include "tests/support/random_graph.h"

namespace riffle::test {

struct SampleGraph {
  std::string what;
  ir::Graph graph;
  std::vector<ir::Array> arrays;
};

/// The sample's operands as inputs, one node, and its value as the output.
inline SampleGraph graph_of_sample(const ir::OpInfo& info, const ir::Sample& sample, DType dtype,
                                   std::uint64_t seed) {
  SampleGraph result;
  ir::Builder b("sample");
  std::vector<ir::Value> operands;
  Random random(seed);
  result.what = std::string(info.text);
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    TensorType type = sample.operands[i];
    if (type.dtype == DType::f32) type.dtype = dtype;
    operands.push_back(b.append_source(ir::Op::input, type, "x" + std::to_string(i)));
    ir::Array array(type);
    for (double& x : array.data) {
      if (type.dtype == DType::boolean)
        x = static_cast<double>(random.below(2));
      else if (is_integer(type.dtype))
        x = sample.index_limit > 0 ? static_cast<double>(random.below(sample.index_limit))
                                   : std::floor(random.uniform(sample.low, sample.high));
      else
        x = random.uniform(sample.low, sample.high);
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.bytes()));
    ir::array_to_bytes(array, bytes);  // rounds to the dtype
    result.arrays.push_back(ir::array_from_bytes(type, bytes));
    result.what += " " + to_string(type);
  }
  ir::Value value = b.append(info.op, operands, sample.attrs);
  result.graph = b.finish({value});
  return result;
}

/// Every sample of every op in every dtype that it takes.
template <class Body>
void for_each_sample(const Body& body) {
  std::uint64_t seed = 1;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (!info.block.samples) continue;
    std::vector<DType> dtypes = info.block.dtypes
                                    ? info.block.dtypes()
                                    : std::vector{DType::f32, DType::f64, DType::bf16, DType::f16};
    for (const ir::Sample& sample : info.block.samples())
      for (DType dtype : dtypes) body(info, graph_of_sample(info, sample, dtype, seed++));
  }
}

inline std::vector<std::vector<std::byte>> bytes_of(const std::vector<ir::Array>& arrays) {
  std::vector<std::vector<std::byte>> bytes;
  for (const ir::Array& array : arrays) {
    bytes.emplace_back(static_cast<std::size_t>(array.type.bytes()));
    ir::array_to_bytes(array, bytes.back());
  }
  return bytes;
}

/// Builds, verifies and interprets. `graph` holds primitives.
inline std::vector<std::vector<std::byte>> run_kernels(const ir::Graph& graph,
                                                       const std::vector<ir::Array>& arrays,
                                                       bool fuse) {
  const codegen::KernelProgram program = codegen::build_kernels(graph, {.fuse = fuse});
  codegen::verify(program);
  return codegen::interpret(program, bytes_of(arrays));
}

/// Fused and unfused kernels give the same bits (all NaNs count as one). False after a failure.
inline bool expect_fusion_keeps_bits(const ir::Graph& primitives,
                                     const std::vector<ir::Array>& arrays,
                                     const std::string& what) {
  const auto fused = run_kernels(primitives, arrays, true);
  const auto unfused = run_kernels(primitives, arrays, false);
  for (std::size_t i = 0; i < fused.size(); ++i) {
    if (fused[i] == unfused[i]) continue;
    const TensorType& type = primitives[primitives.outputs[i]].type;
    const ir::Array a = ir::array_from_bytes(type, fused[i]);
    const ir::Array b = ir::array_from_bytes(type, unfused[i]);
    for (std::size_t e = 0; e < a.data.size(); ++e) {
      if (std::isnan(a.data[e]) && std::isnan(b.data[e])) continue;
      if (a.data[e] == b.data[e] && std::signbit(a.data[e]) == std::signbit(b.data[e])) continue;
      ADD_FAILURE() << what << ": output " << i << " element " << e << " is " << a.data[e]
                    << " fused, " << b.data[e] << " unfused\n"
                    << codegen::print(codegen::build_kernels(primitives));
      return false;
    }
  }
  return true;
}

}  // namespace riffle::test
