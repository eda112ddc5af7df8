// Each pass: a graph before and the graph expected after, compared as text.
#include "ir/passes.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ir/evaluator.h"
#include "ir/text.h"
#include "tests/support/reference_runner.h"

namespace riffle::ir {
namespace {

constexpr const char* kInputs = R"(
  %x = input : f32[4, 8]
  %y = input : f32[8, 4]
  %h = input : bf16[4, 8]
  %i = input : i32[4, 8]
  %b = input : bool[4, 8]
  %v = input : f32[8]
)";

/// The body after a set of inputs of several types.
Graph graph_of(const std::string& body) {
  Graph graph = parse(std::string("graph @g {") + kInputs + body + "\n}", "test.rfl");
  verify(graph);
  return graph;
}

Graph simplified(const Graph& graph) {
  Graph result = simplify(graph);
  verify(result);
  result = eliminate_dead_code(result);
  verify(result);
  return result;
}

void expect_simplified(const std::string& before, const std::string& after) {
  EXPECT_EQ(print(simplified(graph_of(before))), print(graph_of(after))) << before;
}
void expect_kept(const std::string& body) { expect_simplified(body, body); }

TEST(Simplify, CastsThatLoseNothing) {
  expect_simplified("%a = to(%x, f32)\n return %a", "return %x");
  expect_simplified("%a = to(%h, f32)\n %c = to(%a, bf16)\n return %c", "return %h");
  expect_simplified("%a = to(%h, f64)\n %c = to(%a, f32)\n return %c",
                    "%c = to(%h, f32)\n return %c");
  expect_simplified("%a = to(%b, i64)\n %c = to(%a, bool)\n return %c", "return %b");
  expect_simplified("%a = to(%i, f64)\n %c = to(%a, i32)\n return %c", "return %i");
}

TEST(Simplify, CastsThatRoundStay) {
  expect_kept("%a = to(%x, bf16)\n %c = to(%a, f32)\n return %c");
  expect_kept("%a = to(%h, f16)\n %c = to(%a, bf16)\n return %c");
  expect_kept("%a = to(%i, f32)\n %c = to(%a, i32)\n return %c");  // 24 bits of 32
  expect_kept("%a = to(%x, i32)\n %c = to(%a, f32)\n return %c");
}

TEST(Simplify, CastsOfConstants) {
  expect_simplified("%a = full([2], 1.5)\n %c = to(%a, bf16)\n return %c",
                    "%c = full([2], 1.5, dtype=bf16)\n return %c");
  // The constant is rounded to its own dtype before the cast.
  expect_simplified("%a = full([], 0.1)\n %c = to(%a, f64)\n return %c",
                    "%c = full([], 0.10000000149011612, dtype=f64)\n return %c");
  expect_simplified("%a = full([], -0.0)\n %c = to(%a, i64)\n return %c",
                    "%c = full([], 0, dtype=i64)\n return %c");
  expect_simplified("%a = full([], 0.5)\n %c = to(%a, bool)\n return %c",
                    "%c = full([], 1, dtype=bool)\n return %c");
  expect_simplified("%a = full([], nan)\n %c = to(%a, f16)\n return %c",
                    "%c = full([], nan, dtype=f16)\n return %c");
  // Rounding to bf16 may go by way of f32; truncation and saturation are the kernels' business.
  expect_kept("%a = full([], 0.1)\n %c = to(%a, bf16)\n return %c");
  expect_kept("%a = full([], 2.5)\n %c = to(%a, i32)\n return %c");
  expect_kept("%a = full([], 3e9)\n %c = to(%a, i32)\n return %c");
  expect_kept("%a = full([], nan)\n %c = to(%a, i32)\n return %c");
  expect_kept("%a = full([], inf)\n %c = to(%a, i64)\n return %c");
}

TEST(Simplify, MovesOfElements) {
  expect_simplified("%a = reshape(%x, [4, 8])\n return %a", "return %x");
  expect_simplified("%a = reshape(%x, [32])\n %c = reshape(%a, [2, 16])\n return %c",
                    "%c = reshape(%x, [2, 16])\n return %c");
  expect_simplified("%a = reshape(%x, [32])\n %c = reshape(%a, [4, 8])\n return %c", "return %x");
  expect_simplified("%a = permute(%x, [0, 1])\n return %a", "return %x");
  expect_simplified("%a = permute(%x, [1, 0])\n %c = permute(%a, [1, 0])\n return %c", "return %x");
  expect_simplified(
      "%r = reshape(%x, [2, 4, 4])\n %a = permute(%r, [1, 2, 0])\n %c = permute(%a, [0, 2, 1])\n"
      " return %c",
      "%r = reshape(%x, [2, 4, 4])\n %c = permute(%r, [1, 0, 2])\n return %c");
  expect_simplified("%a = expand(%v, [8])\n return %a", "return %v");
  expect_simplified("%a = expand(%v, [4, 8])\n %c = expand(%a, [3, 4, 8])\n return %c",
                    "%c = expand(%v, [3, 4, 8])\n return %c");
  expect_simplified("%a = slice(%x, 1)\n return %a", "return %x");
  expect_simplified("%a = pad(%x, [0, 0], [0, 0])\n return %a", "return %x");
  expect_simplified("%a = cat([%x])\n return %a", "return %x");
  expect_kept("%a = reshape(%x, [8, 4])\n return %a");
  expect_kept("%a = permute(%x, [1, 0])\n return %a");
  expect_kept("%a = slice(%x, 1, start=1)\n return %a");
  expect_kept("%a = slice(%x, 1, step=2)\n return %a");
  expect_kept("%a = pad(%x, [0, 0], [0, 1])\n return %a");
  expect_kept("%a = cat([%x, %x])\n return %a");
}

TEST(Simplify, MovesOfConstants) {
  expect_simplified(
      "%a = full([4, 1], 2)\n %c = expand(%a, [4, 8])\n %d = reshape(%c, [32])\n"
      " %e = slice(%d, 0, start=30)\n return %e",
      "%e = full([2], 2)\n return %e");
  expect_simplified("%a = full([4, 1], 2)\n %c = permute(%a, [1, 0])\n return %c",
                    "%c = full([1, 4], 2)\n return %c");
}

TEST(Simplify, IdentitiesOfArithmetic) {
  expect_simplified("%a = mul(%x, 1)\n %c = mul(1, %a)\n %d = div(%c, 1)\n return %d", "return %x");
  expect_simplified("%a = mul(%h, 1)\n return %a", "return %h");
  expect_simplified("%a = add(%x, -0.0)\n %c = add(-0.0, %a)\n %d = sub(%c, 0)\n return %d",
                    "return %x");
  expect_simplified("%a = neg(%x)\n %c = neg(%a)\n return %c", "return %x");
  expect_simplified("%a = neg(%x)\n %c = abs(%a)\n %d = abs(%c)\n return %d",
                    "%c = abs(%x)\n return %c");
  expect_simplified("%a = logical_not(%b)\n %c = logical_not(%a)\n return %c", "return %b");
}

TEST(Simplify, WhatWouldChangeABitStays) {
  expect_kept("%s = full([], 0.0)\n %a = add(%x, %s)\n return %a");   // -0 + 0 is +0
  expect_kept("%s = full([], -0.0)\n %a = sub(%x, %s)\n return %a");  // -0 - -0 is +0
  expect_kept("%s = full([], 0.0)\n %a = sub(%s, %x)\n return %a");   // 0 - 0 is +0, not -0
  expect_kept("%s = full([], 0.0)\n %a = mul(%x, %s)\n return %a");   // NaN, infinities, -0
  expect_kept("%s = full([], -1.0)\n %a = mul(%x, %s)\n return %a");
  expect_kept("%a = sum(%x, 1)\n return %a");
  expect_kept("%a = reshape(%x, [4, 8, 1])\n %c = sum(%a, 2)\n return %c");
}

TEST(Simplify, IntegersHaveOneZero) {
  expect_simplified("%a = add(%i, 0)\n %c = sub(%a, 0)\n %d = mul(%c, 1)\n return %d", "return %i");
}

TEST(Simplify, AnOperandThatIsBroadcastIsNotTheResult) {
  expect_kept("%s = full([4, 8], 1.0)\n %a = mul(%v, %s)\n return %a");
  expect_kept("%a = where(%b, %v, %v)\n return %a");
  expect_kept(
      "%s = full([4, 8], 1, dtype=bool)\n %z = full([], 0.0)\n %a = where(%s, %v, %z)\n return %a");
}

TEST(Simplify, Where) {
  expect_simplified("%a = where(%b, %x, %x)\n return %a", "return %x");
  expect_simplified("%c = full([], 1, bool)\n %a = where(%c, %x, %v)\n return %a", "return %x");
  expect_simplified("%c = full([], 0, bool)\n %a = where(%c, %v, %x)\n return %a", "return %x");
  expect_kept("%z = full([], 0.0)\n %a = where(%b, %x, %z)\n return %a");
}

TEST(Simplify, InputsReturnedTwiceAndBreaksStay) {
  expect_simplified("break\n %a = mul(%x, 1)\n break\n return %a, %a, %x",
                    "break\n break\n return %x, %x, %x");
}

// The rules on the values that break careless ones. The reference rounds nothing, so equal bits
// here are equal bits in every dtype.
TEST(Simplify, KeepsZerosSignsInfinitiesAndDenormals) {
  using Limits = std::numeric_limits<double>;
  const std::vector<double> special = {0.0,
                                       -0.0,
                                       1.0,
                                       -1.0,
                                       Limits::infinity(),
                                       -3.5,
                                       5e-324,
                                       1e308,
                                       -Limits::infinity(),
                                       -1e-310,
                                       Limits::quiet_NaN()};
  const std::string count = std::to_string(special.size());
  for (const char* body : {"mul(%x, 1)",
                           "mul(1, %x)",
                           "div(%x, 1)",
                           "add(%x, -0.0)",
                           "add(-0.0, %x)",
                           "sub(%x, 0)",
                           "add(%x, 0)",
                           "sub(0, %x)",
                           "sub(%x, -0.0)",
                           "mul(%x, 0)",
                           "neg(%n)",
                           "abs(%n)",
                           "neg(%a)",
                           "abs(%a)",
                           "where(%c, %x, %x)",
                           "where(%t, %x, 0)",
                           "to(%wide, f32)",
                           "to(%r, f64)",
                           "reshape(%r, [-1])",
                           "permute(%r, [1, 0])",
                           "expand(%r, [2, -1, -1])"}) {
    SCOPED_TRACE(body);
    const Graph graph = parse(
        "graph @g {\n %x = input : f32[" + count + "]\n %n = neg(%x)\n" +
            " %a = abs(%x)\n %c = lt(%x, 0)\n %t = full([], 1, bool)\n" +
            " %wide = to(%x, f64)\n %r = reshape(%x, [1, -1])\n %y = " + body + "\n return %y\n}",
        "test.rfl");
    Array x({DType::f32, {static_cast<std::int64_t>(special.size())}});
    x.data = special;
    const Array before = evaluate(graph, {{x}})[0];
    const Array after = evaluate(simplified(graph), {{x}})[0];
    EXPECT_TRUE(test::identical(before, after)) << print(simplified(graph));
  }
}

TEST(CommonSubexpressions, EqualNodesBecomeTheFirst) {
  const Graph before = graph_of(R"(
    %a = exp(%x)
    %c = exp(%x)
    %d = add(%a, %v)
    %e = add(%v, %c)
    %f = sub(%a, %v)
    %g = sub(%v, %a)
    %s = softmax(%d, 1)
    %t = softmax(%e, -1)
    %u = softmax(%e, 0)
    return %s, %t, %u, %f, %g)");
  const Graph after = eliminate_common_subexpressions(before);
  verify(after);
  EXPECT_EQ(print(after), print(graph_of(R"(
    %a = exp(%x)
    %d = add(%a, %v)
    %f = sub(%a, %v)
    %g = sub(%v, %a)
    %s = softmax(%d, 1)
    %u = softmax(%d, 0)
    return %s, %s, %u, %f, %g)")));
}

TEST(CommonSubexpressions, EqualConstantsMergeByBits) {
  const Graph after = eliminate_common_subexpressions(graph_of(R"(
    %a = full([], 0.0)
    %c = full([], -0.0)
    %d = full([], 0.0)
    %e = full([], 0.0, f64)
    return %a, %c, %d, %e)"));
  EXPECT_EQ(print(after), print(graph_of(R"(
    %a = full([], 0.0)
    %c = full([], -0.0)
    %e = full([], 0.0, f64)
    return %a, %c, %a, %e)")));
}

TEST(CommonSubexpressions, InputsParametersAndBreaksNeverMerge) {
  const Graph graph = parse(
      "graph @g {\n %a = input : f32[2]\n %b = input : f32[2]\n %p = param : f32[2]\n"
      " %q = param : f32[2]\n break\n break\n return %a, %b, %p, %q\n}",
      "test.rfl");
  EXPECT_EQ(print(eliminate_common_subexpressions(graph)), print(graph));
}

TEST(DeadCode, GoesButInputsParametersAndBreaksStay) {
  const Graph before = graph_of(R"(
    %p = param : f32[8]
    %dead = exp(%x)
    break
    %a = neg(%x)
    %dead.too = add(%dead, %a)
    return %a)");
  const Graph after = eliminate_dead_code(before);
  verify(after);
  EXPECT_EQ(print(after),
            print(graph_of("%p = param : f32[8]\n break\n %a = neg(%x)\n return %a")));
}

TEST(Filter, CopiesWhatIsKept) {
  const Graph graph = graph_of("%a = neg(%x)\n %c = exp(%v)\n %d = add(%a, %a)\n return %d, %x");
  std::vector<bool> keep(graph.nodes.size(), true);
  keep[static_cast<std::size_t>(graph.find("c"))] = false;
  EXPECT_EQ(print(filter(graph, keep)),
            print(graph_of("%a = neg(%x)\n %d = add(%a, %a)\n return %d, %x")));
}

}  // namespace
}  // namespace riffle::ir
