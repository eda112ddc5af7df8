// The table of a graph: golden text in the shape of torch.fx's print_tabular.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ir/text.h"

namespace riffle::ir {
namespace {

TEST(Table, TheGraphBreakExperiment) {
  std::ifstream file(RIFFLE_SOURCE_DIR "/examples/graph_break_small.rfl");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(format_table(table_rows(parse(text.str(), "graph_break_small.rfl"))),
            R"(opcode         name         target       args                              kwargs
-------------  -----------  -----------  --------------------------------  ------
placeholder    x            x            ()                                {}
placeholder    y            y            ()                                {}
placeholder    net1.weight  net1.weight  ()                                {}
placeholder    net1.bias    net1.bias    ()                                {}
placeholder    net2.weight  net2.weight  ()                                {}
placeholder    net2.bias    net2.bias    ()                                {}
placeholder    net3.weight  net3.weight  ()                                {}
placeholder    net3.bias    net3.bias    ()                                {}
placeholder    net4.weight  net4.weight  ()                                {}
placeholder    net4.bias    net4.bias    ()                                {}
call_function  linear       linear       (x, net1.weight, net1.bias)       {}
call_function  relu         relu         (linear,)                         {}
call_function  linear_1     linear       (relu, net2.weight, net2.bias)    {}
call_function  relu_1       relu         (linear_1,)                       {}
call_function  linear_2     linear       (relu_1, net3.weight, net3.bias)  {}
call_function  relu_2       relu         (linear_2,)                       {}
call_function  linear_3     linear       (relu_2, net4.weight, net4.bias)  {}
call_function  loss         mse_loss     (linear_3, y)                     {}
output         output       output       (loss,)                           {}
)");
}

TEST(Table, KeywordsAreTheAttributesThatAreNotDefaults) {
  const Graph graph = parse(R"(graph @g {
    %x = input(requires_grad=True) : f32[4, 8]
    %'größe' = softmax(%x, 0)
    break
    %gelu = gelu(%x, 'tanh')
    %wide = sum(%x, [1], keepdim=True)
    %loss = mse_loss(%x, %gelu)
    return %loss, %wide, %x
  })",
                            "g.rfl");
  EXPECT_EQ(format_table(table_rows(graph)),
            R"(opcode         name    target    args                kwargs
-------------  ------  --------  ------------------  -----------------------------
placeholder    x       x         ()                  {'requires_grad': True}
call_function  größe   softmax   (x,)                {'dim': 0}
break                            ()                  {}
call_function  gelu    gelu      (x,)                {'approximate': 'tanh'}
call_function  wide    sum       (x,)                {'dim': [1], 'keepdim': True}
call_function  loss    mse_loss  (x, gelu)           {}
output         output  output    ((loss, wide, x),)  {}
)");
}

TEST(Table, AnEmptyTableIsItsHead) {
  EXPECT_EQ(format_table({}),
            "opcode  name  target  args  kwargs\n"
            "------  ----  ------  ----  ------\n");
  EXPECT_EQ(table_rows(Graph{.name = "empty", .nodes = {}, .outputs = {}}).back().args, "((),)");
}

}  // namespace
}  // namespace riffle::ir
