// How much planning looks at: in proportion to the graph, and never a stack frame a node.
#include "codegen/fusion_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "codegen/kernel_spec.h"
#include "ir/autodiff.h"
#include "ir/text.h"

namespace riffle::codegen {
namespace {

ir::PartitionGradient gradient_of(const std::string& body) {
  const ir::Graph graph = ir::parse("graph @g {\n" + body + "\n}", "test.rfl");
  return ir::differentiate(ir::split(graph, *ir::split_none())).partitions[0];
}

/// Σ pᵢ², tiny parameters or not: tiny ones share kernels whatever they have in common.
std::string sum_of_parameters(int count, const std::string& shape) {
  std::string body;
  for (int i = 0; i < count; ++i)
    body += fmt::format("%p{0} = param : f32[{1}]\n%q{0} = mul(%p{0}, %p{0})\n", i, shape);
  body += "%s1 = add(%q0, %q1)\n";
  for (int i = 2; i < count; ++i) body += fmt::format("%s{} = add(%s{}, %q{})\n", i, i - 1, i);
  return body + fmt::format("%l = sum(%s{})\nreturn %l", count - 1);
}

std::string mixed_chain(int count) {
  std::string body = "%x = param : f32[64, 64]\n%w = param : f32[64, 64]\n%y0 = mul(%x, %w)\n";
  for (int i = 1; i <= count; ++i) {
    if (i % 10 == 3)
      body += fmt::format("%y{} = tanh(%y{})\n", i, i - 1);
    else if (i % 10 == 5)
      body += fmt::format("%m{0} = mean(%y{1}, [1], True)\n%y{0} = sub(%y{1}, %m{0})\n", i, i - 1);
    else if (i % 10 == 7)
      body += fmt::format("%y{} = permute(%y{}, [1, 0])\n", i, i - 1);
    else if (i % 50 == 9)
      body += fmt::format("%y{} = matmul(%y{}, %w)\n", i, i - 1);
    else
      body += fmt::format("%y{} = {}(%y{}, {})\n", i, i % 2 ? "mul" : "add", i - 1,
                          i % 2 ? "%w" : "%x");
  }
  return body + fmt::format("%l = sum(%y{})\nreturn %l", count);
}

double work_per_node(const ir::Graph& graph) {
  const PlanWork work = FusionPlan(graph, {}).work();
  return static_cast<double>(work.joins + work.walked + work.visits) /
         static_cast<double>(graph.size());
}

double work_per_node(const std::string& body) {
  const ir::PartitionGradient gradient = gradient_of(body);
  return std::max(work_per_node(gradient.forward), work_per_node(gradient.backward));
}

TEST(FusionPlan, ATwiceLargerSumIsTwiceTheWork) {
  for (const char* shape : {"64", "256, 256"}) {
    const double small = work_per_node(sum_of_parameters(500, shape));
    const double large = work_per_node(sum_of_parameters(2000, shape));
    EXPECT_LT(large, 1.2 * small) << shape;
    EXPECT_LT(large, 500) << shape;
  }
}

TEST(FusionPlan, ATwiceLongerChainIsTwiceTheWork) {
  const double small = work_per_node(mixed_chain(750));
  const double large = work_per_node(mixed_chain(3000));
  EXPECT_LT(large, 1.2 * small);
  EXPECT_LT(large, 2000);
}

TEST(FusionPlan, NoKernelReadsHundredsOfOperands) {
  // A tree, so that no chain is long: 400 parameters below one output.
  std::string body;
  int values = 0;
  std::vector<int> level;
  for (; values < 400; ++values) {
    body += fmt::format("%v{} = param : f32[64]\n", values);
    level.push_back(values);
  }
  while (level.size() > 1) {
    std::vector<int> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      body += fmt::format("%v{} = add(%v{}, %v{})\n", values, level[i], level[i + 1]);
      next.push_back(values++);
    }
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = next;
  }
  const ir::Graph graph =
      ir::parse("graph @g {\n" + body + fmt::format("return %v{}\n}}", level.front()), "test.rfl");
  const KernelProgram program = build_kernels(graph, {});
  verify(program);
  for (const KernelSpec& kernel : program.kernels)
    EXPECT_LE(kernel.operands.size(), 2 * FusionLimits::kOperands + 1) << kernel.name;
}

TEST(FusionPlan, NoKernelComputesAllOfAWideExpression) {
  // One parameter, so that operands do not limit it; a tree, so that depth does not.
  std::string body = "%x = param : f32[64]\n";
  int values = 0;
  std::vector<int> level;
  for (int i = 0; i < 256; ++i) {
    body += fmt::format("%c{0} = full([], {0})\n%m{0} = mul(%x, %c{0})\n%v{1} = sin(%m{0})\n", i,
                        values);
    level.push_back(values++);
  }
  while (level.size() > 1) {
    std::vector<int> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      body += fmt::format("%v{} = add(%v{}, %v{})\n", values, level[i], level[i + 1]);
      next.push_back(values++);
    }
    level = next;
  }
  const ir::Graph graph =
      ir::parse("graph @g {\n" + body + fmt::format("return %v{}\n}}", level.front()), "test.rfl");
  const KernelProgram program = build_kernels(graph, {});
  verify(program);
  for (const KernelSpec& kernel : program.kernels) {
    std::size_t weight = 0;
    for (const Expr& expr : std::get<LoopBody>(kernel.body).exprs)
      if (expr.kind == Expr::Kind::op) weight += op_weight(expr.op);
    EXPECT_LE(weight, FusionLimits::kWeight) << kernel.name;
  }
}

TEST(GroupGraph, RefusesCyclesAndSortsDependenciesFirst) {
  GroupGraph graph;
  for (int g = 0; g < 4; ++g) EXPECT_EQ(graph.add(), g);
  graph.depend(2, 1);
  EXPECT_TRUE(graph.may_depend(0, 2));
  graph.depend(0, 2);  // against the order in which they were made
  EXPECT_FALSE(graph.may_depend(1, 0));
  EXPECT_FALSE(graph.may_depend(2, 0));
  EXPECT_FALSE(graph.may_depend(1, 1));
  EXPECT_TRUE(graph.may_depend(3, 0));
  graph.depend(1, 3);
  EXPECT_FALSE(graph.may_depend(3, 0));
  EXPECT_EQ(graph.sorted({}), (std::vector<int>{3, 1, 2, 0}));
  EXPECT_EQ(graph.sorted({2}), (std::vector<int>{3, 1, 2, 0}));
}

TEST(GroupGraph, AChainIsSortedWithoutAFrameAGroup) {
  constexpr int kGroups = 300000;  // by recursion, tens of megabytes of stack
  GroupGraph graph;
  for (int g = 0; g < kGroups; ++g) {
    graph.add();
    if (g > 0) graph.depend(g, g - 1);
  }
  const std::vector<int> sorted = graph.sorted({kGroups - 1});
  ASSERT_EQ(sorted.size(), static_cast<std::size_t>(kGroups));
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(GroupGraph, GivesUpRatherThanSearchEverything) {
  GroupGraph graph;
  const int first = graph.add();
  int last = graph.add();
  for (std::size_t g = 0; g < 2 * GroupGraph::kMaximumVisits; ++g) {
    const int next = graph.add();
    graph.depend(next, last);
    last = next;
  }
  EXPECT_FALSE(graph.may_depend(first, last));
  EXPECT_LE(graph.visits(), GroupGraph::kMaximumVisits + 1);
  EXPECT_TRUE(graph.may_depend(graph.add(), last));
}

}  // namespace
}  // namespace riffle::codegen
