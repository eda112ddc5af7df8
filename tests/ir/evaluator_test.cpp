// The evaluator against values worked out by hand (or by PyTorch's documentation), the corners that
// random samples do not hit, and Array's way to bytes and back.
#include "ir/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "tests/support/tolerance.h"

namespace riffle::ir {
namespace {

using I = std::int64_t;
using Doubles = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

Array array(TensorType type, Doubles data) {
  Array a(type);
  EXPECT_EQ(a.data.size(), data.size());
  a.data = std::move(data);
  return a;
}
Array f64(Shape shape, Doubles data) {
  return array({DType::f64, std::move(shape)}, std::move(data));
}
Array i64(Shape shape, Doubles data) {
  return array({DType::i64, std::move(shape)}, std::move(data));
}
Array i32(Shape shape, Doubles data) {
  return array({DType::i32, std::move(shape)}, std::move(data));
}
Array boolean(Shape shape, Doubles data) {
  return array({DType::boolean, std::move(shape)}, std::move(data));
}

std::vector<Value> append_inputs(Builder& b, const std::vector<Array>& operands) {
  std::vector<Value> values;
  for (const Array& operand : operands)
    values.push_back(b.append_source(Op::input, operand.type, "x"));
  return values;
}

Array value_of(Op op, const std::vector<Array>& operands, Attrs attrs = {}) {
  Builder b("g");
  const auto values = append_inputs(b, operands);
  const Value result = b.append(op, values, std::move(attrs));
  return evaluate(b.finish({result}), operands).front();
}

// Gradients of all operands (empty arrays where none flows) for this cotangent.
std::vector<Array> gradients_of(Op op, std::vector<Array> operands, Doubles cotangent,
                                Attrs attrs = {}) {
  Builder b("g");
  const auto values = append_inputs(b, operands);
  const Value result = b.append(op, values, std::move(attrs));
  const TensorType type = b.type(result);
  const Value dy = b.append_source(Op::input, type, "dy");
  operands.push_back(array(type, std::move(cotangent)));
  const Attrs complete = b.graph()[result.id].attrs;
  const auto gradients =
      info(op).block.vjp({b, complete, values, result, dy, std::vector<bool>(values.size(), true)});
  std::vector<Value> outputs;
  for (Value gradient : gradients)
    if (gradient) outputs.push_back(gradient);
  return evaluate(b.finish(outputs), operands);
}

void expect_data(const Array& actual, const Doubles& expected) {
  EXPECT_TRUE(test::close(actual, array(actual.type, expected), test::tolerance(DType::f64)));
}

TEST(Evaluator, ElementwiseBroadcasts) {
  expect_data(value_of(Op::add, {f64({2, 1}, {1, 10}), f64({3}, {1, 2, 3})}),
              {2, 3, 4, 11, 12, 13});
  expect_data(value_of(Op::where_, {boolean({2}, {1, 0}), f64({2}, {1, 2}), f64({}, {9})}), {1, 9});
}

TEST(Evaluator, IntegersTruncateSaturateAndWrap) {
  expect_data(value_of(Op::div, {i64({5}, {7, -7, 7, 0, 5}), i64({5}, {2, 2, -2, 3, 0})}),
              {3, -3, -3, 0, 0});
  expect_data(value_of(Op::div, {i32({1}, {-0x1p31}), i32({1}, {-1})}), {0});
  expect_data(value_of(Op::add, {i32({1}, {0x1p31 - 1}), i32({1}, {1})}), {-0x1p31});
  expect_data(value_of(Op::mul, {i32({1}, {0x1p31 - 1}), i32({1}, {0x1p31 - 1})}), {1});
  const Array wild = f64({6}, {2.9, -2.9, 1e30, -1e30, nan, inf});
  expect_data(value_of(Op::to, {wild}, {{"dtype", DType::i32}}),
              {2, -2, 0x1p31 - 1, -0x1p31, 0, 0x1p31 - 1});
  expect_data(value_of(Op::to, {wild}, {{"dtype", DType::boolean}}), {1, 1, 1, 1, 1, 1});
  expect_data(value_of(Op::to, {i64({2}, {0x1p32 + 5, 0x1p31})}, {{"dtype", DType::i32}}),
              {5, -0x1p31});
}

TEST(Evaluator, ExtremesOfNaNAndZero) {
  const Array a = f64({5}, {nan, 1, -0.0, 0.0, 3}), b = f64({5}, {1, nan, 0.0, -0.0, 2});
  const Array most = value_of(Op::maximum, {a, b}), least = value_of(Op::minimum, {a, b});
  expect_data(most, {nan, nan, 0, 0, 3});
  EXPECT_FALSE(std::signbit(most.data[2]) || std::signbit(most.data[3]));
  expect_data(least, {nan, nan, 0, 0, 2});
  EXPECT_TRUE(std::signbit(least.data[2]) && std::signbit(least.data[3]));
  const Array zeros = f64({3}, {-0.0, 0.0, -0.0});
  EXPECT_FALSE(std::signbit(value_of(Op::amax, {zeros}).data[0]));
  EXPECT_TRUE(std::signbit(value_of(Op::amin, {zeros}).data[0]));
  expect_data(value_of(Op::amax, {f64({3}, {1, nan, 2})}), {nan});
  const Array rectified = value_of(Op::relu, {f64({4}, {nan, -0.0, -1, 2})});
  expect_data(rectified, {nan, 0, 0, 2});
  EXPECT_FALSE(std::signbit(rectified.data[1]));
  expect_data(value_of(Op::sign, {f64({4}, {nan, -3, 2, 0})}), {nan, -1, 1, 0});
}

TEST(Evaluator, ReductionsOverNothing) {
  const Array none = f64({2, 0}, {});
  const Attrs last = {{"dim", I{1}}};
  expect_data(value_of(Op::sum, {none}, last), {0, 0});
  expect_data(value_of(Op::prod, {none}, last), {1, 1});
  expect_data(value_of(Op::amax, {none}, last), {-inf, -inf});
  expect_data(value_of(Op::amin, {none}, last), {inf, inf});
  expect_data(value_of(Op::mean, {none}, last), {nan, nan});
  expect_data(value_of(Op::amin, {i32({0}, {})}), {0x1p31 - 1});
  expect_data(value_of(Op::matmul, {f64({2, 0}, {}), f64({0, 1}, {})}), {0, 0});
}

TEST(Evaluator, Reductions) {
  const Array x = f64({2, 3}, {1, 5, 2, 4, 3, 5});
  expect_data(value_of(Op::sum, {x}), {20});
  expect_data(value_of(Op::sum, {x}, {{"dim", I{0}}}), {5, 8, 7});
  expect_data(value_of(Op::amax, {x}, {{"dim", I{1}}, {"keepdim", true}}), {5, 5});
  expect_data(value_of(Op::prod, {x}, {{"dim", I{-1}}}), {10, 60});
  expect_data(value_of(Op::mean, {x}, {{"dim", I{1}}}), {8.0 / 3, 4});
  expect_data(value_of(Op::argmax, {x}, {{"dim", I{1}}}), {1, 2});
  expect_data(value_of(Op::argmax, {f64({4}, {3, nan, 9, nan})}, {{"dim", I{0}}}), {1});
  expect_data(value_of(Op::argmax, {f64({3}, {7, 7, 1})}, {{"dim", I{0}}}), {0});
}

TEST(Evaluator, Shapes) {
  const Array x = f64({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_data(value_of(Op::permute, {x}, {{"dims", Ints{1, 0}}}), {1, 4, 2, 5, 3, 6});
  expect_data(value_of(Op::slice, {x}, {{"dim", I{1}}, {"step", I{2}}}), {1, 3, 4, 6});
  expect_data(value_of(Op::expand, {f64({2, 1}, {1, 2})}, {{"size", Ints{2, 3}}}),
              {1, 1, 1, 2, 2, 2});
  expect_data(value_of(Op::pad, {f64({1, 2}, {1, 2})},
                       {{"low", Ints{1, 0}}, {"high", Ints{0, 1}}, {"value", 9.0}}),
              {9, 9, 9, 1, 2, 9});
  expect_data(value_of(Op::cat, {f64({2, 1}, {1, 2}), f64({2, 2}, {3, 4, 5, 6})}, {{"dim", I{1}}}),
              {1, 3, 4, 2, 5, 6});
  expect_data(gradients_of(Op::slice, {f64({8}, Doubles(8))}, {1, 2, 3},
                           {{"dim", I{0}}, {"start", I{1}}, {"step", I{3}}})
                  .at(0),
              {0, 1, 0, 0, 2, 0, 0, 3});
}

TEST(Evaluator, Matmul) {
  const Array a = f64({2, 3}, {1, 2, 3, 4, 5, 6}), b = f64({3, 2}, {7, 8, 9, 10, 11, 12});
  const Doubles product = {58, 64, 139, 154};
  expect_data(value_of(Op::matmul, {a, b}), product);
  const Array at = f64({3, 2}, {1, 4, 2, 5, 3, 6}), bt = f64({2, 3}, {7, 9, 11, 8, 10, 12});
  expect_data(value_of(Op::matmul, {at, bt}, {{"transpose_x", true}, {"transpose_other", true}}),
              product);
  // A batch of one matrix each against one for all.
  expect_data(value_of(Op::matmul, {f64({2, 1, 2}, {1, 2, 3, 4}), f64({2, 1}, {10, 1})}), {12, 34});
  expect_data(
      value_of(Op::linear, {f64({2}, {1, 2}), f64({2, 2}, {3, 4, 5, 6}), f64({2}, {10, 20})}),
      {21, 37});
}

TEST(Evaluator, Indexed) {
  const Array x = f64({2, 2}, {1, 2, 3, 4});
  expect_data(value_of(Op::gather, {x, i64({1, 2}, {1, 0})}, {{"dim", I{0}}}), {3, 2});
  expect_data(value_of(Op::scatter_add,
                       {x, i64({2, 2}, {0, 0, 1, 0}), f64({2, 3}, {10, 20, 99, 30, 40, 99})},
                       {{"dim", I{1}}}),
              {31, 2, 43, 34});
  expect_data(value_of(Op::embedding, {i64({3}, {2, 0, 2}), f64({3, 2}, {1, 2, 3, 4, 5, 6})}),
              {5, 6, 1, 2, 5, 6});
  expect_data(
      gradients_of(Op::embedding, {i64({3}, {2, 0, 2}), f64({3, 1}, {1, 2, 3})}, {1, 10, 100})
          .at(0),
      {10, 0, 101});
}

TEST(Evaluator, IndexOutsideIsAnError) {
  for (double index : {2.0, -1.0}) {
    try {
      value_of(Op::gather, {f64({2}, {1, 2}), i64({1}, {index})}, {{"dim", I{0}}});
      FAIL() << "no error for index " << index;
    } catch (const GraphError& error) {
      EXPECT_NE(std::string(error.what()).find("is outside 0 to 1"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Evaluator, ArraysMustFit) {
  Builder b("g");
  const Value x = b.append_source(Op::input, {DType::f32, {2}}, "x");
  const Graph graph = b.finish({x});
  EXPECT_THROW(evaluate(graph, {}), GraphError);
  EXPECT_THROW(evaluate(graph, std::vector{f64({2}, {1, 2})}), GraphError);
  Array short_of_one{TensorType{DType::f32, {2}}};
  short_of_one.data.pop_back();
  EXPECT_THROW(evaluate(graph, std::vector{short_of_one}), GraphError);
}

TEST(Evaluator, DoesNotRoundInsideComposites) {
  // In bf16 the mean of 1 and 1 + 2^-7 would round to one of them.
  const Array x = array({DType::bf16, {2}}, {1, 1 + 0x1p-7});
  EXPECT_EQ(value_of(Op::mean, {x}).data[0], 1 + 0x1p-8);
}

TEST(Evaluator, SoftmaxFamily) {
  const double e = std::exp(1.0), s = 1 + e + e * e;
  expect_data(value_of(Op::softmax, {f64({3}, {1000, 1001, 1002})}), {1 / s, e / s, e * e / s});
  expect_data(value_of(Op::log_softmax, {f64({3}, {0, 1, 2})}),
              {-std::log(s), 1 - std::log(s), 2 - std::log(s)});
  const Array x = f64({2, 3}, {0, 1, 2, 5, 5, 5}), target = i64({2}, {2, 0});
  const double first = std::log(s) - 2, second = std::log(3.0);
  expect_data(value_of(Op::cross_entropy, {x, target}), {(first + second) / 2});
  expect_data(value_of(Op::cross_entropy, {x, target}, {{"reduction", std::string("none")}}),
              {first, second});
  expect_data(value_of(Op::cross_entropy, {x, i64({2}, {2, -100})}), {first});
  expect_data(
      value_of(Op::cross_entropy, {x, i64({2}, {2, -100})}, {{"reduction", std::string("none")}}),
      {first, 0});
  expect_data(value_of(Op::cross_entropy, {x, i64({2}, {-100, -100})}), {nan});
  expect_data(value_of(Op::cross_entropy, {x, i32({2}, {2, 0})}, {{"ignore_index", I{1} << 40}}),
              {(first + second) / 2});
  expect_data(value_of(Op::nll_loss, {x, target}, {{"reduction", std::string("sum")}}), {-7});
  // softmax − onehot over the number that counts; nothing for the ignored.
  expect_data(gradients_of(Op::cross_entropy, {x, i64({2}, {-100, 0})}, {1}).at(0),
              {0, 0, 0, -2.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST(Evaluator, LossesAndNorms) {
  expect_data(value_of(Op::mse_loss, {f64({2}, {1, 4}), f64({2}, {3, 3})}), {2.5});
  expect_data(gradients_of(Op::mse_loss, {f64({2}, {1, 4}), f64({2}, {3, 3})}, {1}).at(0), {-2, 1});
  // mean 2, biased variance 2/3
  const double r = 1 / std::sqrt(2.0 / 3 + 1e-5);
  expect_data(
      value_of(Op::layer_norm, {f64({1, 3}, {1, 2, 3}), f64({3}, {1, 1, 2}), f64({3}, {0, 1, 0})},
               {{"normalized_shape", Ints{3}}}),
      {-r, 1, 2 * r});
}

TEST(Evaluator, Activations) {
  const Array x = f64({2}, {1, -2});
  const auto phi = [](double v) { return 0.5 * (1 + std::erf(v / std::sqrt(2.0))); };
  expect_data(value_of(Op::gelu, {x}), {phi(1), -2 * phi(-2)});
  const double k = std::sqrt(2 / std::acos(-1.0));
  const auto approximate = [k](double v) {
    return 0.5 * v * (1 + std::tanh(k * (v + 0.044715 * v * v * v)));
  };
  expect_data(value_of(Op::gelu, {x}, {{"approximate", std::string("tanh")}}),
              {approximate(1), approximate(-2)});
  expect_data(value_of(Op::sigmoid, {f64({3}, {0, -1000, 1000})}), {0.5, 0, 1});
  expect_data(value_of(Op::silu, {x}), {1 / (1 + std::exp(-1.0)), -2 / (1 + std::exp(2.0))});
}

TEST(Evaluator, AttentionMasks) {
  const Array zeros = f64({2, 1}, {0, 0}), v = f64({2, 1}, {10, 20});
  expect_data(value_of(Op::scaled_dot_product_attention, {zeros, zeros, v}), {15, 15});
  expect_data(value_of(Op::scaled_dot_product_attention, {zeros, zeros, v}, {{"is_causal", true}}),
              {10, 15});
  const Array mask = boolean({2, 2}, {0, 1, 0, 0});
  expect_data(value_of(Op::scaled_dot_product_attention, {zeros, zeros, v, mask}), {20, 0});
  for (const Array& gradient :
       gradients_of(Op::scaled_dot_product_attention, {zeros, zeros, v, mask}, {1, 1}))
    for (double g : gradient.data) EXPECT_TRUE(std::isfinite(g)) << "a row that sees nothing";
}

TEST(Gradients, SharedByTies) {
  expect_data(gradients_of(Op::amax, {f64({4}, {3, 1, 3, 2})}, {1}).at(0), {0.5, 0, 0.5, 0});
  const auto halves =
      gradients_of(Op::maximum, {f64({3}, {1, 2, 3}), f64({3}, {2, 2, 2})}, {1, 1, 1});
  expect_data(halves.at(0), {0, 0.5, 1});
  expect_data(halves.at(1), {1, 0.5, 0});
  expect_data(gradients_of(Op::relu, {f64({3}, {-1, 0, 1})}, {1, 1, 1}).at(0), {0, 0, 1});
}

TEST(Gradients, OfProductsWithZeros) {
  const Array x = f64({3, 3}, {2, 3, 4, 2, 0, 4, 0, 0, 4});
  expect_data(gradients_of(Op::prod, {x}, {1, 1, 1}, {{"dim", I{1}}}).at(0),
              {12, 8, 6, 0, 8, 0, 0, 0, 0});
}

TEST(Gradients, OfPowAtZero) {
  const auto gradients =
      gradients_of(Op::pow, {f64({3}, {0, 0, 2}), f64({3}, {0, 2, 0})}, {1, 1, 1});
  expect_data(gradients.at(0), {0, 0, 0});
  expect_data(gradients.at(1), {0, 0, std::log(2.0)});
}

TEST(Array, BytesRoundTripInEveryDType) {
  for (DType dtype : kAllDTypes) {
    const Array a = array({dtype, {3}}, {0, 1, dtype == DType::boolean ? 1.0 : -3.0});
    std::vector<std::byte> bytes(static_cast<std::size_t>(a.type.bytes()));
    array_to_bytes(a, bytes);
    EXPECT_EQ(array_from_bytes(a.type, bytes).data, a.data) << name_of(dtype);
  }
}

TEST(Array, RoundsToNearestEvenAndSaturates) {
  const auto stored = [](DType dtype, double x) {
    const Array a = array({dtype, {}}, {x});
    std::vector<std::byte> bytes(static_cast<std::size_t>(a.type.bytes()));
    array_to_bytes(a, bytes);
    return array_from_bytes(a.type, bytes).data[0];
  };
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1p-8), 1);                     // tie to even
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);  // not by way of f32
  EXPECT_EQ(stored(DType::f16, 1e6), inf);
  EXPECT_EQ(stored(DType::i32, 1e12), 0x1p31 - 1);
  EXPECT_EQ(stored(DType::i64, 0x1p63), 0x1p63);  // the largest i64, read back as a double
  EXPECT_EQ(stored(DType::i32, nan), 0);
  EXPECT_EQ(strides_of({2, 3, 4}), (std::vector<std::int64_t>{12, 4, 1}));
}

}  // namespace
}  // namespace riffle::ir
