#include <riffle/riffle.h>

#include <cstdio>

int main() try {
  const riffle::Graph graph = riffle::trace("mlp", [](riffle::Tracer& t) {
    auto f32 = [](const riffle::Shape& s) { return riffle::TensorType{riffle::DType::f32, s}; };
    auto x = t.input("x", f32({32, 16})), y = t.input("y", f32({32, 1}));
    auto w1 = t.param("w1", f32({64, 16})), b1 = t.param("b1", f32({64}));
    auto w2 = t.param("w2", f32({1, 64}));
    return riffle::mse_loss(riffle::linear(riffle::relu(riffle::linear(x, w1, b1)), w2), y);
  });
  riffle::Session session;
  riffle::Executable model = session.compile(graph, {.split = "nodes 1"});  // three partitions
  model.init(/*seed=*/0);
  model.set_optimizer({.name = "adamw", .lr = 1e-2});
  model.add_hook({.pattern = "w*", .function = [](const riffle::GradientView& g) {
                    std::printf("%.*s is ready\n", (int)g.parameter.size(), g.parameter.data());
                  }});
  for (int i = 0; i < 3; ++i) std::printf("loss %.4f\n", model.step().loss);
  std::printf("w2[0] = %.4f\n", model.get("w2").as<float>()[0]);
} catch (const riffle::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
