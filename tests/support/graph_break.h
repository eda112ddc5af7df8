// The graph of the 2022 experiment, small: four linear layers, relus between them.
#pragma once

namespace riffle::test {

inline constexpr const char* kGraphBreak = R"(graph @graph_break {
  %x           = input : f32[8, 32]
  %y           = input : f32[8, 32]
  %net1.weight = param : f32[32, 32]
  %net1.bias   = param : f32[32]
  %net2.weight = param : f32[32, 32]
  %net2.bias   = param : f32[32]
  %net3.weight = param : f32[32, 32]
  %net3.bias   = param : f32[32]
  %net4.weight = param : f32[32, 32]
  %net4.bias   = param : f32[32]
  %linear      = linear(%x, %net1.weight, %net1.bias)
  %relu        = relu(%linear)
  %linear_1    = linear(%relu, %net2.weight, %net2.bias)
  %relu_1      = relu(%linear_1)
  %linear_2    = linear(%relu_1, %net3.weight, %net3.bias)
  %relu_2      = relu(%linear_2)
  %linear_3    = linear(%relu_2, %net4.weight, %net4.bias)
  %loss        = mse_loss(%linear_3, %y)
  return %loss
})";

}  // namespace riffle::test
