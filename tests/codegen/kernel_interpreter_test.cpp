// Fused kernels against unfused ones, bit for bit, and both against the double-precision reference.
#include "codegen/kernel_interpreter.h"

#include <algorithm>
#include <cmath>

#include "ir/autodiff.h"
#include "ir/text.h"
#include "tests/codegen/kernel_run.h"

namespace riffle::codegen {
namespace {

using test::SampleGraph;

// A sample is one op on operands of a few hundred elements, reduced at most once or twice: some
// tens of roundings of values of about 10.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-4;
    case DType::f16:
      return 2e-2;
    case DType::bf16:
      return 1e-1;
    default:
      return 0;
  }
}

void expect_near_reference(const SampleGraph& sample) {
  const ir::Graph primitives = ir::lower_to_primitives(sample.graph);
  const auto outputs = test::run_kernels(primitives, sample.arrays, true);
  const std::vector<ir::Array> expected = ir::evaluate(sample.graph, sample.arrays);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ir::Array got = ir::array_from_bytes(expected[i].type, outputs[i]);
    for (std::size_t e = 0; e < got.data.size(); ++e) {
      const double x = got.data[e], y = expected[i].data[e];
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      const double allowed = tolerance(got.type.dtype) * std::max(1.0, std::abs(y));
      if (std::abs(x - y) <= allowed) continue;
      ADD_FAILURE() << sample.what << ": element " << e << " is " << x << ", expected " << y << "\n"
                    << print(build_kernels(primitives));
      break;
    }
  }
}

TEST(KernelInterpreter, EverySampleKeepsItsBitsWhenFused) {
  test::for_each_sample([](const ir::OpInfo&, const SampleGraph& sample) {
    test::expect_fusion_keeps_bits(ir::lower_to_primitives(sample.graph), sample.arrays,
                                   sample.what);
  });
}

TEST(KernelInterpreter, EverySampleIsNearTheReference) {
  test::for_each_sample([](const ir::OpInfo& info, const SampleGraph& sample) {
    // A result in bf16 or f16 may round to the other side of where these jump.
    const bool jumps = info.has(ir::kNotDifferentiable) || info.op == ir::Op::floor;
    const DType dtype = sample.graph[sample.graph.outputs[0]].type.dtype;
    if (!jumps || !is_floating(dtype)) expect_near_reference(sample);
  });
}

/// Of an input or a parameter.
ir::Array array_of(const ir::Graph& graph, ir::ValueId value,
                   const std::vector<ir::Array>& arrays) {
  std::vector<ir::ValueId> given = graph.inputs();
  const std::vector<ir::ValueId> parameters = graph.parameters();
  given.insert(given.end(), parameters.begin(), parameters.end());
  const auto at = std::find(given.begin(), given.end(), value);
  return arrays[static_cast<std::size_t>(at - given.begin())];
}

/// Values for the backward's inputs: what the forward left, and random cotangents.
std::vector<ir::Array> backward_arrays(const ir::PartitionGradient& part,
                                       const ir::PartitionedGraph& whole,
                                       const std::vector<ir::Array>& arrays,
                                       const std::vector<std::vector<std::byte>>& forward) {
  std::vector<ir::Array> result = test::random_arrays(part.backward, 7);
  for (std::size_t i = 0; i < part.backward_inputs.size(); ++i) {
    const ir::BackwardValue& value = part.backward_inputs[i];
    if (value.kind == ir::BackwardValue::Kind::residual) {
      result[i] = ir::array_from_bytes(result[i].type, forward[value.forward_output]);
    } else if (value.kind == ir::BackwardValue::Kind::primal) {
      result[i] = array_of(whole.whole, value.whole, arrays);
    }
  }
  return result;
}

TEST(KernelInterpreter, RandomGraphsAndTheirGradientsKeepTheirBits) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const ir::Graph graph = test::random_graph(seed);
    const std::vector<ir::Array> arrays = test::random_arrays(graph, seed);
    const std::string what = "seed " + std::to_string(seed);
    if (!test::expect_fusion_keeps_bits(ir::lower_to_primitives(graph), arrays, what)) return;
    const ir::PartitionedGraph whole = ir::split(graph, *ir::split_none());
    const ir::PartitionGradient part = ir::differentiate(whole).partitions[0];
    const ir::Graph forward = ir::lower_to_primitives(part.forward);
    std::vector<ir::Array> own;
    for (ir::ValueId v : whole.partitions[0].input_values)
      own.push_back(array_of(whole.whole, v, arrays));
    for (ir::ValueId v : whole.partitions[0].parameter_values)
      own.push_back(array_of(whole.whole, v, arrays));
    if (!test::expect_fusion_keeps_bits(forward, own, what + " forward")) return;
    if (part.backward.outputs.empty()) continue;
    const ir::Graph backward = ir::lower_to_primitives(part.backward);
    if (!test::expect_fusion_keeps_bits(
            backward, backward_arrays(part, whole, arrays, test::run_kernels(forward, own, true)),
            what + " backward"))
      return;
  }
}

TEST(KernelInterpreter, IndexOutOfRangeIsReported) {
  const ir::Graph graph = ir::parse(
      "graph @g {\n %x = input : f32[3, 4]\n %i = input : i64[3, 1]\n"
      " %y = gather(%x, dim=1, index=%i)\n return %y\n}",
      "test.rfl");
  const KernelProgram program = build_kernels(graph);
  ir::Array x(graph[0].type), i(graph[1].type);
  i.data = {0, 4, 3};
  EXPECT_THROW((void)interpret(program, test::bytes_of({x, i})), DeviceError);
  i.data = {0, -1, 3};
  EXPECT_THROW((void)interpret(program, test::bytes_of({x, i})), DeviceError);
  i.data = {0, 1, 3};
  EXPECT_NO_THROW(interpret(program, test::bytes_of({x, i})));
}

}  // namespace
}  // namespace riffle::codegen
