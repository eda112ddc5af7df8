// What hooks may count on: when they run, how often, in what order, and what their failures leave.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <iostream>
#include <latch>
#include <mutex>
#include <thread>

#include "jit/session.h"
#include "riffle/riffle.h"
#include "runtime/ordering.h"
#include "tests/jit/cuts.h"
#include "tests/jit/training.h"
#include "tests/support/random_graph.h"
#include "tests/support/scale.h"
#include "tests/support/source_folder.h"

namespace riffle::test {
namespace {

using Names = std::vector<std::string>;

SessionOptions options() { return {.threads = 2, .cache_directory = ""}; }

Graph experiment() { return Graph::load(source_folder() + "/examples/graph_break_small.rfl"); }
Executable compiled(Session& session, const std::string& split = "nodes 3") {
  Executable executable = session.compile(experiment(), {.split = split});
  executable.init(0);
  return executable;
}

Names ready_order(const Executable& executable) {
  const ir::DifferentiatedGraph& gradients = jit::differentiated(executable);
  Names names;
  for (ir::ValueId id : gradients.gradient_parameters)
    names.push_back(jit::partitioned(executable).whole[id].name);
  return names;
}
Names ready_order_of_partition(const Executable& executable, std::size_t partition) {
  const ir::DifferentiatedGraph& gradients = jit::differentiated(executable);
  Names names;
  for (std::size_t i = 0; i < gradients.gradient_parameters.size(); ++i)
    if (gradients.ready_in[i] == partition)
      names.push_back(jit::partitioned(executable).whole[gradients.gradient_parameters[i]].name);
  return names;
}

HookSpec recorder(Names& names, std::string pattern = "*") {
  return {.pattern = std::move(pattern),
          .function = [&names](const GradientView& g) { names.emplace_back(g.parameter); }};
}
/// The same on the communication stream.
HookSpec stream_recorder(Names& names) {
  return {.is_stream_hook = true, .function = [&names](const GradientView& g) {
            g.stream->call([&names, name = std::string(g.parameter)] { names.push_back(name); });
          }};
}

std::map<std::string, HostTensor> parameters(const Executable& executable) {
  std::map<std::string, HostTensor> result;
  for (const std::string& name : executable.names())
    if (name.starts_with("param/")) result.emplace(name, executable.get(name));
  return result;
}
void expect_equal(const std::map<std::string, HostTensor>& a,
                  const std::map<std::string, HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_EQ(tensor.bytes, b.at(name).bytes) << name;
}

// The backward of partition 1 does not begin before all hooks of partition 2 have run: were they to
// wait for anything of it, this would never end.
TEST(Hooks, RunWhileTheNextBackwardIsHeldOpen) {
  Session session(options());
  for (const bool hold_on_stream : {false, true}) {
    Executable executable = compiled(session);
    ASSERT_EQ(executable.partition_count(), 3u);
    const Names waited_for = ready_order_of_partition(executable, 2);
    ASSERT_FALSE(waited_for.empty());
    std::latch reached(static_cast<std::ptrdiff_t>(waited_for.size()));
    std::atomic<bool> open{false}, early{false};
    // The gradient hooks run on the other kind's stream, so that stream order is not what helps.
    executable.add_hook({.pattern = "partition_1",
                         .point = HookPoint::pre_backward,
                         .is_stream_hook = hold_on_stream,
                         .function = [&](const GradientView& g) {
                           auto hold = [&] {
                             reached.wait();
                             open = true;
                           };
                           if (g.stream) return g.stream->call(hold);
                           hold();
                         }});
    Names seen;
    auto arrive = [&](const std::string& name) {
      seen.push_back(name);
      const bool of_held =
          std::find(waited_for.begin(), waited_for.end(), name) == waited_for.end();
      if (of_held) {
        if (!open) early = true;
      } else {
        reached.count_down();
      }
    };
    executable.add_hook({.is_stream_hook = !hold_on_stream, .function = [&](const GradientView& g) {
                           const std::string name(g.parameter);
                           if (g.stream) return g.stream->call([&arrive, name] { arrive(name); });
                           arrive(name);
                         }});
    executable.step();
    EXPECT_TRUE(open);
    EXPECT_FALSE(early) << "a hook of partition 1 ran although its backward was held";
    EXPECT_EQ(seen, ready_order(executable));
  }
}

/// Of every hook on a gradient: nothing that is ordered before it is later than what completes its
/// gradient or one before it in the graph's order.
void expect_waits_for_nothing_later(Executable& executable, const std::string& what) {
  const auto schedule = jit::schedule(executable);
  const runtime::Ordering ordering(*schedule);
  std::int32_t complete = -1;  // the last command that completes this or an earlier gradient
  std::size_t hooks = 0;
  for (std::size_t h = 0; h < schedule->commands.size(); ++h) {
    const runtime::Command& hook = schedule->commands[h];
    if (!std::holds_alternative<runtime::Hook>(hook.what) || hook.operands.empty()) continue;
    ++hooks;
    const runtime::ByteRange& gradient = hook.operands[0].range;
    for (std::size_t i = 0; i < schedule->commands.size(); ++i) {
      const runtime::Command& command = schedule->commands[i];
      if (command.phase != runtime::Phase::backward || command.stream == hook.stream ||
          std::holds_alternative<runtime::Hook>(command.what))
        continue;
      for (const runtime::Operand& operand : command.operands)
        if (operand.range == gradient && operand.access != runtime::Access::read)
          complete = std::max(complete, static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < schedule->commands.size(); ++i) {
      const runtime::Command& command = schedule->commands[i];
      const bool computes = std::holds_alternative<runtime::Launch>(command.what) ||
                            std::holds_alternative<runtime::Copy>(command.what);
      if (computes && static_cast<std::int32_t>(i) > complete)
        ASSERT_FALSE(ordering.before(static_cast<std::int32_t>(i), static_cast<std::int32_t>(h)))
            << what << ": hook " << hook.label << " waits for " << command.label << "\n"
            << runtime::print(*schedule);
    }
  }
  EXPECT_GT(hooks, 0u);
}

TEST(Hooks, WaitForNothingLaterThanTheirGradient) {
  Session session(options());
  for (const char* split : {"none", "nodes 1", "nodes 3"}) {
    Executable executable = compiled(session, split);
    Names names;
    executable.add_hook(recorder(names));
    executable.compile();
    expect_waits_for_nothing_later(executable, split);
  }
}

TEST(Hooks, RunOncePerBackwardInTheGraphsOrder) {
  Session session(options());
  const Names expected = ready_order(compiled(session));
  EXPECT_EQ(expected.size(), 8u);
  for (const HooksAt at : {HooksAt::gradient, HooksAt::partition})
    for (const char* split : {"none", "nodes 1", "nodes 2", "nodes 3", "params 2", "at 1 4"}) {
      Executable executable = compiled(session, split);
      executable.set_hooks_at(at);
      Names host, stream;
      executable.add_hook(recorder(host));
      executable.add_hook(stream_recorder(stream));
      for (int step = 0; step < 3; ++step) {
        host.clear();
        stream.clear();
        executable.step();
        EXPECT_EQ(host, expected) << split;
        EXPECT_EQ(stream, expected) << split;
      }
    }
}

TEST(Hooks, RunInTheSameOrderForEveryCutOfRandomGraphs) {
  Session session(options());
  for (std::uint64_t seed = 0; seed < scaled(8); ++seed) {
    const ir::Graph graph = random_graph(seed, {.max_nodes = 8});
    const std::vector<ir::Array> arrays = random_arrays(graph, seed);
    Names expected;
    for (std::size_t cut = 0; cut <= positions(graph); ++cut) {
      Executable executable = jit::create(session, to_public(graph), ir::split_at({cut}));
      if (cut == 0) expected = ready_order(executable);
      EXPECT_EQ(ready_order(executable), expected) << "seed " << seed << ", cut at " << cut;
      bind_arrays(executable, graph, arrays);
      Names names;
      executable.add_hook(recorder(names));
      executable.step();
      EXPECT_EQ(names, expected) << "seed " << seed << ", cut at " << cut;
    }
  }
}

TEST(Hooks, ComeAndGoBetweenStepsWithoutCompiling) {
  Session session(options());
  Executable executable = compiled(session);
  executable.step();
  const std::int64_t compiles = jit::compiler(session).statistics().compiles;
  Names all, some;
  const HookId first = executable.add_hook(recorder(all));
  const HookId second = executable.add_hook(recorder(some, "*.bias"));
  EXPECT_EQ(executable.hooks().size(), 2u);
  executable.step();
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(some.size(), 4u);
  EXPECT_TRUE(executable.remove_hook(first));
  EXPECT_FALSE(executable.remove_hook(first));
  executable.step();
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(some.size(), 8u);
  executable.remove_all_hooks();
  EXPECT_FALSE(executable.remove_hook(second));
  executable.step();
  EXPECT_EQ(some.size(), 8u);
  EXPECT_EQ(jit::compiler(session).statistics().compiles, compiles);
  EXPECT_EQ(executable.matching_parameters("net2.*").size(), 2u);
}

TEST(Hooks, GetWhatTheyAreOn) {
  Session session(options());
  Executable executable = compiled(session);
  std::map<std::string, std::vector<std::byte>> seen;
  std::vector<std::int64_t> steps;
  executable.add_hook({.function = [&](const GradientView& g) {
    seen[std::string(g.parameter)].assign(g.bytes.begin(), g.bytes.end());
    EXPECT_EQ(g.type.bytes(), static_cast<std::int64_t>(g.bytes.size()));
    EXPECT_EQ(g.stream, nullptr);
    EXPECT_EQ(g.partition, g.parameter.starts_with("net4") || g.parameter.starts_with("net3") ? 2
                           : g.parameter.starts_with("net2")                                  ? 1
                                                                                              : 0)
        << g.parameter;
    if (steps.empty() || steps.back() != g.step) steps.push_back(g.step);
  }});
  executable.step();
  executable.step();
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1}));
  for (const auto& [name, bytes] : seen) EXPECT_EQ(bytes, executable.get("grad/" + name).bytes);
  EXPECT_EQ(seen.size(), 8u);
}

struct OwnError {
  int number;
};

TEST(Hooks, ThatThrowFailTheStepWithTheirOwnException) {
  Session session(options());
  for (const bool on_stream : {false, true}) {
    Executable executable = compiled(session), other = compiled(session);
    for (Executable* e : {&executable, &other}) {
      e->set_optimizer({.name = "adam", .lr = 0.1});
      e->step();
    }
    const auto before = parameters(executable);
    Names after;
    const HookId thrower = executable.add_hook({.pattern = "net2.weight",
                                                .is_stream_hook = on_stream,
                                                .function = [](const GradientView& g) {
                                                  auto fail = [] { throw OwnError{42}; };
                                                  if (g.stream) return g.stream->call(fail);
                                                  fail();
                                                }});
    executable.add_hook(recorder(after, "net1.*"));
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        executable.step();
        ADD_FAILURE() << "the step succeeded";
      } catch (const OwnError& error) {
        EXPECT_EQ(error.number, 42);
      }
      expect_equal(parameters(executable), before);
    }
    EXPECT_EQ(executable.steps_done(), 1);
    EXPECT_TRUE(executable.remove_hook(thrower));
    // Optimizer state too is as before: the next steps are what they would have been.
    for (Executable* e : {&executable, &other})
      for (int i = 0; i < 2; ++i) e->step();
    // Hooks behind the failed one on its own stream are skipped; those on another are not.
    const std::size_t in_failed_steps = on_stream ? 3 * 2u : 0u;
    EXPECT_EQ(after.size(), in_failed_steps + 2 * 2u);
    expect_equal(parameters(executable), parameters(other));
  }
}

TEST(Hooks, OfEveryPointMayThrow) {
  Session session(options());
  for (const HookPoint point : {HookPoint::pre_forward, HookPoint::post_forward,
                                HookPoint::pre_backward, HookPoint::post_backward})
    for (const bool observer : {false, true}) {
      Executable executable = compiled(session);
      const auto before = parameters(executable);
      const HookId hook = executable.add_hook(
          {.pattern = "partition_1",
           .point = point,
           .observer = observer,
           .function = [](const GradientView&) { throw std::out_of_range("here"); }});
      EXPECT_THROW(executable.step(), std::out_of_range) << name_of(point);
      expect_equal(parameters(executable), before);
      executable.remove_hook(hook);
      EXPECT_NO_THROW(executable.step());
    }
}

TEST(Hooks, MayChangeWhatTheOptimizerSees) {
  Session session(options());
  for (const bool on_stream : {false, true}) {
    Executable executable = compiled(session);
    executable.set_optimizer({.lr = 0.5});
    auto ones = [](std::span<std::byte> bytes) {
      const float one = 1;
      for (std::size_t i = 0; i < bytes.size(); i += sizeof one)
        std::memcpy(bytes.data() + i, &one, sizeof one);
    };
    executable.add_hook({.is_stream_hook = on_stream,
                         .writes_gradient = true,
                         .function = [&](const GradientView& g) {
                           if (g.stream)
                             return g.stream->call([&ones, bytes = g.bytes] { ones(bytes); });
                           ones(g.bytes);
                         }});
    const auto before = parameters(executable);
    executable.step();
    for (const auto& [name, tensor] : parameters(executable)) {
      const auto now = tensor.as<float>(), was = before.at(name).as<float>();
      for (std::size_t i = 0; i < now.size(); ++i) ASSERT_EQ(now[i], was[i] - 0.5f) << name;
    }
  }
}

TEST(Hooks, OnOneGradientRunInTheOrderInWhichTheyWereAdded) {
  Session session(options());
  Executable executable = compiled(session);
  Names order;  // ordered by the hooks' writes, whatever stream they are on
  auto writer = [&](const std::string& name, bool on_stream) {
    executable.add_hook({.pattern = "net3.weight",
                         .is_stream_hook = on_stream,
                         .writes_gradient = true,
                         .function = [&order, name](const GradientView& g) {
                           if (g.stream)
                             return g.stream->call([&order, name] { order.push_back(name); });
                           order.push_back(name);
                         }});
  };
  writer("a", false);
  writer("b", true);
  writer("c", false);
  writer("d", true);
  executable.step();
  EXPECT_EQ(order, (Names{"a", "b", "c", "d"}));
}

// One tensor is the gradient of `p`, of `q` and of the input `z`, and flows on to `w`: a hook that
// changes one of them changes nothing else.
TEST(Hooks, ThatChangeAGradientLeaveWhatFlowsOnAlone) {
  const Graph graph = Graph::parse(R"(graph @g {
    %x    = input : f32[3, 4]
    %z    = input(requires_grad=True) : f32[3, 5]
    %w    = param : f32[5, 4]
    %p    = param : f32[3, 5]
    %q    = param : f32[3, 5]
    %h    = linear(%x, %w)
    %s    = add(%h, %p)
    %r    = add(%s, %q)
    %u    = add(%r, %z)
    %t    = tanh(%u)
    %loss = mean(%t)
    return %loss
  })");
  const Names gradients = {"grad/p", "grad/q", "grad/z", "grad/w"};
  Session session(options());
  for (const char* split : {"none", "nodes 1", "at 1", "at 2", "at 3", "at 4"})
    for (const std::string changed : {"p", "q", "w", "*"}) {
      Executable plain = session.compile(graph, {.split = split});
      Executable hooked = session.compile(graph, {.split = split});
      for (Executable* e : {&plain, &hooked}) e->init(3);
      hooked.add_hook(
          {.pattern = changed, .writes_gradient = true, .function = [](const GradientView& g) {
             std::memset(g.bytes.data(), 0, g.bytes.size());
           }});
      plain.step();
      hooked.step();
      EXPECT_EQ(plain.get("grad/p").bytes, plain.get("grad/z").bytes);
      for (const std::string& name : gradients) {
        const bool zeroed = name != "grad/z" && (changed == "*" || name == "grad/" + changed);
        const HostTensor gradient = hooked.get(name);
        if (zeroed)
          EXPECT_EQ(gradient.bytes, std::vector<std::byte>(gradient.bytes.size())) << name;
        else
          EXPECT_EQ(gradient.bytes, plain.get(name).bytes)
              << name << ", " << changed << " changed, split " << split;
      }
    }
}

TEST(Hooks, ThatAreOpaqueAreBarriersAndCounted) {
  Session session(options());
  Executable executable = compiled(session);
  EXPECT_TRUE(executable.fallbacks().empty());
  Names host, stream;
  executable.add_hook(recorder(host));
  executable.add_hook(stream_recorder(stream));
  std::atomic<int> calls{0};
  executable.add_hook({.pattern = "net3.weight",
                       .opaque = true,
                       .function = [&](const GradientView&) { ++calls; }});
  executable.step();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(host, ready_order(executable));
  EXPECT_EQ(executable.fallbacks().at("opaque hooks (barriers)"), 1);
  const auto schedule = jit::schedule(executable);
  const runtime::Ordering ordering(*schedule);
  bool found = false;
  for (std::size_t h = 0; h < schedule->commands.size(); ++h) {
    const auto* hook = std::get_if<runtime::Hook>(&schedule->commands[h].what);
    if (!hook || !hook->opaque) continue;
    found = true;
    for (std::size_t i = 0; i < schedule->commands.size(); ++i)
      if (i != h && !schedule->commands[i].operands.empty())
        EXPECT_TRUE(ordering.ordered(static_cast<std::int32_t>(i), static_cast<std::int32_t>(h)))
            << schedule->commands[i].label;
  }
  EXPECT_TRUE(found);
}

TEST(Hooks, OnParametersOfEverySizeTiedFrozenAndUnused) {
  const Graph graph = Graph::parse(R"(graph @g {
    %x      = input : f32[2, 4]
    %scale  = param : f32[]
    %empty  = param : f32[0, 4]
    %one    = param : f32[1]
    %tied   = param : f32[4, 4]
    %frozen = param(frozen=True) : f32[4]
    %unused = param : f32[3]
    %a      = linear(%x, %tied)
    %b      = mul(%a, %scale)
    %c      = add(%b, %one)
    %d      = linear(%c, %tied, %frozen)
    %joined = cat([%d, %empty])
    %loss   = mean(%joined)
    return %loss
  })");
  Session session(options());
  for (const char* split : {"none", "nodes 1", "at 2", "at 3"}) {
    Executable executable = session.compile(graph, {.split = split});
    executable.init(1);
    executable.set_optimizer({.name = "adamw", .lr = 0.1});
    const auto before = parameters(executable);
    Names names;
    std::map<std::string, std::size_t> sizes;
    executable.add_hook({.function = [&](const GradientView& g) {
      names.emplace_back(g.parameter);
      sizes[names.back()] = g.bytes.size();
    }});
    executable.step();
    Names sorted = names;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (Names{"empty", "one", "scale", "tied"})) << split;
    EXPECT_EQ(names, ready_order(executable)) << split;
    EXPECT_EQ(sizes["scale"], sizeof(float));
    EXPECT_EQ(sizes["empty"], 0u);
    const auto after = parameters(executable);
    EXPECT_EQ(before.at("param/frozen").bytes, after.at("param/frozen").bytes);
    EXPECT_EQ(before.at("param/unused").bytes, after.at("param/unused").bytes);
    EXPECT_NE(before.at("param/tied").bytes, after.at("param/tied").bytes);
    EXPECT_TRUE(executable.matching_parameters("frozen").empty());
  }
}

TEST(Hooks, AtPartitionRunAfterTheWholeBackward) {
  Session session(options());
  Executable executable = compiled(session);
  executable.set_hooks_at(HooksAt::partition);
  EXPECT_EQ(executable.hooks_at(), HooksAt::partition);
  Names log;
  auto around = [&](HookPoint point) {
    executable.add_hook({.point = point, .function = [&log, point](const GradientView& g) {
                           EXPECT_TRUE(g.bytes.empty());
                           log.push_back(std::string(name_of(point)) + " " +
                                         std::string(g.parameter));
                         }});
  };
  for (HookPoint point : {HookPoint::pre_forward, HookPoint::post_forward, HookPoint::pre_backward,
                          HookPoint::post_backward})
    around(point);
  executable.add_hook(recorder(log));
  executable.step();
  Names expected;
  for (int p = 0; p < 3; ++p)
    for (const char* point : {"pre_forward", "post_forward"})
      expected.push_back(std::string(point) + " partition_" + std::to_string(p));
  for (std::size_t p = 3; p-- > 0;) {
    for (const char* point : {"pre_backward", "post_backward"})
      expected.push_back(std::string(point) + " partition_" + std::to_string(p));
    for (const std::string& name : ready_order_of_partition(executable, p))
      expected.push_back(name);
  }
  EXPECT_EQ(log, expected);

  // By dependencies: every kernel of the partition's backward is before its hooks.
  const auto schedule = jit::schedule(executable);
  const runtime::Ordering ordering(*schedule);
  for (std::size_t h = 0; h < schedule->commands.size(); ++h) {
    const runtime::Command& hook = schedule->commands[h];
    if (!std::holds_alternative<runtime::Hook>(hook.what) || hook.operands.empty()) continue;
    for (std::size_t i = 0; i < schedule->commands.size(); ++i) {
      const runtime::Command& command = schedule->commands[i];
      if (std::holds_alternative<runtime::Launch>(command.what) &&
          command.phase == runtime::Phase::backward && command.partition == hook.partition)
        EXPECT_TRUE(ordering.before(static_cast<std::int32_t>(i), static_cast<std::int32_t>(h)));
    }
  }
}

TEST(Hooks, AroundPartitionsWaitAndAreWaitedFor) {
  Session session(options());
  Executable executable = compiled(session);
  std::atomic<int> inside{0};
  executable.add_hook({.pattern = "partition_1",
                       .point = HookPoint::pre_backward,
                       .function = [&](const GradientView&) { inside = 1; }});
  executable.add_hook({.pattern = "net2.*", .function = [&](const GradientView&) {
                         EXPECT_EQ(inside, 1) << "backward began before its pre hook was over";
                       }});
  executable.step();
  const auto schedule = jit::schedule(executable);
  const runtime::Ordering ordering(*schedule);
  std::int32_t hook = -1;
  for (std::size_t i = 0; i < schedule->commands.size(); ++i)
    if (std::holds_alternative<runtime::Hook>(schedule->commands[i].what) &&
        schedule->commands[i].operands.empty())
      hook = static_cast<std::int32_t>(i);
  ASSERT_GE(hook, 0);
  for (std::size_t i = 0; i < schedule->commands.size(); ++i) {
    const runtime::Command& command = schedule->commands[i];
    if (!std::holds_alternative<runtime::Launch>(command.what) ||
        command.phase != runtime::Phase::backward)
      continue;
    const auto index = static_cast<std::int32_t>(i);
    if (command.partition == 2) {
      EXPECT_TRUE(ordering.before(index, hook));
    } else {
      EXPECT_TRUE(ordering.before(hook, index));
    }
  }
}

TEST(Hooks, ThatWriteWhatTheyDoNotDeclareAreCaughtInDebugMode) {
  SessionOptions debug = options();
  debug.debug_memory = true;
  Session session(debug);
  Executable executable = compiled(session);
  executable.add_hook({.pattern = "net1.weight", .function = [](const GradientView& g) {
                         std::memset(g.bytes.data(), 0, g.bytes.size());
                       }});
  try {
    executable.step();
    FAIL() << "the step succeeded";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("net1.weight"), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("declare"), std::string_view::npos);
  }
  executable.remove_all_hooks();
  EXPECT_NO_THROW(executable.step());
}

TEST(Hooks, WithoutAFunctionAreRefused) {
  Session session(options());
  Executable executable = compiled(session);
  EXPECT_THROW(executable.add_hook({}), UsageError);
}

TEST(Cancel, FromAnotherThreadEndsTheStep) {
  Session session(options());
  Executable executable = compiled(session);
  const auto before = parameters(executable);
  std::promise<void> running;
  std::atomic<bool> cancelled{false};
  const HookId hook =
      executable.add_hook({.pattern = "net4.bias", .function = [&](const GradientView&) {
                             running.set_value();
                             while (!cancelled) std::this_thread::yield();
                           }});
  std::thread other([&] {
    running.get_future().wait();
    executable.cancel();
    cancelled = true;
  });
  EXPECT_THROW(executable.step(), Cancelled);
  other.join();
  expect_equal(parameters(executable), before);
  EXPECT_EQ(executable.steps_done(), 0);
  executable.remove_hook(hook);
  EXPECT_NO_THROW(executable.step());
  executable.cancel();  // nothing runs: the next step is not concerned
  EXPECT_NO_THROW(executable.step());
}

// Cancelled while parameters are being updated, a step either did not happen or did.
TEST(Cancel, LeavesNoUpdateHalfDone) {
  std::string text = "graph @g {\n  %x = input : f32[2, 8]\n", body, last = "%h0";
  for (int i = 0; i < 24; ++i) {
    const std::string n = std::to_string(i);
    text += "  %w" + n + " = param : f32[8, 8]\n";
    body += "  %h" + n + " = linear(%x, %w" + n + ")\n";
    if (i == 0) continue;
    body += "  %s" + n + " = add(" + last + ", %h" + n + ")\n";
    last = "%s" + n;
  }
  text += body + "  %loss = mean(" + last + ")\n  return %loss\n}\n";
  Session session(options());
  Executable executable = session.compile(Graph::parse(text));
  executable.init(0);
  executable.set_optimizer({.lr = 0.1});
  executable.step();
  std::atomic<bool> begun{false};  // the last hook has run: the optimizer is next
  executable.add_hook({.pattern = ready_order(executable).back(),
                       .function = [&](const GradientView&) { begun = true; }});
  const std::uint64_t rounds = scaled(400);
  std::size_t cancelled = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto before = parameters(executable);
    begun = false;
    std::thread other([&] {
      while (!begun) {
      }
      for (std::uint64_t i = 0; i < round * 100; ++i)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      executable.cancel();
    });
    bool done = true;
    try {
      executable.step();
    } catch (const Cancelled&) {
      done = false;
      ++cancelled;
    }
    other.join();
    std::size_t changed = 0;
    const auto after = parameters(executable);
    for (const auto& [name, tensor] : after) changed += tensor.bytes != before.at(name).bytes;
    ASSERT_EQ(changed, done ? after.size() : 0u) << "of " << after.size() << ", round " << round;
  }
  std::cout << cancelled << " of " << rounds << " steps were cancelled\n";
}

}  // namespace
}  // namespace riffle::test
