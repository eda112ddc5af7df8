#include "ir/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/evaluator.h"
#include "ir/hash.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "tests/support/graph_break.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_runner.h"
#include "tests/support/sanitizer.h"

namespace riffle::ir {
namespace {

Graph from(std::string_view text) { return parse(text, "test.rfl"); }

const char* const kClassifier = R"(graph @classifier {
  %x      = input : f32[6, 16]
  %target = input : i64[6]
  %fc1.w  = param : f32[12, 16]
  %fc1.b  = param : f32[12]
  %fc2.w  = param : f32[10, 12]
  %fc2.b  = param : f32[10]
  %h      = linear(%x, %fc1.w, %fc1.b)
  %a      = gelu(%h)
  %logits = linear(%a, %fc2.w, %fc2.b)
  %loss   = cross_entropy(%logits, %target)
  return %loss, %logits
})";

// One block of a transformer; the embedding is tied to the output layer.
const char* const kTransformer = R"(graph @transformer {
  %tokens    = input : i64[2, 4]
  %target    = input : i64[8]
  %wte       = param : f32[11, 8]
  %ln1.w     = param : f32[8]
  %ln1.b     = param : f32[8]
  %q.w       = param : f32[8, 8]
  %k.w       = param : f32[8, 8]
  %v.w       = param : f32[8, 8]
  %out.w     = param : f32[8, 8]
  %out.b     = param : f32[8]
  %ln2.w     = param : f32[8]
  %ln2.b     = param : f32[8]
  %up.w      = param : f32[16, 8]
  %up.b      = param : f32[16]
  %down.w    = param : f32[8, 16]
  %down.b    = param : f32[8]
  %x0        = embedding(%tokens, %wte)
  %n1        = layer_norm(%x0, [8], %ln1.w, %ln1.b)
  %q         = linear(%n1, %q.w)
  %k         = linear(%n1, %k.w)
  %v         = linear(%n1, %v.w)
  %attention = scaled_dot_product_attention(%q, %k, %v, is_causal=True)
  %projected = linear(%attention, %out.w, %out.b)
  %x1        = add(%x0, %projected)
  %n2        = layer_norm(%x1, [8], %ln2.w, %ln2.b)
  %up        = linear(%n2, %up.w, %up.b)
  %act       = gelu(%up, approximate='tanh')
  %down      = linear(%act, %down.w, %down.b)
  %x2        = add(%x1, %down)
  %flat      = reshape(%x2, [8, 8])
  %logits    = linear(%flat, %wte)
  %loss      = cross_entropy(%logits, %target)
  return %loss
})";

std::string names(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId v : values) text += (text.empty() ? "" : " ") + graph[v].name;
  return text;
}

/// What every result must satisfy, however the graph was split.
void check(const PartitionedGraph& graph, const DifferentiatedGraph& result) {
  ASSERT_EQ(result.partitions.size(), graph.partitions.size());
  const auto only_primitives = [](const Graph& g) {
    ASSERT_NO_THROW(verify(g)) << print(g);
    for (const Node& node : g.nodes) EXPECT_NE(info(node.op).family, OpFamily::composite);
  };
  for (std::size_t k = 0; k < result.partitions.size(); ++k) {
    const PartitionGradient& part = result.partitions[k];
    const Partition& partition = graph.partitions[k];
    only_primitives(part.forward);
    only_primitives(part.backward);
    // Forward: the partition's sources, its results, then residuals, each once.
    EXPECT_EQ(names(part.forward, part.forward.inputs()),
              names(partition.graph, partition.graph.inputs()));
    EXPECT_EQ(names(part.forward, part.forward.parameters()),
              names(partition.graph, partition.graph.parameters()));
    EXPECT_EQ(part.forward_results, partition.output_values.size());
    ASSERT_GE(part.forward.outputs.size(), part.forward_results);
    std::vector<ValueId> residuals(
        part.forward.outputs.begin() + static_cast<std::ptrdiff_t>(part.forward_results),
        part.forward.outputs.end());
    std::int64_t bytes = 0;
    for (ValueId v : residuals) {
      bytes += part.forward[v].type.bytes();
      EXPECT_TRUE(is_compute(part.forward[v])) << "inputs and constants need not be saved";
    }
    EXPECT_EQ(bytes, part.residual_bytes);
    std::sort(residuals.begin(), residuals.end());
    EXPECT_EQ(std::adjacent_find(residuals.begin(), residuals.end()), residuals.end());

    // Backward: everything that it takes is used, and is what it says.
    const std::vector<ValueId> inputs = part.backward.inputs();
    ASSERT_EQ(inputs.size(), part.backward_inputs.size());
    ASSERT_EQ(part.backward.outputs.size(), part.backward_outputs.size());
    EXPECT_TRUE(part.backward.parameters().empty());
    const auto users = users_of(part.backward);
    std::size_t residuals_read = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const BackwardValue& what = part.backward_inputs[i];
      const Node& node = part.backward[inputs[i]];
      EXPECT_TRUE(!users[static_cast<std::size_t>(inputs[i])].empty() ||
                  std::count(part.backward.outputs.begin(), part.backward.outputs.end(), inputs[i]))
          << node.name;
      switch (what.kind) {
        case BackwardValue::Kind::residual:
          ++residuals_read;
          ASSERT_LT(what.forward_output, part.forward.outputs.size());
          ASSERT_GE(what.forward_output, part.forward_results);
          EXPECT_EQ(node.type, part.forward[part.forward.outputs[what.forward_output]].type);
          break;
        case BackwardValue::Kind::primal:
          EXPECT_EQ(node.name, graph.whole[what.whole].name);
          EXPECT_EQ(node.type, graph.whole[what.whole].type);
          break;
        case BackwardValue::Kind::cotangent:
          EXPECT_EQ(node.type, graph.whole[what.whole].type);
          break;
      }
    }
    EXPECT_EQ(residuals_read, residuals.size());
    for (std::size_t i = 0; i < part.backward_outputs.size(); ++i) {
      EXPECT_EQ(part.backward_outputs[i].kind, BackwardValue::Kind::cotangent);
      EXPECT_EQ(part.backward[part.backward.outputs[i]].type,
                graph.whole[part.backward_outputs[i].whole].type);
    }
  }
  ASSERT_EQ(result.ready_in.size(), result.gradient_parameters.size());
  EXPECT_TRUE(std::is_sorted(result.ready_in.rbegin(), result.ready_in.rend()));
  for (std::size_t i = 0; i < result.ready_in.size(); ++i) {
    const ValueId p = result.gradient_parameters[i];
    for (std::size_t k = 0; k < result.partitions.size(); ++k) {
      for (const BackwardValue& output : result.partitions[k].backward_outputs) {
        if (output.whole == p) EXPECT_GE(k, result.ready_in[i]) << "the last is the earliest";
      }
    }
  }
}

struct Outcome {
  PartitionedGraph graph;
  DifferentiatedGraph differentiated;
  test::ReferenceStep step;
};

Outcome run(const Graph& graph, const SplitPolicy& policy, const std::vector<Array>& arrays) {
  Outcome result{split(graph, policy), {}, {}};
  result.differentiated = differentiate(result.graph);
  check(result.graph, result.differentiated);
  result.step = test::run_reference(result.graph, result.differentiated, arrays);
  return result;
}

Outcome run(const Graph& graph, const SplitPolicy& policy, std::uint64_t seed = 1) {
  return run(graph, policy, test::random_arrays(graph, seed));
}

void expect_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.step.outputs.size(), b.step.outputs.size());
  for (std::size_t i = 0; i < a.step.outputs.size(); ++i) {
    EXPECT_TRUE(test::identical(a.step.outputs[i], b.step.outputs[i])) << "output " << i;
  }
  EXPECT_EQ(a.step.ready_order, b.step.ready_order);
  EXPECT_EQ(a.differentiated.gradient_parameters, b.differentiated.gradient_parameters);
  EXPECT_EQ(a.differentiated.gradient_inputs, b.differentiated.gradient_inputs);
  EXPECT_EQ(a.differentiated.unused_parameters, b.differentiated.unused_parameters);
  ASSERT_EQ(a.step.gradients.size(), b.step.gradients.size());
  for (const auto& [name, gradient] : a.step.gradients) {
    EXPECT_TRUE(test::identical(gradient, b.step.gradients.at(name))) << "gradient of " << name;
  }
}

/// ⟨gradient, t⟩ against a central difference of the loss along t. In double, with steps of 1e-5,
/// truncation is about 1e-10 and cancellation 1e-11 of the loss: 1e-6 leaves room for curvature.
void expect_gradients(const Graph& graph, std::uint64_t seed) {
  const std::vector<Array> arrays = test::random_arrays(graph, seed);
  const Outcome split_none_run = run(graph, *split_none(), arrays);
  std::vector<ValueId> sources = graph.inputs();
  for (ValueId p : graph.parameters()) sources.push_back(p);
  test::Random random(seed + 1000);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& name = graph[sources[i]].name;
    const auto gradient = split_none_run.step.gradients.find(name);
    if (gradient == split_none_run.step.gradients.end()) continue;
    constexpr double step = 1e-5;
    std::vector<Array> up = arrays, down = arrays;
    double along = 0;
    for (std::size_t e = 0; e < arrays[i].data.size(); ++e) {
      const double t = random.uniform(-1, 1);
      up[i].data[e] += step * t;
      down[i].data[e] -= step * t;
      along += gradient->second.data[e] * t;
    }
    const double difference =
        (evaluate(graph, up)[0].data[0] - evaluate(graph, down)[0].data[0]) / (2 * step);
    EXPECT_NEAR(along, difference, 1e-6 * std::max(1.0, std::abs(difference))) << name;
  }
}

TEST(Autodiff, GradientsOfTheModelsAreTheLimitsOfDifferences) {
  for (const char* text : {test::kGraphBreak, kClassifier, kTransformer}) {
    const Graph graph = from(text);
    SCOPED_TRACE(graph.name);
    for (std::uint64_t seed : {1, 2}) expect_gradients(graph, seed);
    const auto result = differentiate(split(graph, *split_none()));
    EXPECT_EQ(result.gradient_parameters.size(), graph.parameters().size());
  }
}

TEST(Autodiff, ModelsAreTheSameAtEveryCut) {
  for (const char* text : {test::kGraphBreak, kClassifier, kTransformer}) {
    const Graph graph = from(text);
    SCOPED_TRACE(graph.name);
    const Outcome whole = run(graph, *split_none());
    for (std::int64_t n : {1, 2, 3, 5}) expect_same(whole, run(graph, *split_by_nodes(n)));
    expect_same(whole, run(graph, *split_by_params(1)));
  }
}

TEST(Autodiff, RandomGraphsAreTheSameAtEveryCut) {
  for (std::uint64_t seed = 0; seed < test::cases(200); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = test::random_graph(seed);
    const std::vector<Array> arrays = test::random_arrays(graph, seed);
    const Outcome whole = run(graph, *split_none(), arrays);
    std::size_t nodes = 0;
    const std::vector<bool> is_loss = loss_nodes(graph);
    for (ValueId v = 0; v < graph.size(); ++v) {
      nodes += is_compute(graph[v]) && !is_loss[static_cast<std::size_t>(v)] ? 1 : 0;
    }
    for (std::size_t cut = 0; cut <= nodes; ++cut) {
      expect_same(whole, run(graph, *split_at({cut}), arrays));
    }
    expect_same(whole, run(graph, *split_by_nodes(1), arrays));
    test::Random random(seed);
    for (int i = 0; i < 4; ++i) {
      std::vector<std::size_t> cuts;
      for (std::size_t cut = 0; cut <= nodes; ++cut) {
        while (random.chance(0.35)) cuts.push_back(cut);
      }
      expect_same(whole, run(graph, *split_at(cuts), arrays));
    }
    if (HasFailure()) FAIL() << print(graph);
  }
}

TEST(Autodiff, GradientsOfTheExperimentAreReadyInTheOrderOfItsHooks) {
  const Graph graph = from(test::kGraphBreak);
  const auto result = differentiate(split(graph, *split_by_nodes(3)));
  EXPECT_EQ(names(graph, result.gradient_parameters),
            "net4.bias net4.weight net3.bias net3.weight net2.bias net2.weight net1.bias "
            "net1.weight");
  EXPECT_EQ(result.ready_in, (std::vector<std::size_t>{2, 2, 2, 2, 1, 1, 0, 0}));
}

std::size_t count(const Graph& graph, Op op) {
  return static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                                [&](const Node& node) { return node.op == op; }));
}

TEST(Residuals, OfAnMlpAreTheActivationsOnceEach) {
  const Graph graph = from(test::kGraphBreak);
  const auto result = differentiate(split(graph, *split_none()));
  const PartitionGradient& part = result.partitions[0];
  // Three activations and what the loss compares, 8 × 32 floats each; not what was before a relu.
  EXPECT_EQ(part.residual_bytes, 4 * 8 * 32 * 4) << print(part.forward);
  EXPECT_EQ(count(part.forward, Op::matmul), 4u);
  EXPECT_EQ(count(part.backward, Op::matmul), 7u) << "no product is computed twice, nor that of x";
}

TEST(Residuals, WhatAPartitionReadsIsReadAgain) {
  const Graph graph = from(test::kGraphBreak);
  const auto result = differentiate(split(graph, *split_by_nodes(3)));
  // {linear}: x is read again, and the only result is not needed.
  EXPECT_EQ(result.partitions[0].residual_bytes, 0);
  // {relu linear_1 relu_1}: relu comes from the input again; relu_1 is kept by the next one anyway.
  EXPECT_EQ(result.partitions[1].residual_bytes, 8 * 32 * 4);
  ASSERT_EQ(result.partitions[1].backward_inputs.size(), 4u)
      << print(result.partitions[1].backward);
  // {linear_2 relu_2 linear_3 loss}: relu_2 and the loss's difference.
  EXPECT_EQ(result.partitions[2].residual_bytes, 2 * 8 * 32 * 4);
}

TEST(Residuals, ElementwiseChainsAreComputedAgain) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[16, 8]
    %w = param : f32[8, 8]
    %v = param : f32[8, 8]
    %h = linear(%x, %w)
    %s = sigmoid(%h)
    %t = mul(%s, %h)
    %u = exp(%t)
    %a = tanh(%u)
    %o = linear(%a, %v)
    %loss = sum(%o)
    return %loss
  })");
  const auto result = differentiate(split(graph, *split_none()));
  // Five functions of one product: the product is enough.
  EXPECT_EQ(result.partitions[0].residual_bytes, 16 * 8 * 4) << print(result.partitions[0].forward);
  EXPECT_GE(count(result.partitions[0].backward, Op::tanh), 1u);
  expect_gradients(graph, 1);
}

TEST(Residuals, AMaskIsSavedWhereItIsEnough) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[16, 8]
    %w = param : f32[8, 8]
    %h = linear(%x, %w)
    %r = relu(%h)
    %loss = sum(%r)
    return %loss
  })");
  const auto result = differentiate(split(graph, *split_none()));
  EXPECT_EQ(result.partitions[0].residual_bytes, 16 * 8) << print(result.partitions[0].forward);
}

TEST(Residuals, ALaterPartitionsInputIsTheOneToKeep) {
  // h or tanh(h) would do, at the same price; the next partition reads the latter again anyway.
  const Graph graph = from(R"(graph @g {
    %x = input : f32[16, 8]
    %w = param : f32[8, 8]
    %h = linear(%x, %w)
    %t = tanh(%h)
    %u = exp(%t)
    %s = mul(%u, %t)
    %loss = sum(%s)
    return %loss
  })");
  const auto result = differentiate(split(graph, *split_at({2})));
  const PartitionGradient& first = result.partitions[0];
  ASSERT_EQ(first.forward.outputs.size(), 2u) << print(first.forward);
  EXPECT_EQ(first.forward.outputs[0], first.forward.outputs[1]) << "t, not h";
  EXPECT_EQ(result.partitions[1].residual_bytes, 0);
}

TEST(Residuals, ReductionsAreSavedAndTheirBroadcastsAreNot) {
  const Graph graph = from(R"(graph @g {
    %x = input : f32[64, 32]
    %w = param : f32[32]
    %n = layer_norm(%x, [32], %w)
    %s = mul(%n, %n)
    %loss = sum(%s)
    return %loss
  })");
  const auto result = differentiate(split(graph, *split_none()));
  const PartitionGradient& part = result.partitions[0];
  EXPECT_LE(part.residual_bytes, 3 * 64 * 4) << print(part.forward);
  EXPECT_EQ(count(part.backward, Op::sum), 1u) << "only the gradient's own: mean and variance "
                                                  "are not summed twice";
  EXPECT_EQ(count(part.forward, Op::sum), 3u);
}

TEST(Autodiff, AParameterOfSeveralPartitionsHasOneGradientReadyAfterItsLastContribution) {
  const Graph graph = from(R"(graph @tied {
    %x = input : f32[4, 8]
    %y = input : f32[4, 8]
    %w = param : f32[8, 8]
    %v = param : f32[8, 8]
    %h = linear(%x, %w)
    %i = linear(%h, %v)
    %j = linear(%i, %w)
    %k = linear(%j, %w)
    %loss = mse_loss(%k, %y)
    return %loss
  })");
  const Outcome split_run = run(graph, *split_by_nodes(1));
  EXPECT_EQ(names(graph, split_run.differentiated.gradient_parameters), "v w");
  EXPECT_EQ(split_run.differentiated.ready_in, (std::vector<std::size_t>{1, 0}));
  std::size_t passed_on = 0;
  for (const PartitionGradient& part : split_run.differentiated.partitions) {
    for (const BackwardValue& input : part.backward_inputs) {
      passed_on += input.kind == BackwardValue::Kind::cotangent && input.whole == graph.find("w");
    }
  }
  EXPECT_EQ(passed_on, 2u) << "the second and third contributions add to what came before";
  expect_same(run(graph, *split_none()), split_run);
  expect_gradients(graph, 3);
}

TEST(Autodiff, FrozenAndUnusedParametersAndInputsThatNeedGradients) {
  const Graph graph = from(R"(graph @g {
    %x = input(requires_grad=True) : f32[4, 8]
    %z = input(requires_grad=True) : f32[4, 8]
    %y = input : f32[4, 8]
    %frozen = param(frozen=True) : f32[8, 8]
    %used = param : f32[8, 8]
    %unused = param : f32[8, 8]
    %aside = param : f32[8, 8]
    %signed = param : f32[8]
    %h = linear(%x, %frozen)
    %i = linear(%h, %used)
    %s = sign(%signed)
    %p = add(%i, %s)
    %extra = linear(%h, %aside)
    %best = argmax(%extra, 1)
    %loss = mse_loss(%p, %y)
    return %loss, %extra, %best
  })");
  for (const auto& policy : {split_none(), split_by_nodes(1), split_by_nodes(2)}) {
    const Outcome r = run(graph, *policy);
    EXPECT_EQ(names(graph, r.differentiated.gradient_parameters), "used");
    EXPECT_EQ(names(graph, r.differentiated.gradient_inputs), "x");
    EXPECT_EQ(names(graph, r.differentiated.unused_parameters), "unused aside signed");
    EXPECT_EQ(r.step.gradients.size(), 2u);
    EXPECT_FALSE(r.step.gradients.contains("frozen"));
  }
  expect_gradients(graph, 5);
}

TEST(Autodiff, TheLossMayBeASourceOrReturnedTwiceOrComputedEarly) {
  const Graph source = from(
      "graph @g {\n %x = input : f32[4]\n %w = param : f32[]\n"
      " %r = relu(%x)\n %m = mul(%r, %w)\n return %w, %r, %m\n}");
  for (const auto& policy : {split_none(), split_by_nodes(1), split_at({0, 1, 1, 2})}) {
    const Outcome r = run(source, *policy);
    EXPECT_EQ(r.step.gradients.at("w").data, std::vector<double>{1});
  }
  const Graph unused = from("graph @g {\n %w = param : f32[]\n return %w\n}");
  EXPECT_EQ(run(unused, *split_none()).step.gradients.at("w").data, std::vector<double>{1});
  const Graph input =
      from("graph @g {\n %x = input(requires_grad=True) : bf16[]\n return %x, %x\n}");
  EXPECT_EQ(run(input, *split_none()).step.gradients.at("x").data, std::vector<double>{1});
  const Graph constant =
      from("graph @g {\n %w = param : f32[]\n %c = full([], 3.0)\n return %c\n}");
  const Outcome none = run(constant, *split_none());
  EXPECT_TRUE(none.step.gradients.empty());
  EXPECT_EQ(none.differentiated.unused_parameters.size(), 1u);

  const Graph early = from(R"(graph @g {
    %x = input : f32[4]
    %w = param : f32[4]
    %p = mul(%x, %w)
    %loss = sum(%p)
    %scaled = mul(%loss, %p)
    %more = exp(%scaled)
    return %loss, %more, %loss
  })");
  const Outcome whole = run(early, *split_none());
  for (std::size_t cut = 0; cut <= 4; ++cut) expect_same(whole, run(early, *split_at({cut})));
  const auto single = differentiate(split(early, *split_by_nodes(1)));
  EXPECT_TRUE(single.partitions[3].backward.outputs.empty()) << "the loss needs nothing after it";
  EXPECT_TRUE(single.partitions[2].backward.outputs.empty());
  expect_gradients(early, 2);
}

TEST(Autodiff, AValueUsedTwiceByOneNodeContributesTwice) {
  const Graph graph = from(R"(graph @g {
    %w = param : f64[3, 3]
    %a = mul(%w, %w)
    %b = matmul(%a, %a)
    %c = add(%b, %b)
    %loss = mse_loss(%c, %c)
    %sum = sum(%c)
    %total = add(%loss, %sum)
    return %total
  })");
  expect_gradients(graph, 4);
  expect_same(run(graph, *split_none()), run(graph, *split_by_nodes(1)));
}

TEST(Autodiff, ForwardOnlyComputesTheSameOutputs) {
  const Graph graph = from(kTransformer);
  const auto partitioned = split(graph, *split_by_nodes(4));
  const DifferentiatedGraph eval = forward_only(partitioned);
  check(partitioned, eval);
  const auto arrays = test::random_arrays(graph, 7);
  const auto outputs = test::run_reference(partitioned, eval, arrays).outputs;
  EXPECT_TRUE(test::identical(outputs[0], run(graph, *split_none(), arrays).step.outputs[0]));
  for (const PartitionGradient& part : eval.partitions) {
    EXPECT_EQ(part.residual_bytes, 0);
    EXPECT_TRUE(part.backward.outputs.empty());
  }
}

TEST(Autodiff, EqualLayersGiveEqualGraphs) {
  std::string text = "graph @deep {\n %x = input : f32[4, 8]\n %y = input : f32[4, 8]\n";
  std::string body, previous = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += " %w" + n + " = param : f32[8, 8]\n";
    body +=
        " %h" + n + " = linear(%" + previous + ", %w" + n + ")\n %a" + n + " = gelu(%h" + n + ")\n";
    previous = "a" + n;
  }
  const Graph graph =
      from(text + body + " %loss = mse_loss(%" + previous + ", %y)\n return %loss\n}");
  const auto result = differentiate(split(graph, *split_by_nodes(2)));
  ASSERT_EQ(result.partitions.size(), 6u);
  for (std::size_t k = 2; k < 5; ++k) {
    EXPECT_TRUE(structurally_equal(result.partitions[1].forward, result.partitions[k].forward))
        << k;
    EXPECT_TRUE(structurally_equal(result.partitions[1].backward, result.partitions[k].backward))
        << k;
  }
}

TEST(Autodiff, SaysWhatIsWrongWithTheLoss) {
  const auto expect_error = [](std::string_view text, std::string_view expected) {
    try {
      differentiate(split(from(text), *split_none()));
      FAIL() << "accepted";
    } catch (const GraphError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  expect_error("graph @g {\n %w = param : f32[4]\n %r = relu(%w)\n return %r\n}",
               "%r, is f32[4], and a loss is a floating scalar");
  expect_error("graph @g {\n %i = input : i64[]\n return %i\n}", "a loss is a floating scalar");
}

TEST(RandomGraphs, StayInRangeAndVary) {
  int with_gradients = 0, outputs = 0, not_finite = 0, composites = 0;
  std::vector<bool> seen(all_ops().size(), false);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = test::random_graph(seed, {.zero_sizes = false});
    EXPECT_EQ(print(graph), print(test::random_graph(seed, {.zero_sizes = false})));
    int nodes = 0;
    for (const Node& node : graph.nodes) {
      nodes += is_compute(node) ? 1 : 0;
      composites += info(node.op).family == OpFamily::composite;
      seen[static_cast<std::size_t>(node.op)] = true;
    }
    EXPECT_LE(nodes, 12);
    EXPECT_GE(nodes, 1);
    const Outcome r = run(graph, *split_none(), seed);
    with_gradients += !r.step.gradients.empty();
    outputs += graph.outputs.size() > 1;
    const double loss = r.step.outputs[0].data[0];
    not_finite += !std::isfinite(loss);
    if (std::isfinite(loss)) EXPECT_LT(std::abs(loss), 1e5) << print(graph);
  }
  EXPECT_GT(with_gradients, 300);
  EXPECT_GT(outputs, 100);
  EXPECT_GT(composites, 400);
  EXPECT_EQ(not_finite, 0);
  std::string missing;  // every op is drawn
  for (const OpInfo& row : all_ops()) {
    if (!seen[static_cast<std::size_t>(row.op)]) missing += " " + std::string(row.text);
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace riffle::ir
