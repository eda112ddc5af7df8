#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/device.h"
#include "runtime/executor.h"
#include "tests/runtime/schedule_builder.h"

namespace riffle::runtime {
namespace {

/// Two partitions' forward and backward, a hook under the second backward, and the spans of a run
/// in which every kernel takes 100 µs and every hook 40.
struct Example {
  Schedule schedule;
  std::vector<Span> spans;

  Example() {
    ScheduleBuilder b;
    const BufferId x = b.buffer("x", 128, true), g = b.buffer("gradients", 128, false, true);
    const EventId ready1 = b.event(), ready0 = b.event();
    b.add(0, Launch{0, 0}, {reads(x, 0, 128)}, "f0", Phase::forward, 0);
    b.add(0, Launch{0, 0}, {reads(x, 0, 128)}, "f1", Phase::forward, 1);
    b.add(0, Launch{0, 0}, {writes(g, 0, 64)}, "b1a", Phase::backward, 1);
    b.add(0, Launch{0, 0}, {changes(g, 0, 64)}, "b1b", Phase::backward, 1);
    b.add(0, Record{ready1}, {}, "net1.bias ready", Phase::backward, 1);
    b.add(0, Launch{0, 0}, {writes(g, 64, 128)}, "b0", Phase::backward, 0);
    b.add(0, Record{ready0}, {}, "net0.bias ready", Phase::backward, 0);
    b.wait(1, ready1);
    b.hook(1, "net1.bias", {reads(g, 0, 64)});
    b.wait(1, ready0);
    b.hook(1, "net0.bias", {reads(g, 64, 128)});
    schedule = b.schedule;
    EXPECT_TRUE(find_faults(schedule).empty());
    const std::map<int, std::pair<int, int>> times = {
        {0, {0, 100}},   {1, {100, 200}}, {2, {200, 300}}, {3, {300, 400}}, {4, {400, 400}},
        {5, {400, 500}}, {6, {500, 500}}, {8, {410, 450}}, {10, {510, 550}}};
    for (const auto& [index, time] : times)
      spans.push_back({&schedule.commands[index], index, schedule.commands[index].stream, 3,
                       time.first * 1000, time.second * 1000});
  }
};

TEST(Overlap, HooksUnderComputeAreHidden) {
  const Example example;
  const Overlap overlap = measure_overlap(example.spans);
  EXPECT_EQ(overlap.wall_ns, 550'000);
  EXPECT_EQ(overlap.compute_ns, 500'000);
  EXPECT_EQ(overlap.hook_ns, 80'000);
  EXPECT_EQ(overlap.hidden_ns, 40'000);
  EXPECT_EQ(overlap.exposed_ns, 40'000);
}

TEST(Overlap, OfNothingIsZero) {
  const Overlap overlap = measure_overlap({});
  EXPECT_EQ(overlap.wall_ns, 0);
  EXPECT_EQ(overlap.hook_ns, 0);
}

TEST(Overlap, CountsTimeOnceHoweverManySpansShareIt) {
  Command hook{.what = Hook{}, .phase = Phase::hooks}, launch{.what = Launch{}};
  std::vector<Span> spans;
  for (int i = 0; i < 3; ++i) spans.push_back({&hook, 0, i, 0, 10, 30});
  spans.push_back({&launch, 0, 0, 0, 0, 20});
  spans.push_back({&launch, 0, 3, 0, 5, 15});
  const Overlap overlap = measure_overlap(spans);
  EXPECT_EQ(overlap.hook_ns, 20);
  EXPECT_EQ(overlap.compute_ns, 20);
  EXPECT_EQ(overlap.hidden_ns, 10);
}

TEST(ChromeTrace, NamesTracksNestsKernelsAndDrawsArrows) {
  const Example example;
  const auto json = nlohmann::json::parse(chrome_trace(example.spans, example.schedule));
  std::map<int, std::string> tracks;
  std::vector<nlohmann::json> starts, ends;
  struct Box {
    double begin, end;
    std::string name;
  };
  std::vector<Box> partitions, kernels, hooks;
  for (const auto& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M" && event.at("name") == "thread_name")
      tracks[event.at("tid")] = event.at("args").at("name");
    if (phase == "s") starts.push_back(event);
    if (phase == "f") ends.push_back(event);
    if (phase != "X") continue;
    const Box box{event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>(),
                  event.at("name")};
    if (event.at("cat") == "partition") partitions.push_back(box);
    if (event.at("cat") == "launch") kernels.push_back(box);
    if (event.at("cat") == "hook") hooks.push_back(box);
  }
  EXPECT_EQ(tracks, (std::map<int, std::string>{{0, "compute"}, {1, "hooks"}}));
  ASSERT_EQ(partitions.size(), 4u);
  EXPECT_EQ(partitions[2].name, "backward partition_1");
  EXPECT_EQ(partitions[2].begin, 200);
  EXPECT_EQ(partitions[2].end, 400);
  for (const Box& kernel : kernels)
    EXPECT_EQ(
        std::count_if(partitions.begin(), partitions.end(),
                      [&](const Box& p) { return p.begin <= kernel.begin && kernel.end <= p.end; }),
        1)
        << kernel.name;
  ASSERT_EQ(hooks.size(), 2u);
  ASSERT_EQ(starts.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(starts[i].at("id"), ends[i].at("id"));
    EXPECT_EQ(starts[i].at("tid"), 0);
    EXPECT_EQ(ends[i].at("tid"), 1);
    EXPECT_EQ(ends[i].at("ts"), hooks[i].begin);
  }
  EXPECT_EQ(starts[0].at("ts"), 400);
  EXPECT_EQ(starts[1].at("ts"), 500);
}

TEST(ChromeTrace, IsJsonWhateverTheLabels) {
  Example example;
  example.schedule.commands[8].label = "quote \" backslash \\ newline \n bad utf8 \xff";
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace(example.spans, example.schedule)));
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace({}, example.schedule)));
}

TEST(TerminalTimeline, ShowsHooksUnderTheBackwardOfPartitions) {
  const Example example;
  EXPECT_EQ(terminal_timeline(example.spans, example.schedule, 64, false),
            "step 3: 0.550 ms, a column is 10.0 us\n"
            "compute  |forward 0|forward 1|====backward 1=====|===B0====\n"
            "hooks                                             a###      b##\n"
            "      a  net1.bias  at 0.410 ms, 40.0 us, under backward partition_0\n"
            "      b  net0.bias  at 0.510 ms, 40.0 us, after backward partition_0\n");
}

TEST(TerminalTimeline, KeepsToItsWidth) {
  const Example example;
  for (const int width : {1, 30, 80, 200}) {
    std::istringstream lines(terminal_timeline(example.spans, example.schedule, width, false));
    std::string line;
    std::getline(lines, line);
    for (std::size_t s = 0; s < example.schedule.streams.size(); ++s) {
      std::getline(lines, line);
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(width, 29))) << line;
    }
  }
  EXPECT_EQ(terminal_timeline({}, example.schedule, 80, true), "nothing was traced\n");
}

TEST(Trace, StreamsAppendSpansWithTheirCommandsIndex) {
  const Example example;
  const auto device = make_null_device({});
  Trace trace;
  trace.step = 7;
  device->set_trace(&trace);
  Executor executor(*device);
  const auto x = device->allocate(128, "x"), g = device->allocate(128, "g");
  ModuleImage image;
  image.kernels.resize(1);
  const auto module = device->load(std::move(image));
  Bindings bindings;
  bindings.buffers = {x.get(), g.get()};
  bindings.modules = {module.get()};
  bindings.hooks.resize(2);
  for (HookFunction& hook : bindings.hooks) hook.function = [](const HookCall&) {};
  const auto schedule = std::make_shared<const Schedule>(example.schedule);
  executor.prepare(schedule);
  executor.run(bindings);
  const std::vector<Span> spans = trace.take();
  EXPECT_EQ(spans.size(), schedule->commands.size());
  std::vector<bool> seen(schedule->commands.size(), false);
  std::int64_t last = 0;
  for (const Span& span : spans) {
    ASSERT_GE(span.command_index, 0);
    EXPECT_EQ(span.command, &schedule->commands[span.command_index]);
    EXPECT_EQ(span.stream, span.command->stream);
    EXPECT_EQ(span.step, 7);
    EXPECT_LE(span.begin_ns, span.end_ns);
    EXPECT_LE(last, span.begin_ns);
    last = span.begin_ns;
    seen[span.command_index] = true;
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool is) { return is; }));
  EXPECT_TRUE(trace.take().empty());
  device->set_trace(nullptr);
  executor.run(bindings);
  EXPECT_TRUE(trace.take().empty());
}

}  // namespace
}  // namespace riffle::runtime
