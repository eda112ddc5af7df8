// Every schedule that sessions build: the verifier accepts it, and rejects it without any one wait
// that is not redundant. And the memory plan behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "jit/memory_plan.h"
#include "jit/session.h"
#include "runtime/schedule.h"
#include "tests/jit/cuts.h"
#include "tests/jit/training.h"
#include "tests/support/random_graph.h"
#include "tests/support/scale.h"
#include "tests/support/source_folder.h"

namespace riffle::test {
namespace {

void ignore(const GradientView&) {}

/// Hooks of all kinds, some of them, by the bits of `mix`.
void add_mix(Executable& executable, std::uint64_t mix) {
  auto bit = [&](int b) { return (mix >> b & 1) != 0; };
  if (bit(0)) executable.add_hook({.function = ignore});
  if (bit(1)) executable.add_hook({.writes_gradient = true, .function = ignore});
  if (bit(2)) executable.add_hook({.is_stream_hook = true, .function = ignore});
  if (bit(3))
    executable.add_hook({.is_stream_hook = true, .writes_gradient = true, .function = ignore});
  if (bit(4)) executable.add_hook({.pattern = "w_1", .opaque = true, .function = ignore});
  if (bit(5))
    for (HookPoint point : {HookPoint::pre_forward, HookPoint::post_forward,
                            HookPoint::pre_backward, HookPoint::post_backward})
      executable.add_hook(
          {.point = point, .is_stream_hook = bit(6), .observer = bit(7), .function = ignore});
  if (bit(8)) executable.set_hooks_at(HooksAt::partition);
}

runtime::Schedule without(const runtime::Schedule& schedule, const std::vector<bool>& removed) {
  runtime::Schedule rest = schedule;
  rest.commands.clear();
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (!removed[i]) rest.commands.push_back(schedule.commands[i]);
  return rest;
}

struct Totals {
  std::size_t schedules = 0, commands = 0, waits = 0, redundant = 0, removed = 0;
};

/// At most `most` of the needed waits are removed, one at a time, evenly spread.
void check(const runtime::Schedule& schedule, std::size_t most, Totals& totals) {
  ASSERT_TRUE(runtime::find_faults(schedule).empty()) << runtime::print(schedule);
  std::vector<bool> removed(schedule.commands.size(), false);
  for (std::int32_t wait : runtime::redundant_waits(schedule)) {
    removed[static_cast<std::size_t>(wait)] = true;
    ++totals.redundant;
  }
  ASSERT_TRUE(runtime::find_faults(without(schedule, removed)).empty());
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (std::holds_alternative<runtime::Wait>(schedule.commands[i].what)) {
      ++totals.waits;
      if (!removed[i]) needed.push_back(i);
    }
  const std::size_t stride = std::max<std::size_t>(1, needed.size() / most);
  for (std::size_t n = 0; n < needed.size(); n += stride) {
    removed[needed[n]] = true;
    ASSERT_FALSE(runtime::find_faults(without(schedule, removed)).empty())
        << "wait " << needed[n] << " is not missed in\n"
        << runtime::print(schedule);
    removed[needed[n]] = false;
    ++totals.removed;
  }
  ++totals.schedules;
  totals.commands += schedule.commands.size();
}

TEST(Schedules, VerifyAndNeedTheirWaits) {
  // The null device runs nothing, so that only schedules are made here.
  Session session({.device = "null", .threads = 2, .cache_directory = "", .kept_modules = 400});
  SessionOptions debug = session.options();
  debug.debug_memory = true;  // with Free commands
  Session with_frees = jit::beside(session, debug);
  Totals totals;
  double worst = 1;
  for (std::uint64_t seed = 0; seed < scaled(60); ++seed) {
    const ir::Graph graph = random_graph(seed);
    Random random(seed);
    const std::size_t most = positions(graph);
    std::vector<std::size_t> everywhere;
    for (std::size_t cut = 1; cut <= std::min<std::size_t>(11, most); ++cut)
      everywhere.push_back(cut);
    for (const std::vector<std::size_t>& cuts :
         {std::vector<std::size_t>{}, everywhere, {std::min<std::size_t>(3, most)}}) {
      Executable executable =
          jit::create(seed % 2 == 0 ? session : with_frees, to_public(graph), ir::split_at(cuts));
      executable.set_optimizer({.name = seed % 3 == 0 ? "adam" : "sgd"});
      for (int mix = 0; mix < 4; ++mix) {
        executable.remove_all_hooks();
        executable.set_hooks_at(HooksAt::gradient);
        add_mix(executable, mix == 0 ? 0 : random.next());
        ASSERT_NO_FATAL_FAILURE(check(*jit::schedule(executable), 6, totals)) << "seed " << seed;
        const MemoryReport memory = executable.memory();
        ASSERT_GE(memory.arena, memory.lower_bound);
        if (memory.lower_bound > 0)
          worst = std::max(
              worst, static_cast<double>(memory.arena) / static_cast<double>(memory.lower_bound));
      }
    }
  }
  std::cout << totals.schedules << " schedules of " << totals.commands << " commands; "
            << totals.waits << " waits, " << totals.redundant << " of them redundant, "
            << totals.removed << " removals rejected; arenas at most " << worst
            << " times the lower bound\n";
  EXPECT_GT(totals.removed, 0u);
}

TEST(Schedules, OfTheExamplesVerify) {
  Session session({.device = "null", .threads = 2, .cache_directory = ""});
  Totals totals;
  for (const char* name :
       {"graph_break_small", "mlp_digits", "transformer_block", "tied_weights", "mixed_precision"})
    for (const char* split : {"none", "nodes 3"}) {
      Executable executable = session.compile(
          Graph::load(source_folder() + "/examples/" + name + ".rfl"), {.split = split});
      executable.set_optimizer({.name = "adamw"});
      add_mix(executable, 0b100111);
      check(*jit::schedule(executable), 100, totals);
      const MemoryReport memory = executable.memory();
      EXPECT_GE(memory.arena, memory.lower_bound);
      std::cout << name << ", split " << split << ": arena " << memory.arena << " bytes, at least "
                << memory.lower_bound << "\n";
    }
}

TEST(MemoryPlan, LaysLiveTensorsSideBySide) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<jit::PlanItem> items(static_cast<std::size_t>(random.below(40)));
    std::int64_t most = 0;
    for (jit::PlanItem& item : items) {
      item.bytes = random.below(1000);
      item.first = static_cast<std::int32_t>(random.below(50));
      item.last = item.first + static_cast<std::int32_t>(random.below(20));
    }
    const jit::MemoryPlan plan = jit::plan_memory(items);
    ASSERT_EQ(plan.offsets.size(), items.size());
    for (std::int32_t time = 0; time < 70; ++time) {
      std::int64_t alive = 0;
      for (const jit::PlanItem& item : items)
        if (item.first <= time && time <= item.last) alive += jit::align_up(item.bytes);
      most = std::max(most, alive);
    }
    EXPECT_EQ(plan.lower_bound_bytes, most);
    EXPECT_GE(plan.peak_bytes, most);
    for (std::size_t a = 0; a < items.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + items[a].bytes, plan.peak_bytes);
      for (std::size_t b = a + 1; b < items.size(); ++b) {
        const bool together = items[a].first <= items[b].last && items[b].first <= items[a].last;
        const bool apart = plan.offsets[a] + items[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + items[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(!together || apart || items[a].bytes == 0 || items[b].bytes == 0);
      }
    }
  }
}

}  // namespace
}  // namespace riffle::test
