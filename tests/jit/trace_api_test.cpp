// riffle::trace and the functions of include/riffle/functions.h: complete, equal to the text form,
// and errors at the caller's line.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "ir/hash.h"
#include "ir/text.h"
#include "riffle/riffle.h"

namespace riffle::test {
namespace {

std::string header_text() {
  std::stringstream text;
  for (const char* name : {"functions.h", "elementwise.def"})
    text << std::ifstream(std::string(RIFFLE_SOURCE_DIR) + "/include/riffle/" + name).rdbuf();
  EXPECT_GT(text.str().size(), 1000u);
  return text.str();
}

/// Names of the parameters of `Tensor name(…)` in the header, without the last, `where`; nullopt
/// when there is no such function.
std::optional<std::vector<std::string>> declared_arguments(const std::string& header,
                                                           const std::string& name) {
  std::smatch match;
  if (std::regex_search(header, match, std::regex("RIFFLE_UNARY\\(" + name + "\\)")))
    return std::vector<std::string>{"x"};
  if (std::regex_search(header, match, std::regex("RIFFLE_BINARY\\(" + name + "\\)")))
    return std::vector<std::string>{"x", "other"};
  const std::size_t at = header.find("Tensor " + name + "(");
  if (at == std::string::npos) return std::nullopt;
  std::size_t begin = header.find('(', at) + 1, depth = 1, end = begin;
  std::vector<std::string> pieces(1);
  for (; depth > 0; ++end) {
    const char c = header[end];
    depth += (c == '(' || c == '{' || c == '<') ? 1 : (c == ')' || c == '}' || c == '>') ? -1 : 0;
    if (c == ',' && depth == 1)
      pieces.emplace_back();
    else if (depth > 0)
      pieces.back() += c;
  }
  std::vector<std::string> names;
  for (const std::string& piece : pieces) {
    const std::string declaration = piece.substr(0, piece.find('='));
    std::smatch last;
    EXPECT_TRUE(std::regex_search(declaration, last, std::regex("(\\w+)\\s*$"))) << piece;
    names.push_back(last[1]);
  }
  EXPECT_EQ(names.back(), "where") << name << " must know its caller's line";
  names.pop_back();
  return names;
}

TEST(Functions, AreThereForEveryOpWithItsArguments) {
  const std::string header = header_text();
  for (const ir::OpInfo& op : ir::all_ops()) {
    if (op.maximum_operands() == 0) continue;
    const auto arguments = declared_arguments(header, std::string(op.text));
    ASSERT_TRUE(arguments.has_value()) << "include/riffle/functions.h has no " << op.text;
    std::vector<std::string> expected;
    for (const ir::ArgumentSpec& argument : op.arguments) expected.push_back(argument.name);
    if (op.text == "pow") expected[1] = "other";  // one of RIFFLE_BINARY
    EXPECT_EQ(*arguments, expected) << op.text;
  }
}

Graph traced_model() {
  return trace("model", [](Tracer& t) -> std::vector<Tensor> {
    Tensor x = t.input("x", {DType::f32, {4, 8}});
    Tensor target = t.input("target", {DType::i64, {4}});
    Tensor w1 = t.param("w1", {DType::f32, {6, 8}});
    Tensor b1 = t.param("b1", {DType::f32, {6}});
    Tensor w2 = t.param("w2", {DType::f32, {3, 6}});
    Tensor scale = t.param("scale", {DType::f32, {6}}, /*frozen=*/true);
    Tensor hidden = t.named(gelu(linear(x, w1, b1), "tanh"), "hidden");
    // One call a line: within an expression C++ leaves their order to the compiler.
    Tensor scaled = hidden * 2.0 + scale;
    Tensor inverse = 1.0 / (abs(hidden) + 1.0);
    Tensor shifted = scaled - inverse;
    t.graph_break();
    Tensor normal = layer_norm(-shifted, {6});
    Tensor logits = t.named(linear(normal, w2), "logits");
    Tensor loss = cross_entropy(logits, target);
    return {loss, logits};
  });
}

TEST(Trace, GivesTheGraphOfTheText) {
  const Graph traced = traced_model();
  const Graph parsed = Graph::parse(R"(graph @model {
    %x      = input : f32[4, 8]
    %target = input : i64[4]
    %w1     = param : f32[6, 8]
    %b1     = param : f32[6]
    %w2     = param : f32[3, 6]
    %scale  = param(frozen=True) : f32[6]
    %linear = linear(%x, %w1, %b1)
    %hidden = gelu(%linear, approximate='tanh')
    %mul    = mul(%hidden, 2)
    %add    = add(%mul, %scale)
    %abs    = abs(%hidden)
    %add_1  = add(%abs, 1)
    %div    = div(1, %add_1)
    %sub    = sub(%add, %div)
    break
    %neg    = neg(%sub)
    %norm   = layer_norm(%neg, [6])
    %logits = linear(%norm, %w2)
    %loss   = cross_entropy(%logits, %target)
    return %loss, %logits
  })");
  EXPECT_TRUE(ir::structurally_equal(traced.ir(), parsed.ir())) << traced.text() << "\n"
                                                                << parsed.text();
  EXPECT_EQ(ir::structural_hash(traced.ir()), ir::structural_hash(parsed.ir()));
  const Graph again = Graph::parse(traced.text());
  EXPECT_TRUE(ir::structurally_equal(traced.ir(), again.ir()));
  EXPECT_EQ(again.text(), traced.text());
}

TEST(Trace, SaysWhatItHolds) {
  const Graph graph = traced_model();
  auto names = [](const std::vector<Graph::Named>& values) {
    std::string text;
    for (const Graph::Named& value : values) text += value.name + " ";
    return text;
  };
  EXPECT_EQ(names(graph.inputs()), "x target ");
  EXPECT_EQ(names(graph.parameters()), "w1 b1 w2 scale ");
  EXPECT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[1].name, "logits");
  EXPECT_EQ(graph.outputs()[1].type, (TensorType{DType::f32, {4, 3}}));
  EXPECT_NE(graph.table().find("call_function"), std::string::npos);
}

TEST(Trace, TrainsWhatItTraced) {
  Session session({.threads = 1, .cache_directory = ""});
  Executable executable = session.compile(traced_model(), {.split = "markers"});
  EXPECT_EQ(executable.partition_count(), 2u);
  executable.init(0);
  const double first = executable.step().loss;
  EXPECT_LT(executable.step().loss, first);
}

/// Runs a trace, which must throw, and returns the error.
template <typename F>
GraphError trace_error(F model) {
  try {
    trace("wrong", [&](Tracer& t) { return std::vector<Tensor>{model(t)}; });
  } catch (const GraphError& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}
void expect_at(const GraphError& error, int line) {
  const std::string where(error.where());
  EXPECT_NE(where.find("trace_api_test.cpp:" + std::to_string(line)), std::string::npos)
      << error.what() << "\nnot at line " << line;
}

TEST(Trace, ErrorsNameTheCallersLineAndWhatWouldFit) {
  int line = 0;
  const GraphError shape = trace_error([&](Tracer& t) {
    Tensor x = t.input("x", {DType::f32, {4, 8}});
    Tensor w = t.param("w", {DType::f32, {6, 7}});
    line = __LINE__ + 1;
    return linear(x, w);
  });
  expect_at(shape, line);
  const std::string text = shape.what();
  EXPECT_NE(text.find("linear"), std::string::npos) << text;
  EXPECT_NE(text.find("[4, 8]"), std::string::npos) << text;
  EXPECT_NE(text.find("[6, 7]"), std::string::npos) << text;
  EXPECT_NE(text.find('8'), std::string::npos) << text;

  const GraphError broadcast = trace_error([&](Tracer& t) {
    Tensor x = t.input("x", {DType::f32, {4, 8}}), y = t.input("y", {DType::f32, {3, 8}});
    line = __LINE__ + 1;
    return x + y;
  });
  expect_at(broadcast, line);

  const GraphError dtype = trace_error([&](Tracer& t) {
    Tensor x = t.input("x", {DType::f32, {4}}), y = t.input("y", {DType::f64, {4}});
    line = __LINE__ + 1;
    return mul(x, y);
  });
  expect_at(dtype, line);
  EXPECT_NE(std::string(dtype.what()).find("f64"), std::string::npos) << dtype.what();

  const GraphError empty = trace_error([&](Tracer& t) {
    Tensor x = t.input("x", {DType::f32, {4}});
    line = __LINE__ + 1;
    return maximum(x, Tensor());
  });
  expect_at(empty, line);

  const GraphError source = trace_error([&](Tracer& t) {
    line = __LINE__ + 1;
    return t.param("w", {DType::f32, {-3}});
  });
  expect_at(source, line);
}

TEST(Trace, TensorsOfAnotherTraceAndEmptyOnesAreRefused) {
  Tensor stray;
  (void)trace("first", [&](Tracer& t) { return stray = t.input("x", {DType::f32, {2}}); });
  EXPECT_THROW((void)Tensor().type(), UsageError);
  EXPECT_THROW(trace("second", [&](Tracer&) { return Tensor(); }), GraphError);
  EXPECT_THROW(trace("third", [&](Tracer&) { return std::vector<Tensor>{}; }), GraphError);
}

TEST(Trace, ExceptionsOfTheModelPassThrough) {
  EXPECT_THROW(trace("model", [](Tracer&) -> Tensor { throw std::out_of_range("mine"); }),
               std::out_of_range);
}

}  // namespace
}  // namespace riffle::test
