// The same answer, however split: random graphs give the same bits for every cut, with hooks on,
// for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "ir/text.h"
#include "jit/session.h"
#include "tests/jit/cuts.h"
#include "tests/jit/training.h"
#include "tests/support/random_graph.h"
#include "tests/support/scale.h"
#include "tests/support/tolerance.h"

namespace riffle::test {
namespace {

constexpr int kSteps = 3;
constexpr int kThreads[] = {1, 2, 3, 7};

SessionOptions options(int threads) {
  return {.threads = threads, .cache_directory = "", .kept_modules = 400};
}

/// Sessions of 1, 2, 3 and 7 threads that compile every partition once, on all cores.
struct Sessions {
  Session compiling{options(0)};
  std::vector<Session> sessions;
  Sessions() {
    for (int threads : kThreads) sessions.push_back(jit::beside(compiling, options(threads)));
  }
};

struct Case {
  const ir::Graph& graph;
  std::vector<ir::Array> arrays;
  std::uint64_t seed;
};

std::vector<Snapshot> run(const Session& session, const Case& c, const Cuts& cuts) {
  Executable executable = jit::create(session, to_public(c.graph), ir::split_at(cuts));
  executable.set_optimizer(optimizer_of(c.seed));
  bind_arrays(executable, c.graph, c.arrays);
  HookLog log;
  add_hooks(executable, log);
  return train(executable, kSteps, log);
}

void expect_same(const std::vector<Snapshot>& expected, const Session& session, const Case& c,
                 const Cuts& cuts, const std::string& what) {
  const std::string found = difference(expected, run(session, c, cuts));
  ASSERT_EQ(found, "") << "seed " << c.seed << ", " << describe(cuts) << ", " << what << "\n"
                       << ir::print(c.graph);
}

std::string threads_of(std::size_t session) {
  return std::to_string(kThreads[session]) + " threads";
}

TEST(BitIdentity, RandomGraphsAreTheSameForEveryCut) {
  Sessions all;
  std::size_t runs = 0, compiled = 0;
  for (std::uint64_t seed = 0; seed < scaled(200); ++seed) {
    const ir::Graph graph = random_graph(seed);
    const Case c{graph, random_arrays(graph, seed), seed};
    const std::vector<Snapshot> unsplit = run(all.sessions[0], c, {});
    // Every set of cuts runs on one number of threads, and on every number some of each kind do.
    std::size_t turn = seed;
    for (const Cuts& cuts : cut_sets(positions(graph), seed)) {
      const std::size_t s = turn++ % all.sessions.size();
      ASSERT_NO_FATAL_FAILURE(expect_same(unsplit, all.sessions[s], c, cuts, threads_of(s)));
      ++runs;
    }
  }
  compiled = jit::compiler(all.sessions[0]).statistics().compiles;
  std::cout << runs << " runs of " << kSteps << " steps, " << compiled << " modules compiled\n";
}

// Kernels of small tensors are one task each; here they divide.
TEST(BitIdentity, LargerGraphsAreTheSameForEveryNumberOfThreads) {
  Sessions all;
  std::size_t divided = 0, kernels = 0;
  for (std::uint64_t seed = 0; seed < scaled(20); ++seed) {
    const ir::Graph graph = random_graph(
        1000 + seed, {.max_nodes = 8, .zero_sizes = false, .breaks = false, .scale = 64});
    const Case c{graph, random_arrays(graph, seed), seed};
    const std::vector<Snapshot> unsplit = run(all.sessions[0], c, {});
    const std::size_t nodes = positions(graph);
    Cuts singletons;
    for (std::size_t k = 1; k < nodes; ++k) singletons.push_back(k);
    for (std::size_t s = 0; s < all.sessions.size(); ++s)
      for (const Cuts& cuts : {Cuts{}, singletons, Cuts{nodes / 2}})
        ASSERT_NO_FATAL_FAILURE(expect_same(unsplit, all.sessions[s], c, cuts, threads_of(s)));
    Executable executable = jit::create(all.sessions[0], to_public(graph), ir::split_none());
    for (const jit::CompiledGraph* module :
         {&jit::forward_module(executable, 0), jit::backward_module(executable, 0)}) {
      if (module == nullptr) continue;
      for (const runtime::KernelEntry& kernel : module->image.kernels) {
        ++kernels;
        divided += kernel.geometry.tasks > 1 ? 1 : 0;
      }
    }
  }
  std::cout << divided << " of " << kernels << " kernels divide into tasks\n";
  EXPECT_GT(divided, kernels / 10) << "the graphs are too small to say anything about threads";
}

TEST(BitIdentity, FusionChangesNoBit) {
  const Session fused(options(2));
  SessionOptions apart = options(2);
  apart.fuse = false;
  const Session unfused(apart);
  for (std::uint64_t seed = 0; seed < scaled(60); ++seed) {
    const ir::Graph graph = random_graph(seed);
    const Case c{graph, random_arrays(graph, seed), seed};
    const std::vector<Snapshot> expected = run(fused, c, {});
    ASSERT_NO_FATAL_FAILURE(expect_same(expected, unfused, c, {}, "unfused"));
    ASSERT_NO_FATAL_FAILURE(expect_same(expected, unfused, c, {positions(graph) / 2}, "unfused"));
  }
}

// Dead temporaries hold NaN here, and hooks are watched: nothing reads what is over.
TEST(BitIdentity, DebuggingMemoryChangesNoBit) {
  const Session plain(options(2));
  SessionOptions watched = options(2);
  watched.debug_memory = true;
  const Session debug = jit::beside(plain, watched);
  for (std::uint64_t seed = 0; seed < scaled(60); ++seed) {
    const ir::Graph graph = random_graph(seed);
    const Case c{graph, random_arrays(graph, seed), seed};
    const std::vector<Snapshot> expected = run(plain, c, {});
    ASSERT_NO_FATAL_FAILURE(expect_same(expected, debug, c, {}, "debug memory"));
    ASSERT_NO_FATAL_FAILURE(
        expect_same(expected, debug, c, {positions(graph) / 2}, "debug memory"));
  }
}

/// Losses and gradients with every partition on the reference back end or on none.
Snapshot first_step(const Session& session, const Case& c, const Cuts& cuts, jit::Backend backend) {
  Executable executable = jit::create(session, to_public(c.graph), ir::split_at(cuts));
  for (std::size_t p = 0; p < executable.partition_count(); ++p)
    jit::set_backend(executable, p, backend);
  executable.set_optimizer({.name = "none"});
  bind_arrays(executable, c.graph, c.arrays);
  HookLog log;
  return train(executable, 1, log).front();
}

// The reference computes in double and rounds to the dtype where partitions end. How far a graph
// carries roundings is measured on it too: every node rounds, and the inputs are a few units in the
// last place away.
TEST(BitIdentity, TheReferenceBackEndIsNear) {
  const Session session(options(2));
  for (std::uint64_t seed = 0; seed < scaled(100); ++seed) {
    const ir::Graph graph = random_graph(seed, {.other_dtypes = false, .zero_sizes = false});
    Case c{graph, random_arrays(graph, seed), seed};
    const std::size_t nodes = positions(graph);
    Cuts singletons;
    for (std::size_t k = 1; k < nodes; ++k) singletons.push_back(k);
    const Snapshot actual = first_step(session, c, {nodes / 2}, jit::Backend::device);
    const Snapshot expected = first_step(session, c, {nodes / 2}, jit::Backend::reference);
    Random random(seed);
    for (ir::Array& array : c.arrays)
      if (is_floating(array.type.dtype))
        for (double& x : array.data) x *= 1 + random.uniform(-1, 1) * 0x1p-20;
    const Snapshot nearby = first_step(session, c, singletons, jit::Backend::reference);
    for (const auto& [name, tensor] : expected.tensors) {
      const ir::Array want = to_array(tensor), other = to_array(nearby.tensors.at(name));
      double moved = 0;
      double largest = 0.1;  // what cancels was made of values of about this size at least
      for (std::size_t i = 0; i < want.data.size(); ++i) {
        if (!std::isfinite(want.data[i]) || !std::isfinite(other.data[i])) continue;
        moved = std::max(moved, std::fabs(want.data[i] - other.data[i]));
        largest = std::max(largest, std::fabs(want.data[i]));
      }
      Tolerance allowed = tolerance(want.type.dtype, 64);
      allowed.of_largest += 4 * moved / largest;
      EXPECT_TRUE(close(to_array(actual.tensors.at(name)), want, allowed, largest))
          << "seed " << seed << ", " << name << "\n"
          << ir::print(graph);
    }
  }
}

}  // namespace
}  // namespace riffle::test
