// Which kernels a graph becomes: how many, and what shares memory with what.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "codegen/kernel_spec.h"
#include "ir/autodiff.h"
#include "ir/passes.h"
#include "ir/text.h"
#include "tests/codegen/kernel_run.h"

namespace riffle::codegen {
namespace {

ir::Graph graph_of(const std::string& body) {
  return ir::parse("graph @g {\n" + body + "\n}", "test.rfl");
}

KernelProgram kernels_of(const ir::Graph& graph, bool fuse = true) {
  KernelProgram program = build_kernels(ir::lower_to_primitives(graph), {.fuse = fuse});
  verify(program);
  return program;
}

std::size_t count_of(const std::string& body) { return kernels_of(graph_of(body)).kernels.size(); }

ir::PartitionGradient gradient_of(const std::string& body) {
  return ir::differentiate(ir::split(graph_of(body), *ir::split_none())).partitions[0];
}

template <class Body>
std::size_t count_bodies(const KernelProgram& program) {
  return static_cast<std::size_t>(std::count_if(
      program.kernels.begin(), program.kernels.end(),
      [](const KernelSpec& kernel) { return std::holds_alternative<Body>(kernel.body); }));
}

TEST(KernelBuilder, ForwardsThatAreOneKernel) {
  EXPECT_EQ(count_of("%x = input : f32[64, 32]\n%w = param : f32[16, 32]\n%b = param : f32[16]\n"
                     "%l = linear(%x, %w, %b)\n%r = relu(%l)\nreturn %r"),
            1u);
  EXPECT_EQ(count_of("%x = input : bf16[4, 8, 32]\n%w = param : bf16[16, 32]\n"
                     "%b = param : bf16[16]\n%l = linear(%x, %w, %b)\n%r = gelu(%l)\nreturn %r"),
            1u);
  EXPECT_EQ(count_of("%x = input : f32[64, 1000]\n%y = softmax(%x, -1)\nreturn %y"), 1u);
  EXPECT_EQ(count_of("%x = input : f32[64, 1000]\n%y = softmax(%x, 0)\nreturn %y"), 1u);
  EXPECT_EQ(count_of("%x = input : bf16[64, 1000]\n%y = log_softmax(%x, -1)\nreturn %y"), 1u);
  EXPECT_EQ(count_of("%x = input : f32[64, 1000]\n%w = param : f32[1000]\n%b = param : f32[1000]\n"
                     "%y = layer_norm(%x, [1000], %w, %b)\nreturn %y"),
            1u);
  EXPECT_EQ(
      count_of("%i = input : i64[4, 8]\n%w = param : f32[100, 32]\n"
               "%e = embedding(%i, %w)\n%p = param : f32[8, 32]\n%y = add(%e, %p)\nreturn %y"),
      1u);
}

TEST(KernelBuilder, ALongChainIsCutIntoKernels) {
  // Uncut, its walk recursed once a node: a chain of 30,000 ran out of stack.
  std::string body = "%x = input : f32[64]\n%v0 = neg(%x)\n";
  for (int i = 1; i < 3000; ++i) body += fmt::format("%v{} = add(%v{}, %x)\n", i, i - 1);
  const KernelProgram program = kernels_of(graph_of(body + "return %v2999"));
  EXPECT_GT(program.kernels.size(), 3000u / 512);
  for (const KernelSpec& kernel : program.kernels)
    EXPECT_LT(std::get<LoopBody>(kernel.body).exprs.size(), 512u) << kernel.name;
}

TEST(KernelBuilder, CrossEntropyIsARowKernelAndASum) {
  const char* body =
      "%x = param : f32[640, 1000]\n%t = input : i64[640]\n%l = cross_entropy(%x, %t)\nreturn %l";
  EXPECT_LE(count_of(body), 2u);
  const ir::PartitionGradient gradient = gradient_of(body);
  EXPECT_LE(kernels_of(gradient.forward).kernels.size(), 2u);
  EXPECT_EQ(kernels_of(gradient.backward).kernels.size(), 1u);
}

TEST(KernelBuilder, LayerNormBackwardIsARowAndAColumnKernel) {
  // dy comes from a product, so that the normalisation is not at the edge of the graph.
  const ir::PartitionGradient gradient = gradient_of(
      "%x = param : f32[640, 128]\n%g = param : f32[128]\n%b = param : f32[128]\n"
      "%c = input : f32[640, 128]\n%n = layer_norm(%x, [128], %g, %b)\n%p = mul(%n, %c)\n"
      "%l = sum(%p)\nreturn %l");
  EXPECT_LE(kernels_of(gradient.backward).kernels.size(), 3u);
}

TEST(KernelBuilder, AnMlpBackwardIsTwoProductsAndOneColumnSumPerLayer) {
  const ir::PartitionGradient gradient = gradient_of(
      "%x = input : f32[64, 32]\n%w1 = param : f32[48, 32]\n%b1 = param : f32[48]\n"
      "%w2 = param : f32[56, 48]\n%b2 = param : f32[56]\n%w3 = param : f32[10, 56]\n"
      "%b3 = param : f32[10]\n%y = input : f32[64, 10]\n"
      "%l1 = linear(%x, %w1, %b1)\n%r1 = relu(%l1)\n%l2 = linear(%r1, %w2, %b2)\n"
      "%r2 = relu(%l2)\n%l3 = linear(%r2, %w3, %b3)\n%loss = mse_loss(%l3, %y)\nreturn %loss");
  const KernelProgram forward = kernels_of(gradient.forward);
  EXPECT_EQ(forward.kernels.size(), 4u) << print(forward);  // three products and the loss
  const KernelProgram backward = kernels_of(gradient.backward);
  EXPECT_EQ(count_bodies<MatmulBody>(backward), 5u) << print(backward);
  EXPECT_EQ(count_bodies<RowBody>(backward), 3u) << print(backward);
  EXPECT_EQ(count_bodies<LoopBody>(backward), 0u) << print(backward);
}

TEST(KernelBuilder, AttentionNeedsNoCopies) {
  const KernelProgram program = kernels_of(graph_of(
      "%x = input : bf16[2, 16, 32]\n%wq = param : bf16[32, 32]\n%wk = param : bf16[32, 32]\n"
      "%wv = param : bf16[32, 32]\n%wo = param : bf16[32, 32]\n"
      "%ql = linear(%x, %wq)\n%kl = linear(%x, %wk)\n%vl = linear(%x, %wv)\n"
      "%qr = reshape(%ql, [2, 16, 4, 8])\n%kr = reshape(%kl, [2, 16, 4, 8])\n"
      "%vr = reshape(%vl, [2, 16, 4, 8])\n%q = permute(%qr, [0, 2, 1, 3])\n"
      "%k = permute(%kr, [0, 2, 1, 3])\n%v = permute(%vr, [0, 2, 1, 3])\n"
      "%a = scaled_dot_product_attention(%q, %k, %v, is_causal=True)\n"
      "%ap = permute(%a, [0, 2, 1, 3])\n%ar = reshape(%ap, [2, 16, 32])\n"
      "%o = linear(%ar, %wo)\nreturn %o"));
  EXPECT_EQ(count_bodies<MatmulBody>(program), 6u) << print(program);
  EXPECT_EQ(count_bodies<RowBody>(program), 1u) << print(program);
  EXPECT_EQ(program.kernels.size(), 7u) << print(program);
}

TEST(KernelBuilder, AnOptimizerStepIsOneKernelThatUpdatesInPlace) {
  const KernelProgram program = kernels_of(graph_of(
      "%p = input : f32[100, 70]\n%g = input : f32[100, 70]\n%m = input : f32[100, 70]\n"
      "%v = input : f32[100, 70]\n%lr = input : f32[]\n%b = full([], 0.9)\n%c = full([], 0.1)\n"
      "%m1 = mul(%m, %b)\n%g1 = mul(%g, %c)\n%m2 = add(%m1, %g1)\n%v1 = mul(%v, %b)\n"
      "%gg = mul(%g, %g)\n%v2 = add(%v1, %gg)\n%s = sqrt(%v2)\n%u = div(%m2, %s)\n"
      "%us = mul(%u, %lr)\n%p2 = sub(%p, %us)\nreturn %p2, %m2, %v2"));
  ASSERT_EQ(program.kernels.size(), 1u) << print(program);
  const KernelSpec& kernel = program.kernels[0];
  EXPECT_EQ(std::get<LoopBody>(kernel.body).space, Shape{7000});
  const auto slot_of = [&](std::int32_t operand) {
    return program
        .slots[static_cast<std::size_t>(kernel.operands[static_cast<std::size_t>(operand)].slot)]
        .name;
  };
  const auto in_place = [&](const std::string& written, const std::string& read) {
    return std::any_of(kernel.may_alias.begin(), kernel.may_alias.end(), [&](const auto& pair) {
      return slot_of(pair.first) == written && slot_of(pair.second) == read;
    });
  };
  EXPECT_TRUE(in_place("p2", "p"));
  EXPECT_TRUE(in_place("m2", "m"));
  EXPECT_TRUE(in_place("v2", "v"));
  EXPECT_FALSE(in_place("p2", "lr"));
}

TEST(KernelBuilder, TransposedReadsAreNotInPlace) {
  const KernelProgram program = kernels_of(
      graph_of("%x = input : f32[8, 8]\n%t = permute(%x, [1, 0])\n%y = add(%x, %t)\nreturn %y"));
  ASSERT_EQ(program.kernels.size(), 1u);
  EXPECT_TRUE(program.kernels[0].may_alias.empty());
}

TEST(KernelBuilder, OutputsThatNeedNoKernel) {
  const KernelProgram program =
      kernels_of(graph_of("%x = input : f32[4, 6]\n%r = reshape(%x, [24])\nreturn %x, %r, %x"));
  EXPECT_TRUE(program.kernels.empty());
  EXPECT_EQ(program.output_slots, (std::vector<std::int32_t>{0, 0, 0}));
}

TEST(KernelBuilder, OneValueTwiceIsOneSlot) {
  const KernelProgram program =
      kernels_of(graph_of("%x = input : f32[4]\n%y = exp(%x)\nreturn %y, %y"));
  EXPECT_EQ(program.kernels.size(), 1u);
  EXPECT_EQ(program.output_slots[0], program.output_slots[1]);
}

TEST(KernelBuilder, ConstantsAndScalarsAreFilled) {
  const ir::Graph graph = ir::lower_to_primitives(
      graph_of("%x = input : f32[]\n%f = full([2, 3], 7.0)\n%y = exp(%x)\nreturn %f, %y"));
  const KernelProgram program = kernels_of(graph);
  for (const KernelSpec& kernel : program.kernels)
    EXPECT_FALSE(std::get<LoopBody>(kernel.body).space.empty());
  const auto outputs = test::run_kernels(graph, {ir::Array(graph[0].type)}, true);
  EXPECT_EQ(ir::array_from_bytes({DType::f32, {2, 3}}, outputs[0]).data,
            std::vector<double>(6, 7.0));
  EXPECT_EQ(ir::array_from_bytes({DType::f32, {}}, outputs[1]).data, std::vector<double>{1.0});
}

TEST(KernelBuilder, ZeroSizes) {
  // Nothing to write: no kernel. A sum over nothing is still written.
  EXPECT_EQ(count_of("%x = input : f32[0, 4]\n%y = exp(%x)\nreturn %y"), 0u);
  EXPECT_EQ(count_of("%x = input : f32[3, 0]\n%y = sum(%x, [1])\nreturn %y"), 1u);
  EXPECT_EQ(count_of("%x = input : f32[3, 0]\n%w = input : f32[0, 4]\n%y = matmul(%x, %w)\n"
                     "return %y"),
            1u);
}

TEST(KernelBuilder, UnfusedIsOneKernelAPrimitive) {
  const ir::Graph graph = graph_of(
      "%x = input : f32[4, 8]\n%w = input : f32[3, 8]\n%b = input : f32[3]\n"
      "%t = permute(%w, [1, 0])\n%m = matmul(%x, %t)\n%y = add(%m, %b)\nreturn %y");
  const KernelProgram program = kernels_of(graph, false);
  EXPECT_EQ(program.kernels.size(), 3u) << print(program);
}

TEST(KernelBuilder, EqualGraphsGiveEqualPrograms) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const ir::Graph graph = test::random_graph(seed);
    EXPECT_EQ(print(kernels_of(graph)), print(kernels_of(graph)));
  }
}

TEST(KernelVerifier, NamesWhatIsWrong) {
  const ir::Graph graph = graph_of("%x = input : f32[4, 6]\n%y = exp(%x)\nreturn %y");
  const KernelProgram good = kernels_of(graph);
  const auto expect_rejected = [&](const std::string& why, const auto& damage) {
    KernelProgram bad = good;
    damage(bad, std::get<LoopBody>(bad.kernels[0].body));
    try {
      verify(bad);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const CompileError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  expect_rejected("leaves the slot",
                  [](KernelProgram&, LoopBody& body) { body.exprs[0].address.offset = 1; });
  expect_rejected("leaves the slot",
                  [](KernelProgram&, LoopBody& body) { body.stores[0].address.strides[0] = 2; });
  expect_rejected("strides for",
                  [](KernelProgram&, LoopBody& body) { body.exprs[0].address.strides = {}; });
  expect_rejected("before it is computed",
                  [](KernelProgram&, LoopBody& body) { body.exprs[1].arguments[0] = 1; });
  expect_rejected("has 0 arguments",
                  [](KernelProgram&, LoopBody& body) { body.exprs[1].arguments.clear(); });
  expect_rejected("slot of",
                  [](KernelProgram& p, LoopBody&) { p.slots[0].type.dtype = DType::f64; });
  expect_rejected("declared access",
                  [](KernelProgram&, LoopBody& body) { body.stores[0].operand = 0; });
  expect_rejected("is an input and written",
                  [](KernelProgram& p, LoopBody&) { p.kernels[0].operands[1].slot = 0; });
  expect_rejected("is never written", [](KernelProgram& p, LoopBody&) { p.kernels.clear(); });
}

}  // namespace
}  // namespace riffle::codegen
