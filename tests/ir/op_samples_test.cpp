// Every op of the table on its samples: it has some, its types hold, its scalar code agrees with
// its reference, and its gradient passes the inner-product test.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/array.h"
#include "ir/builder.h"
#include "ir/evaluator.h"
#include "ir/scalar_eval.h"
#include "tests/support/op_samples.h"
#include "tests/support/tolerance.h"

namespace riffle::ir {
namespace {

using test::describe;
using test::gradient_graph;
using test::Random;

constexpr std::uint64_t kSeed = 20260;

class OpSuite : public ::testing::TestWithParam<Op> {
 protected:
  const OpInfo& op() const { return info(GetParam()); }
};

std::vector<Op> computing_ops() {
  std::vector<Op> ops;
  for (const OpInfo& op : all_ops())
    if (op.op != Op::input && op.op != Op::param && op.op != Op::break_) ops.push_back(op.op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpSuite, ::testing::ValuesIn(computing_ops()),
                         [](const ::testing::TestParamInfo<Op>& test) {
                           return std::string(::riffle::ir::info(test.param).enumerator);
                         });

TEST_P(OpSuite, BlockIsComplete) {
  EXPECT_TRUE(op().block.infer);
  EXPECT_GE(test::samples_of(op()).size(), 4u) << "samples drive every suite";
  const bool composite = op().family == OpFamily::composite;
  EXPECT_TRUE(composite ? op().block.decompose != nullptr
                        : op().block.reference || op().block.reference_array);
  const bool scalar = op().family == OpFamily::elementwise;
  EXPECT_EQ(scalar, op().block.emit && op().block.reference);
  const bool differentiable = op().family != OpFamily::source && !op().has(kNotDifferentiable);
  EXPECT_EQ(differentiable, op().block.vjp || op().family == OpFamily::composite);
}

// Types, in every dtype: the evaluator's arrays, the decomposition and the gradients have them.
TEST_P(OpSuite, TypesAgree) {
  Random random(kSeed);
  for (DType dtype : test::tested_dtypes(op()))
    for (const Sample& sample : test::samples_of(op())) {
      SCOPED_TRACE(describe(op(), sample, dtype));
      const Graph graph = test::sample_graph(op(), sample, dtype);
      const Node& node = graph.nodes.back();
      Attrs again = node.attrs;
      const auto types = test::operand_types(sample, dtype);
      complete_attrs(op().op, types, again);
      EXPECT_EQ(again, node.attrs) << "normalising twice changes nothing";
      const auto operands = test::random_operands(sample, dtype, random);
      const Array value = evaluate(graph, operands).front();
      EXPECT_EQ(value.type, node.type);
      EXPECT_EQ(static_cast<std::int64_t>(value.data.size()), node.type.elements());
      if (op().block.decompose) {
        Builder b("decomposed");
        std::vector<Value> values;
        for (const TensorType& type : types) values.push_back(b.append_source(Op::input, type, {}));
        EXPECT_EQ(b.type(op().block.decompose(b, values, node.attrs)), node.type);
      }
      const auto wanted = test::differentiable_operands(op(), sample, dtype);
      if (wanted.empty()) continue;
      const Graph gradient = gradient_graph(op(), sample, dtype, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_EQ(gradient[gradient.outputs[i]].type, types[wanted[i]]) << "operand " << wanted[i];
    }
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

double magnitude(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += std::fabs(a.data[i] * b.data[i]);
  return sum;
}

// ⟨c, J t⟩ by central differences of the evaluator = ⟨Jᵀc, t⟩ by the rule. Both in double: with a
// step of 1e-6 differences lose 1e-12 to curvature and 1e-10 to rounding, so 1e-6 of the terms'
// magnitude is what a right rule meets with room and a wrong one misses by far.
TEST_P(OpSuite, GradientPassesInnerProductTest) {
  Random random(kSeed);
  constexpr double step = 1e-6, bound = 1e-6;
  for (const Sample& sample : test::samples_of(op())) {
    if (!sample.smooth) continue;
    const auto wanted = test::differentiable_operands(op(), sample, DType::f64);
    if (wanted.empty()) continue;
    SCOPED_TRACE(describe(op(), sample, DType::f64));
    const Graph graph = test::sample_graph(op(), sample, DType::f64);
    const auto at = test::random_operands(sample, DType::f64, random);
    auto forward = at, backward = at;
    std::vector<Array> tangents;
    for (std::size_t i : wanted) {
      tangents.push_back(test::random_array(at[i].type, random));
      for (std::size_t e = 0; e < at[i].data.size(); ++e) {
        forward[i].data[e] += step * tangents.back().data[e];
        backward[i].data[e] -= step * tangents.back().data[e];
      }
    }
    const Array high = evaluate(graph, forward).front(), low = evaluate(graph, backward).front();
    const Array cotangent = test::random_array(high.type, random);
    Array directional = high;
    for (std::size_t e = 0; e < high.data.size(); ++e)
      directional.data[e] = (high.data[e] - low.data[e]) / (2 * step);
    auto arguments = at;
    arguments.push_back(cotangent);
    const auto gradients = evaluate(gradient_graph(op(), sample, DType::f64, wanted), arguments);
    double by_rule = 0, scale = 1e-3;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      by_rule += dot(gradients[i], tangents[i]);
      scale += magnitude(gradients[i], tangents[i]);
    }
    scale = std::max(scale, magnitude(cotangent, directional));
    EXPECT_NEAR(by_rule, dot(cotangent, directional), bound * scale);
  }
}

// Asking for one operand's gradient alone gives what asking for all gives.
TEST_P(OpSuite, GradientsAreIndependent) {
  Random random(kSeed);
  for (const Sample& sample : test::samples_of(op())) {
    const auto wanted = test::differentiable_operands(op(), sample, DType::f32);
    if (wanted.size() < 2) continue;
    SCOPED_TRACE(describe(op(), sample, DType::f32));
    auto arguments = test::random_operands(sample, DType::f32, random);
    const Graph graph = test::sample_graph(op(), sample, DType::f32);
    arguments.push_back(test::random_array(graph.nodes.back().type, random));
    const auto all = evaluate(gradient_graph(op(), sample, DType::f32, wanted), arguments);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto one = evaluate(gradient_graph(op(), sample, DType::f32, {wanted[i]}), arguments);
      EXPECT_TRUE(test::close(one.front(), all[i], {})) << "operand " << wanted[i];
    }
  }
}

// Scalar code against the reference, element by element.

std::uint64_t memory_bits(const TensorType& scalar, double value) {
  Array array(scalar);
  array.data[0] = value;
  std::vector<std::byte> bytes(8, std::byte{0});
  array_to_bytes(array, std::span(bytes).first(static_cast<std::size_t>(scalar.bytes())));
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<std::uint64_t>(bytes[i]);
  return bits;
}

double from_memory(DType dtype, std::uint64_t bits) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  const TensorType scalar = {dtype, {}};
  return array_from_bytes(scalar, std::span(bytes).first(static_cast<std::size_t>(scalar.bytes())))
      .data[0];
}

double rounded(DType dtype, double value) {
  return from_memory(dtype, memory_bits({dtype, {}}, value));
}

// Rounded once from the exact value, so that the reference rounded to the dtype is the answer.
bool is_exact(Op op) {
  switch (op) {
    case Op::exp:
    case Op::log:
    case Op::rsqrt:
    case Op::sin:
    case Op::cos:
    case Op::tanh:
    case Op::erf:
    case Op::pow:
      return false;
    default:
      return true;
  }
}

std::vector<double> special_values(DType dtype) {
  constexpr double inf = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::boolean) return {0, 1};
  if (dtype == DType::i32) return {0, 1, -1, 7, -0x1p31, 0x1p31 - 1};
  if (dtype == DType::i64) return {0, 1, -1, 7, -0x1p40, 0x1p40 + 5, -0x1p63};
  return {0, -0.0, 1, -1, 0.5, -2.5, 3, inf, -inf, nan};
}

TEST_P(OpSuite, ScalarCodeMatchesReference) {
  if (op().family != OpFamily::elementwise) return;  // others have no scalar code
  EvalScalarBuilder scalars;
  Random random(kSeed);
  for (DType dtype : test::tested_dtypes(op()))
    for (const Sample& sample : test::samples_of(op())) {
      SCOPED_TRACE(describe(op(), sample, dtype));
      const auto types = test::operand_types(sample, dtype);
      std::vector<std::vector<double>> tuples;
      const auto random_tuple = [&] {
        Sample one = sample;
        for (TensorType& type : one.operands) type.shape = {};
        std::vector<double> tuple;
        for (const Array& a : test::random_operands(one, dtype, random)) tuple.push_back(a.data[0]);
        return tuple;
      };
      for (int i = 0; i < 8; ++i) tuples.push_back(random_tuple());
      std::vector<std::vector<double>> specials = {{}};
      for (const TensorType& type : types) {
        std::vector<std::vector<double>> longer;
        for (const auto& prefix : specials)
          for (double value : special_values(type.dtype)) {
            longer.push_back(prefix);
            longer.back().push_back(value);
          }
        specials = std::move(longer);
      }
      tuples.insert(tuples.end(), specials.begin(), specials.end());
      Sample one = sample;
      for (TensorType& type : one.operands) type.shape = {};
      const Graph graph = test::sample_graph(op(), one, dtype);
      const Node& node = graph.nodes.back();
      for (const auto& tuple : tuples) {
        std::vector<Scalar> arguments;
        std::vector<Array> arrays;
        std::string shown;
        for (std::size_t i = 0; i < tuple.size(); ++i) {
          arguments.push_back(
              scalar_from_memory(types[i].dtype, memory_bits({types[i].dtype, {}}, tuple[i])));
          arrays.emplace_back(TensorType{types[i].dtype, {}});
          arrays.back().data[0] = tuple[i];
          shown += std::to_string(tuple[i]) + " ";
        }
        SCOPED_TRACE(shown);
        const Scalar result = op().block.emit(scalars, arguments, node.attrs);
        ASSERT_EQ(result.dtype, node.type.dtype);
        const double actual = from_memory(result.dtype, scalar_to_memory(result));
        const double exact = evaluate(graph, arrays).front().data[0];
        // Beyond 2^53 the reference is not exact, and does not wrap.
        if (result.dtype == DType::i64 && std::fabs(exact) > 0x1p53) continue;
        const double expected = rounded(result.dtype, exact);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(actual)) << actual;
        } else if (is_exact(op().op)) {
          EXPECT_EQ(actual, expected);
          EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << "the sign of zero";
        } else if (std::isinf(expected) || expected == 0) {
          EXPECT_EQ(actual, expected);
        } else {
          EXPECT_NEAR(actual, expected,
                      test::tolerance(result.dtype).relative * std::fabs(expected));
        }
      }
    }
}

}  // namespace
}  // namespace riffle::ir
