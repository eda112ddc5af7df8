// Each way of breaking a graph is refused, and the error names the node.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "ir/passes.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

Graph sound() {
  return parse(R"(graph @sound {
    %x = input : f32[4, 8]
    %w = param : f32[16, 8]
    %linear = linear(%x, %w)
    break
    %soft = softmax(%linear, 1)
    %both = cat([%linear, %soft])
    %flat = reshape(%both, [128])
    return %flat, %x, %x
  })",
               "sound.rfl");
}

struct Damage {
  const char* what;
  std::function<void(Graph&)> apply;
  const char* where;
  const char* words;
};

TEST(Verify, AcceptsASoundGraph) {
  verify(sound());
  verify(Graph{.name = "empty", .nodes = {}, .outputs = {}});
  Graph zero = parse("graph @g {\n %x = input : f32[0, 8]\n %y = relu(%x)\n return %y\n}", "z.rfl");
  verify(zero);
}

TEST(Verify, NamesTheNodeThatIsNotWellFormed) {
  const std::vector<Damage> damages = {
      {"operand after user", [](Graph& g) { g[2].operands[0] = 4; }, "%linear in @sound",
       "does not come before"},
      {"operand is the node", [](Graph& g) { g[2].operands[0] = 2; }, "%linear in @sound",
       "does not come before"},
      {"operand out of range", [](Graph& g) { g[2].operands[0] = 99; }, "%linear in @sound",
       "the graph has 7 nodes"},
      {"operand missing", [](Graph& g) { g[2].operands[0] = kNoValue; }, "%linear in @sound",
       "value -1"},
      {"operand is a break", [](Graph& g) { g[4].operands[0] = 3; }, "%soft in @sound",
       "which has no value"},
      {"too few operands", [](Graph& g) { g[2].operands.pop_back(); }, "%linear in @sound",
       "operand 'weight' is missing"},
      {"too many operands", [](Graph& g) { g[4].operands.push_back(0); }, "%soft in @sound",
       "expected 1"},
      {"operands of a source", [](Graph& g) { g[1].operands.push_back(0); }, "%w in @sound",
       "expected 0"},
      {"operands of a break", [](Graph& g) { g[3].operands.push_back(0); }, "node 3 in @sound",
       "neither operands nor attributes"},
      {"an empty list of operands", [](Graph& g) { g[5].operands.clear(); }, "%both in @sound",
       "operand 'tensors' is missing"},
      {"unknown attribute", [](Graph& g) { g[4].attrs.set("axis", std::int64_t{1}); },
       "%soft in @sound", "no argument 'axis'"},
      {"missing attribute", [](Graph& g) { g[4].attrs = {}; }, "%soft in @sound", "dim"},
      {"attribute of another kind", [](Graph& g) { g[4].attrs.set("dim", std::string("x")); },
       "%soft in @sound", "expected an integer"},
      {"attribute not normalised", [](Graph& g) { g[4].attrs.set("dim", std::int64_t{-1}); },
       "%soft in @sound", "expected its normal form 1"},
      {"attribute out of range", [](Graph& g) { g[4].attrs.set("dim", std::int64_t{7}); },
       "%soft in @sound", "dim 7 does not fit"},
      {"stored type differs", [](Graph& g) { g[2].type.shape[1] = 17; }, "%linear in @sound",
       "the type is f32[4, 17], but linear gives f32[4, 16]"},
      {"stored dtype differs", [](Graph& g) { g[6].type.dtype = DType::f64; }, "%flat in @sound",
       "but reshape gives f32[128]"},
      {"type rule refuses", [](Graph& g) { g[1].type.shape[1] = 9; }, "%linear in @sound",
       "expected [out, 8]"},
      {"negative size", [](Graph& g) { g[0].type.shape[0] = -4; }, "%x in @sound", "negative size"},
      {"sizes overflow",
       [](Graph& g) { g[0].type.shape[0] = std::numeric_limits<std::int64_t>::max(); },
       "%x in @sound", "elements"},
      {"two of one name", [](Graph& g) { g[4].name = "linear"; }, "%linear in @sound",
       "the same name"},
      {"no name", [](Graph& g) { g[4].name.clear(); }, "node 4 in @sound", "needs a name"},
      {"a named break", [](Graph& g) { g[3].name = "stop"; }, "%stop in @sound", "has no name"},
      {"zero byte in a name", [](Graph& g) { g[4].name = std::string("a\0b", 3); }, "in @sound",
       "zero byte"},
      {"unknown op", [](Graph& g) { g[4].op = static_cast<Op>(60000); }, "%soft in @sound",
       "not in the op table"},
      {"output out of range", [](Graph& g) { g.outputs[0] = 7; }, "@sound", "output 0 is value 7"},
      {"output missing", [](Graph& g) { g.outputs[1] = kNoValue; }, "@sound",
       "output 1 is value -1"},
      {"output is a break", [](Graph& g) { g.outputs[2] = 3; }, "@sound", "has no value"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    Graph graph = sound();
    damage.apply(graph);
    try {
      verify(graph);
      ADD_FAILURE() << "verified";
    } catch (const GraphError& error) {
      EXPECT_NE(error.where().find(damage.where), std::string::npos) << error.what();
      EXPECT_NE(error.message().find(damage.words), std::string::npos) << error.what();
    }
  }
}

TEST(Verify, SaysWhereTheNodeWasWritten) {
  Graph graph = sound();
  graph[4].type.shape = {1};
  try {
    verify(graph);
    FAIL();
  } catch (const GraphError& error) {
    EXPECT_EQ(error.where(), "sound.rfl:6:5: %soft in @sound");
  }
}

}  // namespace
}  // namespace riffle::ir
