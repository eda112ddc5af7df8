// Models trained a few steps, against a run in double: the reference evaluator for loss and
// gradients, and the optimizers' formulas as their papers write them, worked out here.
#include <gtest/gtest.h>

#include <cmath>

#include "jit/session.h"
#include "tests/jit/training.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_runner.h"
#include "tests/support/source_folder.h"
#include "tests/support/tolerance.h"

namespace riffle::test {
namespace {

constexpr int kSteps = 5;

Graph example(const std::string& name) {
  return Graph::load(source_folder() + "/examples/" + name + ".rfl");
}

constexpr std::string_view kMlp = R"(graph @mlp {
  %x          = input : f32[16, 12]
  %target     = input : i64[16]
  %fc1.weight = param : f32[20, 12]
  %fc1.bias   = param : f32[20]
  %fc2.weight = param : f32[5, 20]
  %fc2.bias   = param : f32[5]
  %hidden     = linear(%x, %fc1.weight, %fc1.bias)
  %relu       = relu(%hidden)
  %logits     = linear(%relu, %fc2.weight, %fc2.bias)
  %loss       = cross_entropy(%logits, %target)
  return %loss, %logits
})";

constexpr std::string_view kBlock = R"(graph @block {
  %x           = input : f32[2, 8, 16]
  %y           = input : f32[2, 8, 16]
  %ln1.weight  = param : f32[16]
  %ln1.bias    = param : f32[16]
  %query.weight = param : f32[16, 16]
  %key.weight  = param : f32[16, 16]
  %value.weight = param : f32[16, 16]
  %proj.weight = param : f32[16, 16]
  %ln2.weight  = param : f32[16]
  %ln2.bias    = param : f32[16]
  %fc.weight   = param : f32[32, 16]
  %fc.bias     = param : f32[32]
  %out.weight  = param : f32[16, 32]
  %out.bias    = param : f32[16]
  %norm1       = layer_norm(%x, [16], %ln1.weight, %ln1.bias)
  %query.all   = linear(%norm1, %query.weight)
  %query.split = reshape(%query.all, [2, 8, 2, 8])
  %query       = permute(%query.split, [0, 2, 1, 3])
  %key.all     = linear(%norm1, %key.weight)
  %key.split   = reshape(%key.all, [2, 8, 2, 8])
  %key         = permute(%key.split, [0, 2, 1, 3])
  %value.all   = linear(%norm1, %value.weight)
  %value.split = reshape(%value.all, [2, 8, 2, 8])
  %value       = permute(%value.split, [0, 2, 1, 3])
  %attention   = scaled_dot_product_attention(%query, %key, %value, is_causal=True)
  %heads       = permute(%attention, [0, 2, 1, 3])
  %joined      = reshape(%heads, [2, 8, 16])
  %proj        = linear(%joined, %proj.weight)
  %residual    = add(%x, %proj)
  %norm2       = layer_norm(%residual, [16], %ln2.weight, %ln2.bias)
  %fc          = linear(%norm2, %fc.weight, %fc.bias)
  %gelu        = gelu(%fc)
  %out         = linear(%gelu, %out.weight, %out.bias)
  %block       = add(%residual, %out)
  %loss        = mse_loss(%block, %y)
  return %loss, %block
})";

/// The text with every f32 another dtype.
Graph in_dtype(std::string_view text, std::string_view dtype) {
  std::string changed(text);
  for (std::size_t at = 0; (at = changed.find("f32", at)) != std::string::npos; at += dtype.size())
    changed.replace(at, 3, dtype);
  return Graph::parse(changed);
}

const std::vector<OptimizerSpec>& optimizers() {
  static const auto* const kAll = new std::vector<OptimizerSpec>{
      {.name = "sgd", .lr = 0.1},
      {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01},
      {.name = "sgd", .lr = 0.05, .momentum = 0.9, .nesterov = true},
      {.name = "adam", .lr = 0.01, .weight_decay = 0.05},
      {.name = "adamw", .lr = 0.01, .weight_decay = 0.1}};
  return *kAll;
}
std::string describe(const OptimizerSpec& spec) {
  return spec.name + (spec.nesterov ? " nesterov" : spec.momentum > 0 ? " momentum" : "");
}

/// One parameter's state and update, in double.
struct Reference {
  std::vector<double> m, v;

  void update(const OptimizerSpec& o, int t, ir::Array& parameter, const ir::Array& gradient) {
    m.resize(parameter.data.size());
    v.resize(parameter.data.size());
    for (std::size_t i = 0; i < parameter.data.size(); ++i) {
      double& p = parameter.data[i];
      double g = gradient.data[i];
      if (o.name == "adamw")
        p -= o.lr * o.weight_decay * p;  // Loshchilov & Hutter 2019, Algorithm 2
      else
        g += o.weight_decay * p;
      if (o.name == "sgd") {  // Sutskever et al. 2013, as PyTorch writes it
        m[i] = o.momentum * m[i] + g;
        p -= o.lr * (o.nesterov ? g + o.momentum * m[i] : m[i]);
      } else {  // Kingma & Ba 2015, Algorithm 1
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
        const double mean = m[i] / (1 - std::pow(o.beta1, t));
        const double square = v[i] / (1 - std::pow(o.beta2, t));
        p -= o.lr * mean / (std::sqrt(square) + o.eps);
      }
    }
  }
};

/// What the dtype keeps of an array.
ir::Array stored(const ir::Array& array) { return to_array(to_tensor(array)); }

std::vector<double> reference_losses(const Graph& graph, std::vector<ir::Array> arrays,
                                     const OptimizerSpec& optimizer) {
  const ir::PartitionedGraph whole = ir::split(graph.ir(), *ir::split_none());
  const ir::DifferentiatedGraph differentiated = ir::differentiate(whole);
  const std::size_t inputs = graph.ir().inputs().size();
  const std::vector<ir::ValueId> parameters = graph.ir().parameters();
  std::vector<Reference> states(parameters.size());
  std::vector<double> losses;
  for (int t = 1; t <= kSteps; ++t) {
    const ReferenceStep step = run_reference(whole, differentiated, arrays);
    losses.push_back(step.outputs[0].data[0]);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto gradient = step.gradients.find(graph.ir()[parameters[i]].name);
      if (gradient == step.gradients.end()) continue;
      ir::Array& parameter = arrays[inputs + i];
      states[i].update(optimizer, t, parameter, stored(gradient->second));
      parameter = stored(parameter);
    }
  }
  return losses;
}

class Models : public testing::Test {
 protected:
  void check(const std::string& name, const Graph& graph, const OptimizerSpec& optimizer,
             const std::string& split);
  Session session{{.threads = 2, .cache_directory = ""}};  // compiles a model once
};

void Models::check(const std::string& name, const Graph& graph, const OptimizerSpec& optimizer,
                   const std::string& split) {
  Executable executable = session.compile(graph, {.split = split});
  executable.set_optimizer(optimizer);
  executable.init(11);
  std::vector<ir::Array> arrays;
  Random random(5);
  for (const Graph::Named& input : graph.inputs())
    if (is_integer(input.type.dtype)) {
      ir::Array classes(input.type);
      for (double& x : classes.data) x = static_cast<double>(random.below(5));
      executable.set(input.name, to_tensor(classes));
    }
  for (const Graph::Named& input : graph.inputs())
    arrays.push_back(to_array(executable.get(input.name)));
  for (const Graph::Named& parameter : graph.parameters())
    arrays.push_back(to_array(executable.get("param/" + parameter.name)));

  const std::vector<double> expected = reference_losses(graph, arrays, optimizer);
  // Sums of about a thousand terms; and five steps, each of which starts from the last one's error.
  const TensorType type = graph.outputs()[0].type;
  const double allowed = kSteps * tolerance(type.dtype, 1000).relative;
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(executable.step().loss);
    EXPECT_NEAR(losses.back(), expected[step], allowed * std::fabs(expected[step]))
        << name << ", " << describe(optimizer) << ", split " << split << ", step " << step;
  }
  EXPECT_LT(losses.back(), losses.front()) << name << ", " << describe(optimizer);
}

TEST_F(Models, MatchARunInDoubleUnderEveryOptimizer) {
  for (const OptimizerSpec& optimizer : optimizers()) {
    check("mlp", in_dtype(kMlp, "f32"), optimizer, "nodes 1");
    check("block", in_dtype(kBlock, "f32"), optimizer, "nodes 6");
    check("graph_break_small", example("graph_break_small"), optimizer, "nodes 3");
  }
}

TEST_F(Models, MatchARunInDoubleInOtherDtypes) {
  for (const char* dtype : {"f64", "bf16", "f16"})
    for (const std::size_t optimizer : {1u, 4u}) {
      check(std::string("mlp ") + dtype, in_dtype(kMlp, dtype), optimizers()[optimizer], "nodes 2");
      check(std::string("block ") + dtype, in_dtype(kBlock, dtype), optimizers()[optimizer],
            "nodes 6");
    }
}

TEST_F(Models, OfTheExamplesMatchARunInDouble) {
  check("tied_weights", example("tied_weights"), optimizers()[1], "markers");
  check("mixed_precision", example("mixed_precision"), optimizers()[4], "nodes 2");
  check("transformer_block", example("transformer_block"), optimizers()[0], "markers");
}

}  // namespace
}  // namespace riffle::test
