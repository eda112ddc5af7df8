// Golden kernels: those of an MLP partition, forward and backward, and one body of each kind.
#include <gtest/gtest.h>

#include "codegen/kernel_spec.h"
#include "ir/autodiff.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "tests/support/golden.h"

namespace riffle::codegen {
namespace {

TEST(KernelPrint, MlpPartition) {
  const ir::Graph graph = ir::parse(R"(graph @mlp {
    %x = input : f32[8, 32]
    %y = input : f32[8, 32]
    %net1.weight = param : f32[32, 32]
    %net1.bias = param : f32[32]
    %net2.weight = param : f32[32, 32]
    %net2.bias = param : f32[32]
    %linear = linear(%x, %net1.weight, %net1.bias)
    %relu = relu(%linear)
    %linear_1 = linear(%relu, %net2.weight, %net2.bias)
    %loss = mse_loss(%linear_1, %y)
    return %loss
  })",
                                    "test.rfl");
  const ir::DifferentiatedGraph gradient = ir::differentiate(ir::split(graph, *ir::split_none()));
  const ir::PartitionGradient& part = gradient.partitions[0];
  test::expect_golden(print(build_kernels(ir::lower_to_primitives(part.forward))),
                      "codegen/golden/mlp_forward.txt");
  test::expect_golden(print(build_kernels(ir::lower_to_primitives(part.backward))),
                      "codegen/golden/mlp_backward.txt");
}

TEST(KernelPrint, EachKindOfBody) {
  const ir::Graph graph = ir::parse(R"(graph @kinds {
    %x = input : f32[64, 40]
    %i = input : i64[64, 1]
    %w = input : bf16[2, 40, 8]
    %soft = softmax(%x, -1)
    %wide = to(%w, f32)
    %matmul = matmul(%x, %wide)
    %padded = pad(%x, [0, 1], [2, 0], -1.0)
    %picked = gather(%x, 1, %i)
    %zeros = full([64, 40], 0.0)
    %scattered = scatter_add(%zeros, 1, %i, %picked)
    return %soft, %matmul, %padded, %picked, %scattered
  })",
                                    "test.rfl");
  test::expect_golden(print(build_kernels(ir::lower_to_primitives(graph))),
                      "codegen/golden/kinds.txt");
}

}  // namespace
}  // namespace riffle::codegen
