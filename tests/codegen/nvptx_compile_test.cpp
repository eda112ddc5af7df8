// Every op in every dtype becomes PTX that ptxas takes, for every GPU in the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/kernel_spec.h"
#include "codegen/nvptx/nvptx_codegen.h"
#include "ir/builder.h"
#include "ir/passes.h"
#include "ptxas.h"
#include "riffle/error.h"
#include "tests/support/op_samples.h"

namespace riffle::codegen {
namespace {

/// All samples of all ops that take `dtype`, in one graph.
ir::Graph graph_of_everything(DType dtype) {
  ir::Builder builder("everything");
  std::vector<ir::Value> results;
  int inputs = 0;
  for (const ir::OpInfo& op : ir::all_ops()) {
    const std::vector<DType> dtypes = test::tested_dtypes(op);
    if (std::ranges::find(dtypes, dtype) == dtypes.end()) continue;
    for (const ir::Sample& sample : test::samples_of(op)) {
      std::vector<ir::Value> values;
      for (const TensorType& type : test::operand_types(sample, dtype))
        values.push_back(builder.append_source(ir::Op::input, type, fmt::format("x{}", inputs++)));
      results.push_back(builder.append(op.op, values, sample.attrs));
    }
  }
  return ir::lower_to_primitives(builder.finish(results));
}

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

TEST(NvptxCompile, EveryOpInEveryDTypeAssembles) {
  const std::string ptxas = test::find_ptxas();
  for (DType dtype : kDTypes) {
    const KernelProgram program = build_kernels(graph_of_everything(dtype));
    ASSERT_GT(program.kernels.size(), 10U) << name_of(dtype);
    // One GPU a dtype here; f32, which most kernels share, for each of them.
    for (int sm : dtype == DType::f32 ? std::vector{75, 80, 86, 89, 90} : std::vector{75, 90}) {
      const std::string ptx = nvptx_text(program, nvptx_target(sm, 0), "p_").ptx;
      EXPECT_EQ(ptx.find("__local_depot"), std::string::npos) << name_of(dtype) << " sm_" << sm;
      EXPECT_EQ(ptx.find(".ftz"), std::string::npos);
      if (ptxas.empty()) continue;
      // Assembling is dear: -O0 checks the text.
      const test::Assembled result = test::assemble(ptxas, ptx, sm, 0);
      EXPECT_TRUE(result.accepted) << name_of(dtype) << " sm_" << sm << '\n'
                                   << result.messages.substr(0, 4000);
    }
  }
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas in $PATH or /usr/local/cuda*/bin: not assembled";
}

}  // namespace
}  // namespace riffle::codegen
