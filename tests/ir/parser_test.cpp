// What the parser accepts, and for each kind of bad text the place and words of its error.
#include "ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "ir/hash.h"
#include "ir/passes.h"

namespace riffle::ir {
namespace {

/// A graph around the statements; they start in line 3, column 3.
std::string around(const std::string& statements, const std::string& result = "%x") {
  return "graph @g {\n  %x = input : f32[4, 8]\n  " + statements + "\n  return " + result + "\n}\n";
}

TEST(Parser, ReadsTypesArgumentsAndOutputs) {
  const Graph graph = parse(R"(
    # a comment
    graph @mlp {
      %x         = input(requires_grad=True) : f32[64, 32]   # another
      %y         : f32[64, 16] = input
      %w.weight  = param : f32[16, 32]
      %scale     = param(frozen=True) : f32[]

      %linear : f32[64,16] = linear(%x, weight=%w.weight)
      break
      %scaled    = mul(%linear, %scale)
      %soft      = softmax(%scaled, -1)
      %both      = cat([%scaled, %soft], dim=1)
      %loss      = mse_loss(%scaled, %y, reduction='sum')
      return %loss, %both, %loss, %x
    })",
                            "mlp.rfl");
  verify(graph);
  EXPECT_EQ(graph.name, "mlp");
  ASSERT_EQ(graph.size(), 10);
  EXPECT_TRUE(graph[0].attrs.flag("requires_grad"));
  EXPECT_FALSE(graph[1].attrs.flag("requires_grad"));
  EXPECT_TRUE(graph[3].attrs.flag("frozen"));
  EXPECT_EQ(graph[3].type, (TensorType{DType::f32, {}}));
  EXPECT_EQ(graph[4].operands, (std::vector<ValueId>{0, 2}));
  EXPECT_EQ(graph[5].op, Op::break_);
  EXPECT_EQ(graph[7].attrs.integer("dim"), 1);
  EXPECT_EQ(graph[8].operands, (std::vector<ValueId>{6, 7}));
  EXPECT_EQ(graph[8].type, (TensorType{DType::f32, {64, 32}}));
  EXPECT_EQ(graph[9].attrs.text("reduction"), "sum");
  EXPECT_EQ(graph.outputs, (std::vector<ValueId>{9, 8, 9, 0}));
}

TEST(Parser, NodesKnowTheirPlaceAndProgramOrder) {
  const Graph graph = parse(around("%a = relu(%x)\n    break\n  %b = neg(%a)"), "dir/g.rfl");
  ASSERT_EQ(graph.size(), 4);
  EXPECT_EQ(graph[1].location, (SourceLocation{"dir/g.rfl", 3, 3}));
  EXPECT_EQ(graph[2].location, (SourceLocation{"dir/g.rfl", 4, 5}));
  EXPECT_EQ(graph[3].location, (SourceLocation{"dir/g.rfl", 5, 3}));
  for (ValueId id = 0; id < graph.size(); ++id) EXPECT_EQ(graph[id].program_id, id);
}

TEST(Parser, NumbersInPlaceOfValuesBecomeScalarsOfTheOtherOperandsDtype) {
  const Graph graph = parse(R"(graph @g {
      %x    = input : bf16[4]
      %i    = input : i64[4]
      %mask = input : bool[4]
      %a    = mul(%x, 0.5)
      %b    = sub(1, %x)
      %c    = add(%i, -3)
      %d    = where(%mask, %x, -inf)
      %e    = eq(%mask, True)
      %full = maximum(%x, nan)
      return %a, %b, %c, %d, %e, %full
    })",
                            "g.rfl");
  verify(graph);
  std::vector<Node> scalars;
  for (const Node& node : graph.nodes)
    if (node.op == Op::full) scalars.push_back(node);
  ASSERT_EQ(scalars.size(), 6u);
  EXPECT_EQ(scalars[0].type, (TensorType{DType::bf16, {}}));
  EXPECT_EQ(scalars[0].attrs.number("fill_value"), 0.5);
  EXPECT_EQ(scalars[1].attrs.number("fill_value"), 1.0);
  EXPECT_EQ(scalars[2].type, (TensorType{DType::i64, {}}));
  EXPECT_EQ(scalars[2].attrs.number("fill_value"), -3.0);
  EXPECT_EQ(scalars[3].type, (TensorType{DType::bf16, {}}));
  EXPECT_EQ(scalars[3].attrs.number("fill_value"), -INFINITY);
  EXPECT_EQ(scalars[4].type, (TensorType{DType::boolean, {}}));
  EXPECT_TRUE(std::isnan(scalars[5].attrs.number("fill_value")));
  // The scalars' names leave the names of the text alone.
  EXPECT_EQ(graph[graph.find("full")].op, Op::maximum);
  EXPECT_EQ(graph[graph[graph.find("b")].operands[0]].op, Op::full);
}

TEST(Parser, OptionalOperandsMayBeLeftOutOrNone) {
  const Graph graph = parse(around("%a = layer_norm(%x, [8], None, None, 1e-06)\n"
                                   "  %b = layer_norm(%x, 8, eps=1e-06)"),
                            "g.rfl");
  EXPECT_EQ(graph[1].operands, (std::vector<ValueId>{0}));
  EXPECT_EQ(graph[1].attrs, graph[2].attrs);
  EXPECT_EQ(graph[1].attrs.number("eps"), 1e-06);
}

TEST(Parser, ArgumentsMayGoOverSeveralLines) {
  const Graph graph =
      parse(around("%a = reshape(\n    %x,   # what\n    [2,\n 16,],\n  )"), "g.rfl");
  EXPECT_EQ(graph[1].type.shape, (Shape{2, 16}));
}

TEST(Parser, QuotedNamesMayHoldAnything) {
  const Graph graph = parse(
      "graph @'a graph' {\n %'x y' = input : f32[]\n %'it\\'s \\x41' = neg(%'x y')\n"
      " return %'it\\'s A'\n}",
      "g.rfl");
  EXPECT_EQ(graph.name, "a graph");
  EXPECT_EQ(graph[0].name, "x y");
  EXPECT_EQ(graph[1].name, "it's A");
}

struct BadText {
  const char* what;  ///< names the case in failures
  std::string text;
  const char* place;      ///< "LINE:COL"
  const char* words;      ///< in the message
  const char* hint = "";  ///< in the hint
};

std::string graph_of(const std::string& body) { return "graph @g {\n" + body; }

const std::vector<BadText>& bad_texts() {
  static const auto& cases = *new std::vector<BadText>{
      // the frame
      {"empty", "", "1:1", "expected 'graph @name {', found the end of the text"},
      {"no graph", "module @g {}", "1:1", "expected 'graph @name {', found 'module'"},
      {"no name", "graph {", "1:7", "expected the graph's name"},
      {"name without sigil", "graph mlp {", "1:7", "expected the graph's name"},
      {"empty name", "graph @ {", "1:7", "expected a name after '@'"},
      {"no brace", "graph @g\n", "1:9", "expected '{' after the graph's name"},
      {"nothing in it", "graph @g {\n}", "2:1", "expected 'return', found '}'", "return %value"},
      {"no return", graph_of("%x = input : f32[1]\n}"), "3:1", "expected 'return', found '}'"},
      {"ends early", graph_of("%x = input : f32[1]\n"), "3:1",
       "expected 'return', found the end of the text"},
      {"no closing brace", graph_of("%x = input : f32[1]\nreturn %x\n"), "4:1",
       "expected '}' at the end of the graph"},
      {"statement after return", graph_of("%x = input : f32[1]\nreturn %x\n%y = neg(%x)\n}"), "4:1",
       "last statement"},
      {"text after the graph", graph_of("%x = input : f32[1]\nreturn %x\n}\ngraph @h {}"), "5:1",
       "expected the end of the text after the graph"},
      {"return of nothing", graph_of("%x = input : f32[1]\nreturn\n}"), "3:7",
       "expected a value to return"},
      {"return of a number", graph_of("%x = input : f32[1]\nreturn 1\n}"), "3:8",
       "expected a value to return"},
      {"return ends in a comma", graph_of("%x = input : f32[1]\nreturn %x,\n}"), "3:11",
       "expected a value to return"},
      {"return of an unknown value", around("", "%z"), "4:10", "%z is not defined"},
      // statements
      {"no name for a value", around("relu(%x)"), "3:3", "expected '%name = …'", "%relu = relu(…)"},
      {"a word", around("hello"), "3:3", "expected '%name = …', 'break' or 'return'"},
      {"no equals sign", around("%y relu(%x)"), "3:6", "expected '=' after the value's name"},
      {"no op", around("%y ="), "3:7", "expected the name of an op, found the end of the line"},
      {"a value as op", around("%y = %x"), "3:8", "expected the name of an op, found %x"},
      {"unknown op", around("%y = rellu(%x)"), "3:8", "there is no op 'rellu'", "relu"},
      {"unknown op, nothing like it", around("%y = quaternion_spline(%x)"), "3:8", "there is no op",
       "docs/text-format.md"},
      {"host_call", around("%y = host_call(%x)"), "3:8", "not supported yet"},
      {"a named break", around("%y = break"), "3:8", "computes no value"},
      {"two statements in a line", around("%y = relu(%x) %z = relu(%x)"), "3:17",
       "expected the end of the line"},
      {"words after break", around("break here"), "3:9", "expected the end of the line"},
      {"defined twice", around("%y = relu(%x)\n%y = neg(%x)"), "4:1", "%y is defined twice",
       "line 3"},
      {"used before its definition", around("%y = relu(%z)\n%z = relu(%x)"), "3:13",
       "%z is used before it is defined", "line 4"},
      {"defined by itself", around("%y = relu(%y)"), "3:13", "%y is used before it is defined"},
      {"misspelt value", around("%hidden = relu(%x)\n%z = relu(%hiden)"), "4:11",
       "%hiden is not defined", "%hidden"},
      // types
      {"input without type", around("%y = input"), "3:13", "input needs a type", "input : f32"},
      {"param without type", around("%y = param(frozen=True)"), "3:26", "param needs a type"},
      {"unknown dtype", around("%y = input : float32[4]"), "3:16", "there is no dtype 'float32'",
       "f32"},
      {"no size list", around("%y = input : f32"), "3:19", "a scalar's type is f32[]"},
      {"negative size", around("%y = input : f32[4, -1]"), "3:23", "may not be negative: -1"},
      {"fractional size", around("%y = input : f32[1.5]"), "3:20", "expected an integer"},
      {"size is a word", around("%y = input : f32[n]"), "3:20", "expected a size, found 'n'"},
      {"size list not closed", around("%y = input : f32[4"), "3:21", "expected ',' or ']'"},
      {"sizes without comma", around("%y = input : f32[4 4]"), "3:22", "expected ',' or ']'"},
      {"size beyond 64 bits", around("%y = input : f32[99999999999999999999]"), "3:20",
       "does not fit in 64 bits"},
      {"sizes overflow", around("%y = input : f32[4294967296, 4294967296]"), "3:16",
       "more than 2^48 elements"},
      {"wrong type written", around("%y : f32[4, 9] = relu(%x)"), "3:8",
       "%y is f32[4, 8], not f32[4, 9] as written"},
      {"wrong type written behind", around("%y = relu(%x) : f64[4, 8]"), "3:19",
       "%y is f32[4, 8], not f64[4, 8] as written"},
      {"type written twice", around("%y : f32[4] = input : f32[4]"), "3:23",
       "the type of %y is written twice"},
      // arguments
      {"unknown keyword", around("%y = softmax(%x, axis=1)"), "3:20",
       "softmax has no argument 'axis'", "softmax(x, dim)"},
      {"keyword twice", around("%y = softmax(%x, 1, dim=1)"), "3:23",
       "gets its argument 'dim' twice"},
      {"too many arguments", around("%y = relu(%x, 1)"), "3:17", "relu takes at most 1 argument",
       "relu(x)"},
      {"too few arguments", around("%y = add(%x)"), "3:8", "add needs its argument 'other'",
       "add(x, other)"},
      {"no arguments", around("%y = relu"), "3:8", "relu needs its argument 'x'"},
      {"required attribute missing", around("%y = reshape(%x)"), "3:8",
       "reshape needs its argument 'shape'"},
      {"position after keyword", around("%y = softmax(x=%x, 1)"), "3:22",
       "may not follow one by keyword"},
      {"string for a flag", around("%y = sum(%x, keepdim='yes')"), "3:24",
       "expected True or False for 'keepdim' of sum, found a string"},
      {"lower-case flag", around("%y = sum(%x, keepdim=true)"), "3:24",
       "expected True or False for 'keepdim' of sum, found 'true'"},
      {"fraction for an integer", around("%y = softmax(%x, dim=0.5)"), "3:24",
       "expected an integer"},
      {"value for an attribute", around("%y = softmax(%x, %x)"), "3:20",
       "expected an integer for 'dim' of softmax, found a value"},
      {"list for an operand", around("%y = relu([%x])"), "3:13",
       "expected a value such as %x for 'x' of relu, found a list of values"},
      {"string for an operand", around("%y = relu('x')"), "3:13", "found a string"},
      {"value for a list", around("%y = cat(%x)"), "3:12", "expected a list of values"},
      {"unknown dtype in an argument", around("%y = to(%x, half)"), "3:15",
       "there is no dtype 'half'"},
      {"values and numbers in a list", around("%y = cat([%x, 1])"), "3:17",
       "expected a value in the list, found '1'"},
      {"lists in a list", around("%y = permute(%x, [[0], 1])"), "3:21",
       "expected an integer or a value in the list, found '['"},
      {"argument list not closed", around("%y = relu(%x\n  %z = neg(%x)"), "3:15",
       "expected ',' or ')' after the argument, found the end of the line"},
      {"list not closed", around("%y = permute(%x, [0, 1"), "3:25", "expected ',' or ']'"},
      {"comma first", around("%y = relu(, %x)"), "3:13", "expected an argument, found ','"},
      {"bias without weight", around("%w = param : f32[8]\n%y = layer_norm(%x, [8], bias=%w)"),
       "4:31", "only together with 'weight'"},
      {"number without a dtype", around("%y = add(1, 2)"), "3:12", "no operand of add says"},
      {"a fraction with integers", around("%i = input : i64[2]\n%y = mul(%i, 0.5)"), "4:14",
       "0.5 is no integer"},
      {"not a number with integers", around("%i = input : i64[2]\n%y = mul(%i, nan)"), "4:14",
       "nan is no integer"},
      {"a number too wide for i32", around("%i = input : i32[2]\n%y = mul(%i, 2147483648)"), "4:14",
       "out of range"},
      {"truth with floats", around("%y = mul(%x, True)"), "3:16", "True is a bool"},
      {"overflowing number", around("%y = mul(%x, 1e999)"), "3:16", "does not fit in a double"},
      {"overflowing integer", around("%y = softmax(%x, 9223372036854775808)"), "3:20",
       "does not fit in 64 bits"},
      // type rules come out at the statement
      {"sizes that do not broadcast", around("%w = param : f32[3]\n  %y = add(%x, %w)"), "4:3",
       "add: f32[4, 8] and f32[3] do not broadcast"},
      {"weight that does not fit", around("%w = param : f32[8, 4]\n  %y = linear(%x, %w)"), "4:3",
       "expected [out, 8]"},
      {"dtypes that differ", around("%w = param : f64[8]\n  %y = add(%x, %w)"), "4:3",
       "expected equal dtypes"},
      {"reshape to another count", around("%y = reshape(%x, [5, 5])"), "3:3",
       "expected 32 elements"},
      {"dimension out of range", around("%y = softmax(%x, 2)"), "3:3", "expected -2 to 1"},
      {"unknown word", around("%y = mse_loss(%x, %x, 'median')"), "3:3", "expected one of 'mean'"},
      // characters
      {"string not closed", around("%y = gelu(%x, 'tanh)"), "3:17", "does not end on its line"},
      {"double quotes", around("%y = gelu(%x, \"tanh\")"), "3:17", "single quotes"},
      {"unknown escape", around("%y = gelu(%x, 'a\\q')"), "3:19", "unknown escape"},
      {"short hexadecimal escape", around("%y = gelu(%x, 'a\\x4')"), "3:22", "two hexadecimal"},
      {"string ends in an escape", "graph @'a\\", "1:10", "unknown escape"},
      {"empty quoted name", around("%'' = relu(%x)"), "3:3", "may not be empty"},
      {"zero byte in a name", around("%'a\\x00' = relu(%x)"), "3:3", "zero byte"},
      {"zero byte", around(std::string("%y = relu(%x\0)", 14)), "3:15", "unexpected byte 0x00"},
      {"zero byte in a string", around(std::string("%y = gelu(%x, 'a\0')", 19)), "3:19",
       "unexpected byte 0x00 in a string"},
      {"unexpected character", around("%y = relu(%x);"), "3:16", "unexpected ';'"},
      {"columns count characters", around("%y = relu(%'größe')"), "3:13", "is not defined"},
      {"not ASCII", around("%größe = relu(%x)"), "3:6", "unexpected byte 0xc3"},
      {"malformed number", around("%y = mul(%x, 1.2.3)"), "3:16", "malformed number '1.2.3'"},
      {"number with a suffix", around("%y = mul(%x, 1f)"), "3:16", "malformed number '1f'"},
      {"exponent without digits", around("%y = mul(%x, 1e)"), "3:16", "malformed number '1e'"},
      {"a lone minus", around("%y = mul(%x, -)"), "3:16", "malformed number '-'"},
      {"minus a word", around("%y = mul(%x, -nan)"), "3:16", "malformed number '-nan'"},
      {"a lone percent", around("% = relu(%x)"), "3:3", "expected a name after '%'"},
  };
  return cases;
}

TEST(Parser, BadTextIsRefusedAtItsPlace) {
  for (const BadText& bad : bad_texts()) {
    SCOPED_TRACE(bad.what);
    try {
      parse(bad.text, "bad.rfl");
      ADD_FAILURE() << "parsed";
    } catch (const GraphError& error) {
      EXPECT_EQ(error.where(), std::string("bad.rfl:") + bad.place) << error.what();
      EXPECT_NE(error.message().find(bad.words), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(bad.hint), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(bad_texts().size(), 40u);
}

// Texts of many megabytes are refused (or read) in time that grows with their length.
TEST(Parser, LargeTextsNeitherHangNorCrash) {
  const std::size_t large = 4 << 20;
  const std::vector<std::string> texts = {
      around("%y = " + std::string(large, 'r') + "(%x)"),
      around("%y = relu(%" + std::string(large, 'r') + ")"),
      around("%y = relu" + std::string(large, '(')),
      around("%y = permute(%x, " + std::string(large, '[')),
      around("%y = mul(%x, " + std::string(large, '9') + ")"),
      around("%y = softmax(%x, " + std::string(large, '9') + ")"),
      around("%y = gelu(%x, '" + std::string(large, 'a')),
      around("%y = gelu(%x, '" + std::string(large, 'a') + "')"),
      std::string(large, '%'),
      std::string(large, '\0'),
      std::string(large, '\n'),
      std::string(large, '{'),
      "#" + std::string(large, 'x'),
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(i);
    try {
      parse(texts[i], "large.rfl");
      ADD_FAILURE() << "parsed";
    } catch (const GraphError& error) {
      EXPECT_LT(error.hint().size(), 1000u);
    }
  }
  std::string sizes = "1", dims = "0";
  for (std::size_t i = 0; i < large / 8; ++i) {
    sizes += ",1";
    dims += ",0";
  }
  EXPECT_THROW(parse(around("%y = input : f32[" + sizes + "]"), "large.rfl"), GraphError);
  EXPECT_THROW(parse(around("%y = reshape(%x, [" + sizes + "])"), "large.rfl"), GraphError);
  EXPECT_THROW(parse(around("%y = sum(%x, [" + dims + "])"), "large.rfl"), GraphError);

  std::string chain = around("%v0 = relu(%x)");
  std::string statements = "%v0 = relu(%x)";
  for (int i = 1; i < 20000; ++i)
    statements += "\n%v" + std::to_string(i) + " = mul(%v" + std::to_string(i - 1) + ", 2)";
  EXPECT_EQ(parse(around(statements), "large.rfl").size(), 1 + 20000 + 19999);
}

// Every prefix of a text, and every text with one byte changed, is read or refused with a place.
TEST(Parser, DamagedTextsAreReadOrRefused) {
  const std::string text = around(
      "%w = param(frozen=True) : f32[8]\n%a : f32[4, 8] = mul(%x, -1.5e-3)\nbreak\n"
      "%b = layer_norm(%a, [8], %w, eps=1e-06)\n%c = gelu(%b, 'tanh')\n%d = cat([%b, %c], dim=1)",
      "%d, %x");
  verify(parse(text, "whole.rfl"));
  const auto read = [](const std::string& damaged) {
    try {
      verify(parse(damaged, "damaged.rfl"));
    } catch (const GraphError& error) {
      EXPECT_EQ(error.where().substr(0, 12), "damaged.rfl:") << error.what() << '\n' << damaged;
      EXPECT_FALSE(error.message().empty());
    }
  };
  for (std::size_t i = 0; i < text.size(); ++i) read(text.substr(0, i));
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const char c : {'\0', '%', '(', ']', '}', ',', '=', '\'', '#', '\n', '9', '-', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      read(damaged);
    }
}

TEST(Parser, EveryExampleParsesVerifiesAndComesBack) {
  for (const char* name : {"graph_break", "graph_break_small", "mlp_digits", "tied_weights",
                           "transformer_block", "mixed_precision"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string(RIFFLE_SOURCE_DIR "/examples/") + name + ".rfl";
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    std::ostringstream text;
    text << file.rdbuf();
    const Graph graph = parse(text.str(), path);
    verify(graph);
    EXPECT_EQ(graph.name, name);
    EXPECT_TRUE(structurally_equal(graph, parse(print(graph), "printed")));
  }
}

}  // namespace
}  // namespace riffle::ir
