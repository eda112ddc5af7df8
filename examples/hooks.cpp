// Both kinds of hook: a host hook that changes gradients, a stream hook that enqueues work, an
// observer of partitions, and one that throws. docs/hooks.md explains what the order of the lines
// rests on.
#include <riffle/riffle.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

namespace {

std::span<float> floats(const riffle::GradientView& g) {
  return {reinterpret_cast<float*>(g.bytes.data()), g.bytes.size() / sizeof(float)};
}

/// Clips in place: it says so, and whatever consumes the gradient waits for it.
void clip(const riffle::GradientView& g) {
  for (float& x : floats(g)) x = std::clamp(x, -0.01F, 0.01F);
}

/// Called while the step is being enqueued, before the gradient exists; what it enqueues runs when
/// the gradient is ready, after the hooks added before it.
void largest(const riffle::GradientView& g) {
  g.stream->call([g, name = std::string(g.parameter)] {
    const auto magnitude = [](float a, float b) { return std::abs(a) < std::abs(b); };
    const auto values = floats(g);
    const float most = std::abs(*std::max_element(values.begin(), values.end(), magnitude));
    std::printf("%s: at most %.4f\n", name.c_str(), most);
  });
}

}  // namespace

int main() try {
  const riffle::Graph graph = riffle::Graph::parse(R"(
    graph @two_layers {
      %x    = input : f32[8, 32]
      %y    = input : f32[8, 4]
      %a    = param : f32[64, 32]
      %b    = param : f32[4, 64]
      %h    = linear(%x, %a)
      break
      %out  = linear(%h, %b)
      %loss = mse_loss(%out, %y)
      return %loss
    })");
  riffle::Session session;
  riffle::Executable model = session.compile(graph, {.split = "markers"});
  model.init(0);

  const riffle::HookId alone = model.add_hook({.is_stream_hook = true, .function = largest});
  std::printf("loss %.4f\n", model.step().loss);

  // Hooks on one gradient run in the order in which they were added, whatever their kinds.
  model.remove_hook(alone);
  model.add_hook({.writes_gradient = true, .function = clip});
  model.add_hook({.is_stream_hook = true, .function = largest});
  std::printf("loss %.4f, gradients clipped\n", model.step().loss);

  model.remove_all_hooks();
  const riffle::HookId failing =
      model.add_hook({.pattern = "a", .function = [](const riffle::GradientView&) {
                        throw std::runtime_error("this hook always fails");
                      }});
  const auto before = model.get("b").bytes;
  try {
    model.step();
  } catch (const std::runtime_error& error) {  // the very exception that the hook threw
    const bool same = before == model.get("b").bytes;
    std::printf("%s; parameters %s\n", error.what(), same ? "are as before" : "CHANGED");
  }

  // As in the 2022 experiment: hooks after each partition's whole backward. All three of these run
  // on the hook thread, so their lines have one order.
  model.remove_hook(failing);
  model.set_hooks_at(riffle::HooksAt::partition);
  const auto say = [](const char* what) {
    return [what](const riffle::GradientView& g) {
      std::printf("%s %.*s\n", what, (int)g.parameter.size(), g.parameter.data());
    };
  };
  using enum riffle::HookPoint;
  model.add_hook({.point = pre_backward, .observer = true, .function = say("backward of")});
  model.add_hook({.function = say("  gradient of")});
  model.add_hook({.point = post_backward, .function = say("end of")});
  std::printf("loss %.4f\n", model.step().loss);
} catch (const riffle::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
