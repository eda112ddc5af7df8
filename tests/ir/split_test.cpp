#include "ir/split.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/passes.h"
#include "tests/support/golden.h"
#include "tests/support/graph_break.h"
#include "tests/support/random_graph.h"
#include "tests/support/sanitizer.h"

namespace riffle::ir {
namespace {

Graph from(std::string_view text) { return parse(text, "test.rfl"); }

/// test::kGraphBreak, returning these values.
Graph experiment(std::string_view returned = "%loss") {
  std::string text = test::kGraphBreak;
  const std::string_view end = "return %loss";
  return from(text.replace(text.find(end), end.size(), "return " + std::string(returned)));
}

/// Names of the compute nodes of each shown partition: "linear|relu linear_1 relu_1|…".
std::string summary(const PartitionedGraph& graph) {
  std::string text;
  for (std::size_t k = 0; k < graph.partitions.size(); ++k) {
    if (k > 0) text += '|';
    bool first = true;
    for (const Node& node : graph.shown(k).nodes) {
      if (!is_compute(node)) continue;
      text += (first ? "" : " ") + node.name;
      first = false;
    }
  }
  return text;
}

std::string summary(const Graph& graph, const SplitPolicy& policy) {
  return summary(split(graph, policy));
}

std::unique_ptr<SplitPolicy> policy(std::initializer_list<std::string> words) {
  return make_split_policy(std::vector<std::string>(words));
}

std::string names(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId v : values) text += (text.empty() ? "" : " ") + graph[v].name;
  return text;
}

/// Every graph verifies, intervals are contiguous, and names and values agree with the whole.
void check(const PartitionedGraph& graph) {
  const Graph& whole = graph.whole;
  std::vector<bool> made(whole.nodes.size(), false);
  for (ValueId v : whole.inputs()) made[static_cast<std::size_t>(v)] = true;
  std::size_t computed = 0;
  std::int32_t last = -1;
  for (ValueId v = 0; v < whole.size(); ++v) {
    const std::int32_t home = graph.partition_of[static_cast<std::size_t>(v)];
    EXPECT_EQ(home >= 0, is_compute(whole[v]));
    if (home < 0) continue;
    EXPECT_GE(home, last) << "partitions are intervals of program order";
    last = home;
  }
  for (std::size_t k = 0; k < graph.partitions.size(); ++k) {
    const Partition& part = graph.partitions[k];
    ASSERT_NO_THROW(verify(part.graph)) << print(part.graph);
    ASSERT_NO_THROW(verify(graph.shown(k)));
    const auto expect_values = [&](const std::vector<ValueId>& here,
                                   const std::vector<ValueId>& there) {
      ASSERT_EQ(here.size(), there.size());
      for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_EQ(part.graph[here[i]].name, whole[there[i]].name);
        EXPECT_EQ(part.graph[here[i]].type, whole[there[i]].type);
        EXPECT_EQ(part.graph[here[i]].program_id, whole[there[i]].program_id);
      }
      EXPECT_TRUE(std::is_sorted(there.begin(), there.end()));
      EXPECT_EQ(std::adjacent_find(there.begin(), there.end()), there.end());
    };
    expect_values(part.graph.inputs(), part.input_values);
    expect_values(part.graph.parameters(), part.parameter_values);
    expect_values(part.graph.outputs, part.output_values);
    for (ValueId v : part.input_values) {
      EXPECT_TRUE(made[static_cast<std::size_t>(v)]) << whole[v].name << " comes too late";
    }
    for (ValueId v : part.output_values) made[static_cast<std::size_t>(v)] = true;
    for (const Node& node : part.graph.nodes) computed += is_compute(node) ? 1 : 0;
  }
  std::size_t expected = 0;
  for (const Node& node : whole.nodes) expected += is_compute(node) ? 1 : 0;
  EXPECT_EQ(computed, expected) << "every node runs once";
  for (ValueId v : whole.outputs) {
    EXPECT_TRUE(made[static_cast<std::size_t>(v)] || whole[v].op == Op::param) << whole[v].name;
  }
}

TEST(Split, NodesMakesTheThreePartitionsOfTheExperiment) {
  const auto graph = split(experiment(), *split_by_nodes(3));
  EXPECT_EQ(summary(graph), "linear|relu linear_1 relu_1|linear_2 relu_2 linear_3");
  EXPECT_EQ(graph.policy, "nodes 3");
  EXPECT_TRUE(graph.has_loss);
  check(graph);
  // The loss runs with the last partition, though it is not shown there.
  const Partition& last = graph.partitions[2];
  EXPECT_EQ(names(last.graph, last.graph.inputs()), "y relu_1");
  EXPECT_EQ(names(last.graph, last.graph.outputs), "loss");
  EXPECT_EQ(names(graph.whole, last.parameter_values),
            "net3.weight net3.bias net4.weight net4.bias");
}

TEST(Split, TablesOfTheExperiment) {
  const auto graph = split(experiment(), *split_by_nodes(3));
  std::string text = format_table(table_rows(graph.whole));
  for (std::size_t k = 0; k < 3; ++k) text += '\n' + format_table(table_rows(graph.shown(k)));
  test::expect_golden(text, "ir/golden/graph_break_partitions.txt");
  test::expect_golden(format_table(graph.stitched_rows()), "ir/golden/graph_break_stitched.txt");
}

TEST(Split, LossNodesAreThoseAfterTheModelsLastOutput) {
  const auto loss_names = [](const Graph& graph) {
    std::string text;
    const std::vector<bool> is_loss = loss_nodes(graph);
    for (ValueId v = 0; v < graph.size(); ++v) {
      if (is_loss[static_cast<std::size_t>(v)]) text += (text.empty() ? "" : " ") + graph[v].name;
    }
    return text;
  };
  EXPECT_EQ(loss_names(experiment()), "loss");
  EXPECT_EQ(loss_names(experiment("%loss, %linear_3")), "loss");
  EXPECT_EQ(loss_names(experiment("%loss, %relu_2")), "linear_3 loss");
  EXPECT_EQ(loss_names(experiment("%loss, %x")), "loss") << "an input returned is no model output";
  EXPECT_EQ(loss_names(experiment("%linear_3, %loss")), "") << "the first output is not a scalar";

  const std::string head = R"(graph @g {
    %x = input : f32[4, 8]
    %t = input : i64[4]
    %w = param : f32[8, 8]
    %h = linear(%x, %w)
  )";
  EXPECT_EQ(loss_names(from(head + R"(
    %l = cross_entropy(%h, %t)
    %half = full([], 0.5)
    %scaled = mul(%l, %half)
    return %scaled
})")),
            "l scaled")
      << "scalar arithmetic after the loss op belongs to it";
  EXPECT_EQ(loss_names(from(head + R"(
    %norm = sum(%w)
    %l = cross_entropy(%h, %t)
    %total = add(%l, %norm)
   
    return %total
})")),
            "l total")
      << "the run begins with a loss op";
  EXPECT_EQ(loss_names(from(head + R"(
    %each = cross_entropy(%h, %t, reduction='none')
    %l = mean(%each)
    return %l
})")),
            "each l");
  EXPECT_EQ(loss_names(from(head + R"(
    %l = mean(%h)
    return %l
})")),
            "")
      << "written out in other ops it is counted like the model";
  EXPECT_EQ(loss_names(from(head + R"(
    %l = cross_entropy(%h, %t)
    %after = relu(%h)
    return %l, %after
})")),
            "");
}

TEST(Split, NodesCountsFromTheOutput) {
  const Graph graph = experiment();
  EXPECT_EQ(summary(graph, *split_by_nodes(7)),
            "linear relu linear_1 relu_1 linear_2 relu_2 linear_3");
  EXPECT_EQ(summary(graph, *split_by_nodes(100)), summary(graph, *split_none()));
  EXPECT_EQ(split(graph, *split_by_nodes(1)).partitions.size(), 7u);
  EXPECT_EQ(summary(graph, *split_by_nodes(6)),
            "linear|relu linear_1 relu_1 linear_2 relu_2 linear_3");
}

TEST(Split, ParamsCutsWhenEnoughParametersAreInside) {
  const Graph graph = experiment();
  EXPECT_EQ(summary(graph, *split_by_params(2)),
            "linear relu|linear_1 relu_1|linear_2 relu_2|linear_3");
  EXPECT_EQ(summary(graph, *split_by_params(1)), summary(graph, *split_by_params(2)));
  EXPECT_EQ(summary(graph, *split_by_params(4)),
            "linear relu linear_1 relu_1|linear_2 relu_2 linear_3");
  EXPECT_EQ(summary(graph, *split_by_params(6)),
            "linear relu|linear_1 relu_1 linear_2 relu_2 linear_3");
  EXPECT_EQ(summary(graph, *split_by_params(9)), summary(graph, *split_none()));
}

TEST(Split, BytesUsesASmallerFirstBucketAtTheOutput) {
  const Graph graph = experiment();  // 32*32*4 + 32*4 = 4224 bytes a layer
  EXPECT_EQ(summary(graph, *split_by_bytes(8448, 4224)),
            "linear relu|linear_1 relu_1 linear_2 relu_2|linear_3");
  EXPECT_EQ(summary(graph, *split_by_bytes(8449, 1)),
            "linear relu linear_1 relu_1 linear_2 relu_2|linear_3");
  EXPECT_EQ(summary(graph, *split_by_bytes(1, 8448)),
            "linear relu|linear_1 relu_1|linear_2 relu_2 linear_3");
  EXPECT_EQ(summary(graph, *split_by_bytes(25 << 20, 1 << 20)), summary(graph, *split_none()));
}

TEST(Split, AFrozenParameterHasNoWeightAndALeadingPieceWithoutWeightIsMerged) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[4, 8]
    %y = input : f32[4, 8]
    %a = param(frozen=True) : f32[8, 8]
    %b = param : f32[8, 8]
    %c = param : f32[8, 8]
    %h = linear(%x, %a)
    %r = relu(%h)
    %i = linear(%r, %b)
    %s = relu(%i)
    %j = linear(%s, %c)
    %loss = mse_loss(%j, %y)
    return %loss
  })");
  EXPECT_EQ(summary(graph, *split_by_params(1)), "h r i s|j");
  EXPECT_EQ(summary(graph, *split_by_bytes(1, 1)), "h r i s|j");
}

TEST(Split, ATiedParameterWeighsWhereItsGradientBecomesReady) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[4, 8]
    %y = input : f32[4, 8]
    %w = param : f32[8, 8]
    %v = param : f32[8, 8]
    %h = linear(%x, %w)
    %i = linear(%h, %v)
    %j = linear(%i, %w)
    %loss = mse_loss(%j, %y)
    return %loss
  })");
  EXPECT_EQ(summary(graph, *split_by_params(1)), "h|i j");
}

TEST(Split, APieceThatNothingOutsideReadsKeepsGrowing) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[4, 8]
    %y = input : f32[4, 8]
    %w = param : f32[8, 8]
    %v = param : f32[8, 8]
    %u = param : f32[8, 8]
    %h = linear(%x, %w)
    %dead = linear(%x, %v)
    %j = linear(%h, %u)
    %loss = mse_loss(%j, %y)
    return %loss
  })");
  EXPECT_EQ(summary(graph, *split_by_params(1)), "h dead|j");
}

TEST(Split, MarkersCutAtBreaksBetweenCountedNodes) {
  const Graph graph = from(R"(graph @g {
    break
    %x = input : f32[4, 8]
    %y = input : f32[4, 8]
    %w = param : f32[8, 8]
    break
    %h = linear(%x, %w)
    break
    break
    %r = relu(%h)
    %i = linear(%r, %w)
    break
    %s = relu(%i)
    break
    %loss = mse_loss(%s, %y)
    return %loss
  })");
  EXPECT_EQ(summary(graph, *split_at_markers()), "h|r i|s");
  check(split(graph, *split_at_markers()));
  EXPECT_EQ(summary(graph, *split_none()), "h r i s");
}

TEST(Split, ExplicitCutsMayLeaveAPartitionEmpty) {
  const Graph graph = experiment();
  EXPECT_EQ(summary(graph, *split_at({2, 2, 5})),
            "linear relu||linear_1 relu_1 linear_2|relu_2 linear_3");
  EXPECT_EQ(summary(graph, *split_at({0})),
            "|linear relu linear_1 relu_1 linear_2 relu_2 linear_3");
  // Past the model: the loss alone.
  const auto loss_alone = split(graph, *split_at({7}));
  EXPECT_EQ(summary(loss_alone), "linear relu linear_1 relu_1 linear_2 relu_2 linear_3|");
  EXPECT_EQ(names(loss_alone.whole, loss_alone.partitions[1].input_values), "y linear_3");
  for (const auto& cuts : std::vector<std::vector<std::size_t>>{{0, 0, 2, 2, 7, 7}, {5, 1}}) {
    check(split(graph, *split_at(cuts)));
  }
}

TEST(Split, ACutBeyondTheModelIsRefused) {
  const Graph graph = experiment();
  for (const auto& cuts : std::vector<std::vector<std::size_t>>{{8}, {1000, 2}}) try {
      split(graph, *split_at(cuts));
      ADD_FAILURE() << "not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("the model has 7 compute nodes"), std::string::npos)
          << error.what();
      EXPECT_EQ(error.hint().substr(0, 7), "0 to 7;") << error.hint();
    }
}

TEST(Split, EveryKindOfValueMayCross) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[4, 8]
    %i = input : i64[4]
    %empty = input : f32[0, 8]
    %w = param : f32[8, 8]
    %two = full([], 2.0)
    %h = linear(%x, %w)
    %best = argmax(%h, 1)
    %mask = gt(%h, %x)
    %mean = mean(%h)
    %none = mul(%empty, %two)
    %chosen = where(%mask, %h, %x)
    %scaled = mul(%chosen, %mean)
    %rows = embedding(%best, %w)
    %again = linear(%scaled, %w)
    %sum = add(%again, %rows)
    %nothing = sum(%none)
    %all = mean(%sum)
    %loss = add(%all, %nothing)
    return %loss, %x, %h, %h, %two, %w, %best, %mask, %none, %sum
  })");
  for (std::size_t cut = 0; cut <= 10; ++cut) check(split(graph, *split_at({cut})));
  const auto single = split(graph, *split_by_nodes(1));
  check(single);
  // Constants are copied to their users, never passed; the returned one comes from the last.
  const auto h_home = single.partition_of[static_cast<std::size_t>(graph.find("h"))];
  EXPECT_EQ(names(graph, single.partitions[static_cast<std::size_t>(h_home)].output_values), "h");
  EXPECT_EQ(names(graph, single.partitions.back().output_values), "two sum loss");
  for (const Partition& part : single.partitions) {
    for (ValueId v : part.input_values) EXPECT_NE(graph[v].name, "two");
  }
}

TEST(Split, AGraphWithoutComputeNodesIsOneEmptyPartition) {
  const Graph graph =
      from("graph @g {\n %x = input : f32[4]\n %w = param : f32[]\n return %w, %x\n}");
  for (const auto& p : {policy({"none"}), policy({"nodes", "1"}), policy({"markers"}),
                        policy({"params", "1"}), policy({"bytes", "1"})}) {
    const auto result = split(graph, *p);
    EXPECT_EQ(result.partitions.size(), 1u) << p->describe();
    EXPECT_TRUE(result.has_loss);
    check(result);
    EXPECT_FALSE(result.stitched_rows().empty());
  }
}

TEST(Split, HasLossNeedsAFloatingScalarThatDependsOnSomethingTrainable) {
  const auto has_loss = [](std::string_view text) {
    return split(from(text), *split_none()).has_loss;
  };
  EXPECT_TRUE(has_loss("graph @g {\n %w = param : f32[4] \n %l = sum(%w)\n return %l\n}"));
  EXPECT_TRUE(has_loss(
      "graph @g {\n %w = input(requires_grad=True) : f32[4] \n %l = sum(%w)\n return %l\n}"));
  EXPECT_FALSE(
      has_loss("graph @g {\n %w = param(frozen=True) : f32[4] \n %l = sum(%w)\n return %l\n}"));
  EXPECT_FALSE(has_loss("graph @g {\n %w = param : f32[4] \n %l = relu(%w)\n return %l\n}"));
}

TEST(Split, RandomGraphsAtEveryCut) {
  for (std::uint64_t seed = 0; seed < test::cases(300); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = test::random_graph(seed);
    ASSERT_NO_THROW(verify(graph)) << print(graph);
    const std::size_t nodes = split(graph, *split_by_nodes(1)).partitions.size();
    for (std::size_t cut = 0; cut <= nodes; ++cut) check(split(graph, *split_at({cut})));
    for (const auto& p : {policy({"nodes", "1"}), policy({"nodes", "3"}), policy({"markers"}),
                          policy({"params", "1"}), policy({"bytes", "100", "--first", "20"})}) {
      const auto result = split(graph, *p);
      check(result);
      result.stitched_rows();
    }
    if (HasFailure()) FAIL() << print(graph);
  }
}

void expect_usage_error(std::initializer_list<std::string> words, std::string_view text) {
  try {
    make_split_policy(std::vector<std::string>(words));
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(SplitPolicies, AreMadeFromWords) {
  EXPECT_EQ(policy({"none"})->describe(), "none");
  EXPECT_EQ(policy({"nodes", "3"})->describe(), "nodes 3");
  EXPECT_EQ(policy({"params", "12"})->describe(), "params 12");
  EXPECT_EQ(policy({"bytes", "25MiB"})->describe(), "bytes 26214400 --first 1048576");
  EXPECT_EQ(policy({"bytes", "--first", "512k", "1GB"})->describe(),
            "bytes 1000000000 --first 524288");
  EXPECT_EQ(policy({"markers"})->describe(), "markers");
  EXPECT_EQ(policy({"at", "1", "4"})->describe(), "at 1 4");
}

TEST(SplitPolicies, SayWhatWouldFit) {
  expect_usage_error({}, "split nodes N");
  expect_usage_error({"frobnicate"}, "no split policy 'frobnicate'");
  expect_usage_error({"nodes"}, "split nodes needs N");
  expect_usage_error({"nodes", "0"}, "at least 1, not 0");
  expect_usage_error({"nodes", "-3"}, "at least 1, not -3");
  expect_usage_error({"nodes", "three"}, "three is not a whole number");
  expect_usage_error({"nodes", "3.5"}, "not a whole number");
  expect_usage_error({"nodes", "3", "4"}, "takes 1 argument, not 2");
  expect_usage_error({"nodes", "99999999999999999999"}, "not a whole number");
  expect_usage_error({"params", "0"}, "at least 1");
  expect_usage_error({"bytes"}, "split bytes CAP [--first BYTES]");
  expect_usage_error({"bytes", "0"}, "at least 1");
  expect_usage_error({"bytes", "1MiB", "--first", "0"}, "at least 1");
  expect_usage_error({"bytes", "1MiB", "--first"}, "--first needs a value");
  expect_usage_error({"bytes", "1MiB", "--last", "1"}, "no option --last");
  expect_usage_error({"bytes", "10parsec"}, "not a number of bytes");
  expect_usage_error({"bytes", "9999999999GiB"}, "not a number of bytes");
  expect_usage_error({"none", "1"}, "takes 0 arguments");
  expect_usage_error({"at", "-1"}, "cannot be at -1");
}

TEST(SplitPolicies, HaveHelp) {
  for (const SplitPolicyInfo& row : split_policies()) {
    EXPECT_FALSE(row.help.empty()) << row.name;
    for (const SplitArgument& argument : row.arguments) EXPECT_FALSE(argument.help.empty());
  }
}

}  // namespace
}  // namespace riffle::ir
