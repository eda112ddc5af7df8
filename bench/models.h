// The models whose steps are measured, here and by bench/peer_torch.py.
#pragma once

#include <string>
#include <vector>

#include "riffle/riffle.h"

namespace riffle::bench {

struct Model {
  std::string name;
  Graph graph;
  std::string split;
  double gflop;  ///< of a step's matmuls, forward and backward
};

/// Linear layers of these widths with relu between, mean squared error or cross-entropy.
inline Graph mlp(const std::string& name, std::int64_t batch,
                 const std::vector<std::int64_t>& widths, bool classify) {
  return trace(name, [&](Tracer& t) {
    const auto f32 = [](Shape shape) { return TensorType{DType::f32, std::move(shape)}; };
    Tensor x = t.input("x", f32({batch, widths.front()}));
    Tensor target =
        classify ? t.input("y", {DType::i64, {batch}}) : t.input("y", f32({batch, widths.back()}));
    for (std::size_t i = 1; i < widths.size(); ++i) {
      const std::string net = "net" + std::to_string(i);
      Tensor w = t.param(net + ".weight", f32({widths[i], widths[i - 1]}));
      Tensor b = t.param(net + ".bias", f32({widths[i]}));
      x = linear(x, w, b);
      if (i + 1 < widths.size()) x = relu(x);
    }
    return classify ? cross_entropy(x, target) : mse_loss(x, target);
  });
}

/// 2·M·N·K a product: forward, weight gradient, and input gradient but for the first layer.
inline double mlp_gflop(std::int64_t batch, const std::vector<std::int64_t>& widths) {
  double flop = 0;
  for (std::size_t i = 1; i < widths.size(); ++i)
    flop += (i == 1 ? 4.0 : 6.0) * static_cast<double>(batch * widths[i] * widths[i - 1]);
  return flop * 1e-9;
}

inline std::vector<Model> models() {
  std::vector<Model> all;
  auto add = [&](const std::string& name, std::int64_t batch, std::vector<std::int64_t> widths,
                 bool classify, const std::string& split) {
    all.push_back({name, mlp(name, batch, widths, classify), split, mlp_gflop(batch, widths)});
  };
  add("graph_break", 64, {1024, 1024, 1024, 1024, 1024}, false, "nodes 3");
  add("graph_break_unsplit", 64, {1024, 1024, 1024, 1024, 1024}, false, "none");
  add("mlp_mnist", 128, {784, 1024, 1024, 10}, true, "nodes 3");
  add("tiny", 8, {32, 32, 32, 32, 32}, false, "none");
  return all;
}

}  // namespace riffle::bench
