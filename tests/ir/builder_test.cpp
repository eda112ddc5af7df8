// The Builder: names, normal forms of attributes, shorthands; and every type rule's complaint.
#include "ir/builder.h"

#include <gtest/gtest.h>

namespace riffle::ir {
namespace {

using I = std::int64_t;

struct BuilderTest : ::testing::Test {
  Builder b{"g"};
  Value input(TensorType type) { return b.append_source(Op::input, type, "x"); }
  Value f32(Shape shape) { return input({DType::f32, std::move(shape)}); }
  Value i64(Shape shape) { return input({DType::i64, std::move(shape)}); }
  Value boolean(Shape shape) { return input({DType::boolean, std::move(shape)}); }
  const Attrs& attrs(Value v) { return b.graph()[v.id].attrs; }
  Shape shape(Value v) { return b.type(v).shape; }

  /// The whole message of the GraphError that append throws, or "" when it does not.
  std::string error(Op op, std::vector<Value> operands, Attrs given = {}) {
    const auto before = b.graph().size();
    try {
      b.append(op, operands, std::move(given));
    } catch (const GraphError& e) {
      EXPECT_EQ(b.graph().size(), before) << "nothing half-appended";
      return e.what();
    }
    return "";
  }
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(BuilderTest, NoIndexPicksFromNothing) {
  EXPECT_SAYS(error(Op::embedding, {i64({4}), f32({0, 8})}), "of which there are 0");
  EXPECT_SAYS(error(Op::gather, {f32({0, 8}), i64({2, 8})}, {{"dim", I{0}}}), "there are 0");
  EXPECT_SAYS(error(Op::scatter_add, {f32({0, 8}), i64({2, 8}), f32({2, 8})}, {{"dim", I{0}}}),
              "there are 0");
  EXPECT_EQ(error(Op::embedding, {i64({0}), f32({0, 8})}), "");
}

TEST_F(BuilderTest, NamesAreUnique) {
  const Value x = f32({2});
  const Value first = b.neg(x), second = b.neg(x), named = b.append(Op::neg, {x}, {}, "neg_1");
  EXPECT_EQ(b.graph()[first.id].name, "neg");
  EXPECT_EQ(b.graph()[second.id].name, "neg_1");
  EXPECT_EQ(b.graph()[named.id].name, "neg_1_1");
  Builder more(b.finish({first}));
  EXPECT_EQ(more.graph()[more.neg(first).id].name, "neg_2");
}

TEST_F(BuilderTest, NormalForms) {
  const Value x = f32({2, 3, 4});
  EXPECT_EQ(attrs(b.reshape(x, {6, -1})).ints("shape"), (Ints{6, 4}));
  EXPECT_EQ(attrs(b.expand(x, {5, -1, 3, 4})).ints("size"), (Ints{5, 2, 3, 4}));
  EXPECT_EQ(attrs(b.sum(x, {-1, 0})).ints("dim"), (Ints{0, 2}));
  EXPECT_EQ(attrs(b.sum(x, {})).ints("dim"), (Ints{0, 1, 2}));
  EXPECT_EQ(attrs(b.append(Op::sum, {x}, {{"dim", I{-2}}})).ints("dim"), (Ints{1}));
  EXPECT_EQ(attrs(b.append(Op::permute, {x}, {{"dims", Ints{-1, 0, 1}}})).ints("dims"),
            (Ints{2, 0, 1}));
  const Value tail = b.append(Op::slice, {x}, {{"dim", I{-1}}, {"start", I{-3}}});
  EXPECT_EQ(attrs(tail), (Attrs{{"dim", I{2}}, {"start", I{1}}, {"end", I{4}}, {"step", I{1}}}));
  const Value nothing = b.append(Op::slice, {x}, {{"dim", I{2}}, {"start", I{3}}, {"end", I{1}}});
  EXPECT_EQ(shape(nothing), (Shape{2, 3, 0}));
  EXPECT_EQ(attrs(b.append(Op::softmax, {x})).integer("dim"), 2);
  EXPECT_EQ(attrs(b.append(Op::full, {}, {{"size", Ints{}}, {"fill_value", I{2}}}))
                .find("fill_value")
                ->index(),
            AttrValue(2.0).index());
}

TEST_F(BuilderTest, ShorthandsThatDoNothingReturnTheOperand) {
  const Value x = f32({2, 3});
  EXPECT_EQ(b.cast(x, DType::f32), x);
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.expand(x, {2, 3}), x);
  EXPECT_EQ(b.permute(x, {0, 1}), x);
  EXPECT_EQ(b.sum_to(x, {2, 3}), x);
}

TEST_F(BuilderTest, SumToUndoesBroadcasting) {
  const Value x = f32({4, 2, 3});
  for (const Shape& to :
       {Shape{}, Shape{3}, Shape{1, 3}, Shape{2, 1}, Shape{1, 1, 1}, Shape{4, 1, 3}})
    EXPECT_EQ(shape(b.sum_to(x, to)), to);
  EXPECT_EQ(shape(b.sum_to(f32({0, 3}), {1, 3})), (Shape{1, 3}));
}

TEST_F(BuilderTest, LocationAndProgramId) {
  b.set_location({"model.rfl", 7, 3});
  b.set_program_id(42);
  const Value x = f32({2});
  EXPECT_EQ(to_string(b.graph()[x.id].location), "model.rfl:7:3");
  EXPECT_EQ(b.graph()[x.id].program_id, 42);
  EXPECT_SAYS(error(Op::add, {x, f32({3})}), "model.rfl:7:3: add: ");
  b.set_program_id(-1);
  EXPECT_EQ(b.graph()[b.neg(x).id].program_id, 2);
}

TEST_F(BuilderTest, Shapes) {
  EXPECT_EQ(shape(b.add(f32({5, 1}), f32({67}))), (Shape{5, 67}));
  EXPECT_EQ(shape(b.add(f32({0, 3}), f32({1, 3}))), (Shape{0, 3}));
  EXPECT_EQ(shape(b.matmul(f32({2, 1, 5, 4}), f32({3, 5, 6}), true)), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(shape(b.sum(f32({2, 3}), {0}, true)), (Shape{1, 3}));
  EXPECT_EQ(shape(b.append(Op::linear, {f32({2, 7, 3}), f32({5, 3})})), (Shape{2, 7, 5}));
  EXPECT_EQ(shape(b.append(Op::embedding, {i64({2, 3}), f32({10, 4})})), (Shape{2, 3, 4}));
  EXPECT_EQ(shape(b.append(Op::cross_entropy, {f32({8, 10}), i64({8})})), Shape{});
  const Value compared = b.binary(Op::lt, f32({3}), f32({}));
  EXPECT_EQ(b.type(compared), (TensorType{DType::boolean, {3}}));
  const Value strided =
      b.append(Op::slice, {f32({10})}, {{"dim", I{0}}, {"start", I{1}}, {"step", I{4}}});
  EXPECT_EQ(shape(strided), Shape{3});
}

TEST_F(BuilderTest, SaysWhatWouldFit) {
  const Value x = f32({64, 1024});
  EXPECT_SAYS(error(Op::linear, {x, f32({1024, 512})}),
              "linear: weight f32[1024, 512] does not fit x f32[64, 1024]: expected [out, 1024]");
  EXPECT_SAYS(error(Op::linear, {x, f32({512, 1024}), f32({1024})}),
              "bias f32[1024] does not fit weight f32[512, 1024]: expected [512]");
  EXPECT_SAYS(error(Op::add, {f32({3}), f32({4})}), "f32[3] and f32[4] do not broadcast");
  EXPECT_SAYS(error(Op::add, {f32({3}), i64({3})}),
              "expected equal dtypes. Try: to(other, dtype=f32)");
  EXPECT_SAYS(error(Op::exp, {i64({3})}), "x is i64[3]: expected a floating dtype");
  EXPECT_SAYS(error(Op::neg, {boolean({3})}), "expected a floating or integer dtype");
  EXPECT_SAYS(error(Op::logical_and, {f32({3}), f32({3})}), "expected bool");
  EXPECT_SAYS(error(Op::where_, {f32({3}), f32({3}), f32({3})}),
              "condition is f32[3]: expected bool");
  EXPECT_SAYS(error(Op::matmul, {f32({2, 3}), f32({4, 5})}), "expected [..., 3, n]");
  EXPECT_SAYS(error(Op::matmul, {f32({2, 3}), f32({5, 4})}, {{"transpose_other", true}}),
              "expected [..., n, 3]");
  EXPECT_SAYS(error(Op::matmul, {f32({3}), f32({3, 2})}), "at least 2 dimensions");
  EXPECT_SAYS(error(Op::matmul, {f32({2, 3, 3}), f32({4, 3, 3})}), "do not broadcast");
  EXPECT_SAYS(error(Op::reshape, {f32({4, 3})}, {{"shape", Ints{5, -1}}}), "not a multiple of 5");
  EXPECT_SAYS(error(Op::reshape, {f32({4, 3})}, {{"shape", Ints{-1, -1}}}),
              "more than one size open");
  EXPECT_SAYS(error(Op::reshape, {f32({0, 3})}, {{"shape", Ints{0, -1}}}), "ambiguous");
  EXPECT_SAYS(error(Op::reshape, {f32({4, 3})}, {{"shape", Ints{13}}}),
              "expected 12 elements, not 13");
  EXPECT_SAYS(error(Op::expand, {f32({3})}, {{"size", Ints{4}}}), "f32[3] does not expand to [4]");
  EXPECT_SAYS(error(Op::permute, {f32({2, 3})}, {{"dims", Ints{0, 0}}}), "twice");
  EXPECT_SAYS(error(Op::slice, {f32({2, 3})}, {{"dim", I{2}}}),
              "dim 2 does not fit f32[2, 3]: expected -2 to 1");
  EXPECT_SAYS(error(Op::slice, {f32({2})}, {{"dim", I{0}}, {"step", I{0}}}), "step=0");
  EXPECT_SAYS(error(Op::pad, {f32({2})}, {{"low", Ints{-1}}, {"high", Ints{0}}}), "negative width");
  EXPECT_SAYS(error(Op::cat, {f32({2, 3}), f32({2, 4})}), "tensor 1 is f32[2, 4]");
  EXPECT_SAYS(error(Op::sum, {f32({2})}, {{"dim", Ints{1}}}), "dim 1 does not fit");
  EXPECT_SAYS(error(Op::argmax, {f32({2, 0})}, {{"dim", I{1}}}), "no elements along dim 1");
  EXPECT_SAYS(error(Op::gather, {f32({2, 3}), i64({4, 3})}, {{"dim", I{1}}}),
              "index i64[4, 3] does not fit");
  EXPECT_SAYS(error(Op::scatter_add, {f32({4}), i64({5}), f32({3})}, {{"dim", I{0}}}),
              "src f32[3] does not fit");
  EXPECT_SAYS(error(Op::gelu, {x}, {{"approximate", std::string("erf")}}),
              "expected one of 'none', 'tanh'");
  EXPECT_SAYS(error(Op::cross_entropy, {f32({8, 10}), i64({7})}),
              "target i64[7] does not fit x f32[8, 10]: expected [8]");
  EXPECT_SAYS(error(Op::cross_entropy, {f32({8, 10}), f32({8})}), "expected i64 or i32");
  EXPECT_SAYS(error(Op::mse_loss, {f32({8, 1}), f32({8})}), "expected equal shapes");
  EXPECT_SAYS(error(Op::layer_norm, {f32({8, 4})}, {{"normalized_shape", Ints{8}}}),
              "expected its last sizes");
  EXPECT_SAYS(error(Op::embedding, {f32({8}), f32({8, 4})}),
              "input is f32[8]: expected i64 or i32");
  EXPECT_SAYS(error(Op::scaled_dot_product_attention, {f32({4, 8}), f32({4, 7}), f32({4, 8})}),
              "expected [..., S, 8]");
  EXPECT_SAYS(error(Op::full, {}, {{"size", Ints{2}}, {"fill_value", 0.5}, {"dtype", DType::i64}}),
              "fill_value=0.5 does not fit");
}

TEST_F(BuilderTest, ChecksArguments) {
  const Value x = f32({4});
  EXPECT_SAYS(error(Op::add, {x}), "operand 'other' is missing");
  EXPECT_SAYS(error(Op::neg, {x, x}), "2 operands given: expected 1");
  EXPECT_SAYS(error(Op::linear, {x, x, x, x}), "4 operands given: expected 2 to 3");
  EXPECT_SAYS(error(Op::softmax, {x}, {{"axis", I{0}}}), "has no argument 'axis': expected dim");
  EXPECT_SAYS(error(Op::softmax, {x}, {{"dim", 0.5}}), "dim=0.5 does not fit: expected an integer");
  EXPECT_SAYS(error(Op::to, {x}), "argument 'dtype' is missing: expected a dtype");
}

TEST_F(BuilderTest, RefusesSizesThatOverflow) {
  EXPECT_SAYS(error(Op::full, {}, {{"size", Ints{1 << 30, 1 << 30}}, {"fill_value", 0.0}}), "2^48");
  EXPECT_SAYS(error(Op::full, {}, {{"size", Ints{INT64_MAX, INT64_MAX, 0}}, {"fill_value", 0.0}}),
              "2^48");
  EXPECT_SAYS(error(Op::expand, {f32({1})}, {{"size", Ints{I{1} << 40, 1 << 20}}}), "2^48");
  EXPECT_SAYS(error(Op::add, {f32({1 << 30, 1}), f32({1, 1 << 30})}), "2^48");
  EXPECT_THROW(b.append_source(Op::input, {DType::f32, {-1}}, "n"), GraphError);
  EXPECT_SAYS(error(Op::reshape, {f32({4})}, {{"shape", Ints{INT64_MAX, INT64_MAX, 4, -1}}}),
              "does not fit");
}

TEST(GraphFacts, ComputeTrainableUsers) {
  Builder b("g");
  const Value w = b.append_source(Op::param, {DType::f32, {2}}, "w");
  const Value frozen = b.append_source(Op::param, {DType::f32, {2}}, "f", {{"frozen", true}});
  const Value index = b.append_source(Op::param, {DType::i64, {2}}, "i");
  b.append_break();
  const Value y = b.mul(w, w);
  const Graph graph = b.finish({y, w});
  EXPECT_TRUE(is_trainable(graph[w.id]));
  EXPECT_FALSE(is_trainable(graph[frozen.id]));
  EXPECT_FALSE(is_trainable(graph[index.id])) << "integers have no gradient";
  EXPECT_TRUE(is_compute(graph[y.id]));
  EXPECT_FALSE(is_compute(graph[w.id]));
  EXPECT_FALSE(is_compute(graph[3]));
  EXPECT_EQ(graph.find("mul"), y.id);
  EXPECT_EQ(graph.find(""), kNoValue);
  EXPECT_EQ(graph.parameters().size(), 3u);
  EXPECT_EQ(users_of(graph)[0], (std::vector<ValueId>{y.id, y.id}));
}

}  // namespace
}  // namespace riffle::ir
