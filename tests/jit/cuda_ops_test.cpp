// Every op and its gradient through a whole session on the GPU: near the reference evaluator, and
// of the CPU's very bits where the order of operations is fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/evaluator.h"
#include "ir/passes.h"
#include "jit/session.h"
#include "tests/jit/gpu_options.h"
#include "tests/jit/training.h"
#include "tests/support/op_samples.h"
#include "tests/support/reference_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/tolerance.h"

namespace riffle::test {
namespace {

/// One result of a sample's graph: where it is in the joint graph, and what it should be.
struct Expected {
  std::string name, what;
  ir::Array value;
  Tolerance tolerance;
  double at_least = 0;
};

/// Many samples in one graph, so that one compile serves them all.
class JointGraph {
 public:
  explicit JointGraph(const std::string& name) : builder_(name) {}

  /// Appends `graph`, binding its inputs to `arguments`; its outputs are expected as the reference
  /// evaluator has them.
  void add(const ir::Graph& graph, const std::vector<ir::Array>& arguments, const std::string& what,
           std::int64_t terms, double at_least) {
    const std::string prefix = "s" + std::to_string(samples_++) + "_";
    std::vector<ir::Value> values;
    std::size_t argument = 0;
    for (const ir::Node& node : graph.nodes) {
      if (node.op == ir::Op::input) {
        const std::string name = prefix + node.name;
        values.push_back(builder_.append_source(ir::Op::input, node.type, name));
        inputs_.emplace_back(name, arguments[argument++]);
        continue;
      }
      std::vector<ir::Value> operands;
      for (ir::ValueId id : node.operands) operands.push_back(values[static_cast<std::size_t>(id)]);
      values.push_back(builder_.append(node.op, operands, node.attrs, prefix + node.name));
    }
    const std::vector<ir::Array> results = ir::evaluate(graph, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) {
      // Through an op of its own: outputs that are inputs returned as they are say nothing of it.
      const ir::Value value = values[static_cast<std::size_t>(graph.outputs[i])];
      outputs_.push_back(value);
      expected_.push_back({builder_.graph()[value.id].name, what, results[i],
                           test::tolerance(results[i].type.dtype, terms), at_least});
    }
  }

  bool empty() const noexcept { return outputs_.empty(); }
  const std::vector<Expected>& expected() const noexcept { return expected_; }
  ir::Graph finish() { return builder_.finish(outputs_); }
  void bind(Executable& executable) const {
    for (const auto& [name, array] : inputs_) executable.set(name, to_tensor(array));
  }

 private:
  ir::Builder builder_;
  std::size_t samples_ = 0;
  std::vector<ir::Value> outputs_;
  std::vector<std::pair<std::string, ir::Array>> inputs_;
  std::vector<Expected> expected_;
};

double largest(const ir::Array& array) {
  double most = 0;
  for (double x : array.data) most = std::max(most, std::fabs(x));
  return most;
}

JointGraph joint_graph(const ir::OpInfo& op, DType dtype) {
  JointGraph joint(std::string(op.text));
  Random random(7);
  for (const ir::Sample& sample : samples_of(op)) {
    const std::vector<ir::Array> operands = random_operands(sample, dtype, random);
    std::int64_t terms = 1;
    for (const ir::Array& operand : operands) terms = std::max(terms, operand.type.elements());
    const ir::Graph forward = sample_graph(op, sample, dtype);
    joint.add(forward, operands, describe(op, sample, dtype), terms, 0);
    const auto wanted = differentiable_operands(op, sample, dtype);
    if (wanted.empty() || op.family == ir::OpFamily::source) continue;
    std::vector<ir::Array> arguments = operands;
    arguments.push_back(random_array(forward[forward.outputs[0]].type, random));
    joint.add(gradient_graph(op, sample, dtype, wanted), arguments,
              "gradient of " + describe(op, sample, dtype), terms, largest(arguments.back()));
  }
  return joint;
}

/// Sums of products in bf16 and f16 are the tensor cores' affair: near, not equal.
bool has_fixed_order(const ir::Graph& graph) {
  const ir::Graph primitives = ir::lower_to_primitives(graph);
  return std::none_of(primitives.nodes.begin(), primitives.nodes.end(), [&](const ir::Node& node) {
    if (node.op != ir::Op::matmul) return false;
    return std::any_of(primitives.nodes.begin(), primitives.nodes.end(), [](const ir::Node& n) {
      return n.type.dtype == DType::bf16 || n.type.dtype == DType::f16;
    });
  });
}

/// On hardware every dtype; emulated f32 and bf16 (under a sanitizer f32), the others being
/// compared kernel by kernel in the code generator's suite.
std::vector<DType> dtypes_of(const ir::OpInfo& op) {
  std::vector<DType> dtypes = tested_dtypes(op);
  if (gpu_is_emulated() && dtypes.size() > 2)
    std::erase_if(dtypes,
                  [](DType d) { return d != DType::f32 && (kSanitized || d != DType::bf16); });
  return dtypes;
}

class CudaOp : public ::testing::TestWithParam<ir::Op> {
 protected:
  static void SetUpTestSuite() {
    gpu_ = new Session(gpu_options());
    cpu_ = new Session({.cache_directory = ""});
  }
  static void TearDownTestSuite() {
    delete gpu_;
    delete cpu_;
    gpu_ = cpu_ = nullptr;
  }
  static Session* gpu_;
  static Session* cpu_;
};
Session* CudaOp::gpu_ = nullptr;
Session* CudaOp::cpu_ = nullptr;

TEST_P(CudaOp, IsNearTheReferenceAndHasTheBitsOfTheCpu) {
  const ir::OpInfo& op = ir::info(GetParam());
  for (DType dtype : dtypes_of(op)) {
    JointGraph joint = joint_graph(op, dtype);
    if (joint.empty()) continue;
    const ir::Graph graph = joint.finish();
    const bool exact = has_fixed_order(graph);
    Executable on_gpu = jit::create(*gpu_, to_public(graph), ir::split_none());
    Executable on_cpu = jit::create(*cpu_, to_public(graph), ir::split_none());
    joint.bind(on_gpu);
    joint.bind(on_cpu);
    on_gpu.evaluate();
    on_cpu.evaluate();
    for (const Expected& e : joint.expected()) {
      const ir::Array actual = to_array(on_gpu.get(e.name));
      EXPECT_TRUE(close(actual, e.value, e.tolerance, e.at_least)) << e.what << ", " << e.name;
      if (exact)
        EXPECT_TRUE(identical(actual, to_array(on_cpu.get(e.name))))
            << e.what << ", " << e.name << ": not the CPU's bits";
    }
  }
}

std::vector<ir::Op> ops_with_samples() {
  std::vector<ir::Op> ops;
  for (const ir::OpInfo& op : ir::all_ops())
    if (!samples_of(op).empty()) ops.push_back(op.op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaOp, ::testing::ValuesIn(ops_with_samples()),
                         [](const ::testing::TestParamInfo<ir::Op>& test) {
                           return std::string(ir::info(test.param).enumerator);
                         });

}  // namespace
}  // namespace riffle::test
