// The CUDA path as a whole, on the GPU under test (emulated, unless told otherwise): the same
// sessions, graphs and hooks as on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <latch>

#include "jit/session.h"
#include "tests/jit/cuts.h"
#include "tests/jit/gpu_options.h"
#include "tests/jit/training.h"
#include "tests/support/gpu_under_test.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_runner.h"
#include "tests/support/scale.h"
#include "tests/support/source_folder.h"
#include "tests/support/tolerance.h"

namespace riffle::test {
namespace {

constexpr int kSteps = 3;

Graph example(const std::string& name) {
  return Graph::load(source_folder() + "/examples/" + name + ".rfl");
}

/// What a host hook sees and changes; hooks on the communication stream are seen by name.
void add_hooks_for_any_device(Executable& executable, HookLog& log) {
  executable.add_hook({.writes_gradient = true, .function = [&log](const GradientView& g) {
                         log.host.push_back("halve " + std::string(g.parameter));
                         halve(g.type.dtype, g.bytes);
                       }});
  executable.add_hook(
      {.is_stream_hook = true, .function = [&log](const GradientView& g) {
         EXPECT_NE(g.address, nullptr);
         g.stream->call([&log, name = std::string(g.parameter)] { log.stream.push_back(name); });
       }});
}

struct Case {
  ir::Graph graph;
  std::vector<ir::Array> arrays;
  std::uint64_t seed;
};

std::vector<Snapshot> run(const Session& session, const Case& c, const Cuts& cuts) {
  Executable executable = jit::create(session, to_public(c.graph), ir::split_at(cuts));
  executable.set_optimizer(optimizer_of(c.seed));
  bind_arrays(executable, c.graph, c.arrays);
  HookLog log;
  add_hooks_for_any_device(executable, log);
  return train(executable, kSteps, log);
}

TEST(Cuda, RandomGraphsAreTheSameForEveryCut) {
  const Session session(gpu_options());
  std::size_t runs = 0;
  for (std::uint64_t seed = 0; seed < scaled(50); ++seed) {
    const ir::Graph graph = random_graph(seed);
    const Case c{graph, random_arrays(graph, seed), seed};
    const std::vector<Snapshot> unsplit = run(session, c, {});
    for (const Cuts& cuts : cut_sets(positions(graph), seed)) {
      ASSERT_EQ(difference(unsplit, run(session, c, cuts)), "")
          << "seed " << seed << ", " << describe(cuts) << "\n"
          << ir::print(graph);
      ++runs;
    }
  }
  std::cout << runs << " runs of " << kSteps << " steps\n";
}

/// Elementwise maths, reductions and matmuls in f32 keep one order on every device: what differs is
/// only what tensor cores sum, in bf16 and f16.
TEST(Cuda, ExamplesFollowTheCpu) {
  const Session gpu(gpu_options());
  const Session cpu({.cache_directory = ""});
  for (const char* name :
       {"graph_break_small", "tied_weights", "transformer_block", "mixed_precision"}) {
    const Graph graph = example(name);
    std::vector<double> losses[2];
    for (const Session* session : {&gpu, &cpu}) {
      Executable executable = session == &gpu ? jit::create(gpu, graph, ir::split_none())
                                              : jit::create(cpu, graph, ir::split_none());
      executable.set_optimizer({.name = "adamw", .lr = 1e-3});
      executable.init(3);
      for (int i = 0; i < kSteps; ++i) losses[session == &cpu].push_back(executable.step().loss);
    }
    for (int i = 0; i < kSteps; ++i)
      EXPECT_NEAR(losses[0][i], losses[1][i], 2e-3 * std::max(1.0, std::abs(losses[1][i])))
          << name << ", step " << i;
  }
}

// The backward of partition 1 does not begin before all hooks of partition 2 have run: were they to
// wait for anything of it, this would never end.
/// Which is asked for by a session: other bits than the CPU's, the same for every cut.
TEST(Cuda, F32MatmulsRunOnTensorCoresWhereAskedFor) {
  SessionOptions options = gpu_options();
  options.cuda.tf32 = true;
  const Session gpu(options), cpu({.cache_directory = ""});
  const auto gradient = [](const Session& session, const Cuts& cuts) {
    Executable executable = jit::create(session, example("graph_break_small"), ir::split_at(cuts));
    executable.init(0);
    executable.step();
    return to_array(executable.get("grad/net1.weight"));
  };
  const ir::Array expected = gradient(cpu, {}), unsplit = gradient(gpu, {});
  EXPECT_TRUE(close(unsplit, expected, tolerance(DType::f16, 32)));
  if (gpu_is_emulated()) {
    EXPECT_FALSE(identical(unsplit, expected));
  }
  EXPECT_TRUE(identical(unsplit, gradient(gpu, {2, 5})));
}

TEST(Cuda, HooksRunWhileTheNextBackwardIsHeldOpen) {
  Session session(gpu_options());
  Executable executable = session.compile(example("graph_break_small"), {.split = "nodes 3"});
  executable.init(0);
  const ir::DifferentiatedGraph& gradients = jit::differentiated(executable);
  std::vector<std::string> of_last;
  for (std::size_t i = 0; i < gradients.gradient_parameters.size(); ++i)
    if (gradients.ready_in[i] == 2)
      of_last.push_back(jit::partitioned(executable).whole[gradients.gradient_parameters[i]].name);
  std::latch reached(static_cast<std::ptrdiff_t>(of_last.size()));
  std::atomic<bool> open{false}, early{false};
  executable.add_hook({.pattern = "partition_1",
                       .point = HookPoint::pre_backward,
                       .is_stream_hook = true,
                       .function = [&](const GradientView& g) {
                         g.stream->call([&] {
                           reached.wait();
                           open = true;
                         });
                       }});
  executable.add_hook({.function = [&](const GradientView& g) {
    const bool held = std::ranges::find(of_last, g.parameter) == of_last.end();
    if (!held) reached.count_down();
    if (held && !open) early = true;
  }});
  executable.step();
  EXPECT_TRUE(open);
  EXPECT_FALSE(early);
}

TEST(Cuda, AFailedStepLeavesTheSessionUsable) {
  Session session(gpu_options());
  Executable executable = session.compile(example("graph_break_small"), {.split = "nodes 3"});
  executable.init(0);
  const HookId bad = executable.add_hook({.pattern = "net2.*", .function = [](const GradientView&) {
                                            throw std::runtime_error("no");
                                          }});
  const HostTensor before = executable.get("param/net1.weight");
  EXPECT_THROW(executable.step(), std::runtime_error);
  EXPECT_EQ(executable.get("param/net1.weight").bytes, before.bytes);
  executable.remove_hook(bad);
  executable.step();
  EXPECT_NE(executable.get("param/net1.weight").bytes, before.bytes);
}

TEST(Cuda, IndicesOutOfRangeAreAnErrorAsOnTheCpu) {
  const Graph graph = Graph::parse(R"(graph @lookup {
  %ids   = input : i64[4]
  %table = param : f32[10, 8]
  %rows  = embedding(%ids, %table)
  %loss  = sum(%rows)
  return %loss
})");
  Session session(gpu_options());
  Executable executable = session.compile(graph);
  executable.init(0);
  const std::int64_t ids[] = {1, 2, 10, 3};
  executable.set("ids", HostTensor::from<std::int64_t>({DType::i64, {4}}, ids));
  EXPECT_THROW(executable.step(), DeviceError);
  const std::int64_t good[] = {1, 2, 9, 3};
  executable.set("ids", HostTensor::from<std::int64_t>({DType::i64, {4}}, good));
  executable.step();
}

TEST(Cuda, PartitionsMayRunOnTheHostAndOnTheReference) {
  Session session(gpu_options());
  Executable plain = session.compile(example("graph_break_small"), {.split = "nodes 3"});
  plain.init(0);
  const double expected = plain.step().loss;
  for (const jit::Backend backend : {jit::Backend::host, jit::Backend::reference}) {
    Executable mixed = session.compile(example("graph_break_small"), {.split = "nodes 3"});
    mixed.init(0);
    jit::set_backend(mixed, 1, backend);
    EXPECT_NEAR(mixed.step().loss, expected, 1e-5 * std::abs(expected));
    EXPECT_FALSE(mixed.fallbacks().empty());
  }
}

}  // namespace
}  // namespace riffle::test
