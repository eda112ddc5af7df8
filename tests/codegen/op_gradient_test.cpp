// The gradient of every op as kernels compute it, in each dtype, against the rule in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/evaluator.h"
#include "ir/passes.h"
#include "kernel_run.h"
#include "tests/support/op_samples.h"
#include "tests/support/tolerance.h"

namespace riffle::test {
namespace {

class OpGradient : public ::testing::TestWithParam<ir::Op> {};

TEST_P(OpGradient, IsNearTheReference) {
  const ir::OpInfo& op = ir::info(GetParam());
  Random random(7);
  for (DType dtype : tested_dtypes(op))
    for (const ir::Sample& sample : samples_of(op)) {
      const auto wanted = differentiable_operands(op, sample, dtype);
      if (wanted.empty()) continue;
      SCOPED_TRACE(describe(op, sample, dtype));
      const ir::Graph gradient = gradient_graph(op, sample, dtype, wanted);
      std::vector<ir::Array> arguments = random_operands(sample, dtype, random);
      std::int64_t terms = 1;
      for (const ir::Array& operand : arguments) terms = std::max(terms, operand.type.elements());
      const ir::Graph forward = sample_graph(op, sample, dtype);
      arguments.push_back(random_array(forward[forward.outputs[0]].type, random));
      double cotangent = 0;
      for (double c : arguments.back().data) cotangent = std::max(cotangent, std::fabs(c));

      const std::vector<ir::Array> expected = ir::evaluate(gradient, arguments);
      const auto actual = run_kernels(ir::lower_to_primitives(gradient), arguments, true);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const TensorType& type = expected[i].type;
        EXPECT_TRUE(close(ir::array_from_bytes(type, actual[i]), expected[i],
                          tolerance(type.dtype, terms), cotangent))
            << "operand " << wanted[i];
      }
    }
}

std::vector<ir::Op> differentiable_ops() {
  std::vector<ir::Op> ops;
  for (const ir::OpInfo& op : ir::all_ops())
    if (!op.has(ir::kNotDifferentiable) && !samples_of(op).empty() &&
        op.family != ir::OpFamily::source)
      ops.push_back(op.op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Kernels, OpGradient, ::testing::ValuesIn(differentiable_ops()),
                         [](const ::testing::TestParamInfo<ir::Op>& test) {
                           return std::string(ir::info(test.param).enumerator);
                         });

}  // namespace
}  // namespace riffle::test
