// Printing: golden text, and that reading it back gives the same graph for graphs that no person
// would write.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ir/builder.h"
#include "ir/hash.h"
#include "ir/passes.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  SCOPED_TRACE(text);
  const Graph back = parse(text, "printed");
  verify(back);
  EXPECT_TRUE(structurally_equal(graph, back));
  EXPECT_EQ(graph.name, back.name);
  ASSERT_EQ(graph.nodes.size(), back.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    EXPECT_EQ(graph.nodes[i].name, back.nodes[i].name);
  EXPECT_EQ(print(back), text);
}

TEST(Printer, WritesArgumentsAsAPersonWould) {
  const Graph graph = parse(R"(graph @g {
    %x = input(requires_grad=True) : f32[4, 8]
    %gain = param(frozen=True) : f32[8]
    %shift = param : f32[8]
    %norm = layer_norm(%x, [8], %gain, %shift, eps=1e-06)
    %plain = layer_norm(%x, [8], eps=1e-05)
    break
    %total = sum(%norm, keepdim=True)
    %wide = to(%total, f64)
    %ones = full([2, 2], 1, f64)
    %gelu = gelu(%plain, approximate='tanh')
    %both = cat([%gelu, %norm], 1)
    %part = slice(%both, 1, 2, 9, 3)
    return %wide, %ones, %part, %part
  })",
                            "g.rfl");
  EXPECT_EQ(print(graph), R"(graph @g {
  %x     = input(requires_grad=True) : f32[4, 8]
  %gain  = param(frozen=True) : f32[8]
  %shift = param : f32[8]
  %norm  = layer_norm(%x, [8], %gain, %shift, eps=1e-06)  # f32[4, 8]
  %plain = layer_norm(%x, [8])                            # f32[4, 8]
  break
  %total = sum(%norm, dim=[0, 1], keepdim=True)           # f32[1, 1]
  %wide  = to(%total, f64)                                # f64[1, 1]
  %ones  = full([2, 2], 1.0, dtype=f64)                   # f64[2, 2]
  %gelu  = gelu(%plain, approximate='tanh')               # f32[4, 8]
  %both  = cat([%gelu, %norm], dim=1)                     # f32[4, 16]
  %part  = slice(%both, 1, start=2, end=9, step=3)        # f32[4, 3]
  return %wide, %ones, %part, %part
}
)");
  expect_round_trip(graph);
}

TEST(Printer, OutputsMayRepeatAndMayBeInputs) {
  Builder b("pass");
  const Value x = b.append_source(Op::input, {DType::i64, {}}, "x");
  const Value w = b.append_source(Op::param, {DType::f16, {0, 3}}, "w");
  expect_round_trip(b.finish({x, w, x, x}));
}

TEST(Printer, NamesOfAnyBytesComeBack) {
  Builder b("it's a \\ graph\n");
  std::vector<Value> outputs;
  for (const std::string name :
       {"plain",       "a.b-c_1",        "9",  "",    "graph", "return", "True",
        "f32",         "two words",      "%x", "a,b", "#",     "größe",  "it's",
        "back\\slash", "\t\r\n\x01\x7f", "-a", ".a",  "a:",    "\xff"})
    outputs.push_back(b.append_source(Op::input, {DType::f32, {2}}, name));
  expect_round_trip(b.finish(outputs));
}

TEST(Printer, TextsOfAnyBytesComeBack) {
  // No op takes free text, so the literal alone: what the printer writes, the lexer must read.
  EXPECT_EQ(to_string(AttrValue(std::string("it's\n"))), "'it\\'s\\n'");
}

TEST(Printer, DoublesComeBackBitExactly) {
  using Limits = std::numeric_limits<double>;
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.1,
                                1e-05,
                                1.0 / 3,
                                1e300,
                                5e-324,
                                Limits::max(),
                                Limits::min(),
                                Limits::infinity(),
                                -Limits::infinity(),
                                Limits::quiet_NaN(),
                                -Limits::quiet_NaN(),
                                9007199254740993.0,
                                1e15,
                                1e16,
                                1e17,
                                123456789012345678.0};
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) values.push_back(std::bit_cast<double>(random()));
  Builder b("doubles");
  std::vector<Value> outputs;
  for (const double value : values) outputs.push_back(b.scalar(value, DType::f64));
  const Graph graph = b.finish(outputs);
  const Graph back = parse(print(graph), "printed");
  ASSERT_EQ(back.nodes.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double read = back.nodes[i].attrs.number("fill_value");
    if (std::isnan(values[i]))
      EXPECT_TRUE(std::isnan(read));
    else
      EXPECT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(values[i]))
          << values[i];
  }
  EXPECT_TRUE(structurally_equal(graph, back));
}

// Every op's samples (the op table's own) as graphs: what is printed comes back.
TEST(Printer, EveryOpComesBack) {
  for (const OpInfo& op : all_ops()) {
    if (!op.block.samples) continue;
    SCOPED_TRACE(op.text);
    for (const Sample& sample : op.block.samples()) {
      Builder b("sample");
      std::vector<Value> operands;
      for (const TensorType& type : sample.operands)
        operands.push_back(b.append_source(Op::input, type, "x"));
      const Value result = b.append(op.op, operands, sample.attrs);
      expect_round_trip(b.finish({result}));
    }
  }
}

}  // namespace
}  // namespace riffle::ir
