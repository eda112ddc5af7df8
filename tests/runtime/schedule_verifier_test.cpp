// Each rule with a schedule that breaks it by hand; then what random schedules must keep:
// sequential semantics when they run, and no wait that could go unless it is said to be redundant.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "riffle/error.h"
#include "runtime/executor.h"
#include "runtime/schedule.h"
#include "tests/runtime/schedule_builder.h"

namespace riffle::runtime {
namespace {

using Kind = ScheduleFault::Kind;

/// Exactly one fault, of this kind and these commands; returns its message.
std::string only_fault(const ScheduleBuilder& builder, Kind kind, std::int32_t first,
                       std::int32_t second) {
  const auto faults = find_faults(builder.schedule);
  if (faults.size() != 1) {
    ADD_FAILURE() << faults.size() << " faults";
    for (const ScheduleFault& fault : faults) ADD_FAILURE() << fault.message;
    return "";
  }
  EXPECT_EQ(static_cast<int>(faults[0].kind), static_cast<int>(kind)) << faults[0].message;
  EXPECT_EQ(faults[0].first, first);
  EXPECT_EQ(faults[0].second, second);
  return faults[0].message;
}

TEST(Verifier, UnorderedConflictNamesCommandsAndBytes) {
  ScheduleBuilder b;
  const BufferId g = b.buffer("gradients", 128);
  b.launch(0, {writes(g, 0, 128)}, "k3_matmul");
  b.hook(1, "net4.bias", {reads(g, 64, 96)});
  EXPECT_EQ(
      only_fault(b, Kind::unordered_conflict, 0, 1),
      "command 0 (launch k3_matmul on stream compute) writes and command 1 (hook net4.bias on "
      "stream hooks) reads gradients[64, 96), and nothing orders them");
}

TEST(Verifier, EventsOrderAcrossStreamsTransitively) {
  ScheduleBuilder b;
  b.schedule.streams.push_back({"third", false, 0});
  const BufferId x = b.buffer("x", 64);
  const EventId e = b.event(), f = b.event();
  b.launch(0, {writes(x, 0, 64)});
  b.record(0, e);
  b.wait(1, e);
  b.record(1, f);
  const auto last = b.wait(2, f);
  b.launch(2, {changes(x, 0, 64)});
  EXPECT_TRUE(find_faults(b.schedule).empty());
  b.schedule.commands.erase(b.schedule.commands.begin() + last);
  only_fault(b, Kind::unordered_conflict, 0, 4);
}

TEST(Verifier, AWaitMeansTheLatestRecordBeforeIt) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64);
  const EventId e = b.event();
  b.record(0, e);
  b.launch(0, {writes(x, 0, 64)});
  b.wait(1, e);  // of the record before the write
  b.launch(1, {reads(x, 0, 64)});
  b.record(0, e);  // too late
  only_fault(b, Kind::unordered_conflict, 1, 3);
}

TEST(Verifier, ReadsNeedNoOrderAndOtherBytesNeither) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64, true);
  b.launch(0, {reads(x, 0, 64)});
  b.launch(1, {reads(x, 0, 64)});
  EXPECT_TRUE(find_faults(b.schedule).empty());
  ScheduleBuilder c;
  const BufferId y = c.buffer("y", 64);
  c.launch(0, {writes(y, 0, 32)});
  c.launch(1, {writes(y, 32, 64)});
  c.launch(1, {writes(y, 32, 32)});
  EXPECT_TRUE(find_faults(c.schedule).empty());
}

TEST(Verifier, AFreeWaitsForTheLastReader) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64, true);
  b.hook(1, "h", {reads(x, 0, 64)});
  b.add(0, Free{}, {reads(x, 0, 64)});
  EXPECT_NE(only_fault(b, Kind::unordered_conflict, 0, 1).find("frees x[0, 64)"),
            std::string::npos);
}

TEST(Verifier, AnOpaqueHookIsABarrier) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64, true);
  const EventId before = b.event(), after = b.event();
  b.launch(0, {changes(x, 0, 64)});
  b.record(0, before);
  const auto first_wait = b.wait(1, before);
  b.hook(1, "opaque", {}, true);
  b.record(1, after);
  const auto second_wait = b.wait(0, after);
  b.launch(0, {changes(x, 0, 64)});
  EXPECT_TRUE(find_faults(b.schedule).empty());
  EXPECT_TRUE(redundant_waits(b.schedule).empty());
  ScheduleBuilder c = b;
  c.schedule.commands.erase(c.schedule.commands.begin() + second_wait);
  only_fault(c, Kind::unordered_conflict, 3, 5);
  c = b;
  c.schedule.commands.erase(c.schedule.commands.begin() + first_wait);
  only_fault(c, Kind::unordered_conflict, 0, 2);
}

TEST(Verifier, WaitBeforeRecord) {
  ScheduleBuilder b;
  const EventId e = b.event();
  b.wait(1, e);
  b.record(0, e);
  EXPECT_EQ(only_fault(b, Kind::wait_before_record, 0, -1),
            "command 0 (wait on stream hooks) waits for event 0, which nothing before it records");
}

TEST(Verifier, CollectivesMustBeWaitedFor) {
  ScheduleBuilder b;
  const BufferId g = b.buffer("g", 64, true, true);
  b.collective(1, "bucket0", changes(g, 0, 64), b.event());
  only_fault(b, Kind::unwaited_collective, 0, -1);
}

TEST(Verifier, StreamOrderDoesNotFinishACollective) {
  ScheduleBuilder b;
  const BufferId g = b.buffer("g", 64, true, true);
  const EventId done = b.event();
  b.collective(1, "bucket0", changes(g, 0, 64), done);
  b.add(1, Launch{0, 0}, {reads(g, 0, 64)}, "scale", Phase::optimizer);
  b.wait(1, done);
  only_fault(b, Kind::unordered_conflict, 0, 1);
  std::swap(b.schedule.commands[1], b.schedule.commands[2]);
  EXPECT_TRUE(find_faults(b.schedule).empty());
}

TEST(Verifier, ReducedTwice) {
  ScheduleBuilder b;
  const BufferId g = b.buffer("g", 64, true, true);
  for (int i = 0; i < 2; ++i) {
    const EventId done = b.event();
    b.collective(1, "bucket", changes(g, 0, 64), done);
    b.wait(1, done);
  }
  only_fault(b, Kind::reduced_twice, 0, 2);
}

TEST(Verifier, ReducedBeforeTheLastContribution) {
  ScheduleBuilder b;
  const BufferId g = b.buffer("g", 64, true, true);
  const EventId done = b.event();
  b.collective(0, "bucket", changes(g, 0, 64), done);
  b.wait(0, done);
  b.launch(0, {changes(g, 32, 64)}, "backward");
  EXPECT_NE(only_fault(b, Kind::reduced_twice, 0, 2).find("still contributes to g[32, 64)"),
            std::string::npos);
}

TEST(Verifier, ReadBeforeWrite) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64);
  b.launch(0, {writes(x, 0, 32)});
  b.launch(0, {reads(x, 0, 64)}, "k");
  EXPECT_EQ(
      only_fault(b, Kind::read_before_write, 1, -1),
      "command 1 (launch k on stream compute) reads x[32, 64), which nothing before it writes");
}

TEST(Verifier, UseAfterFree) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64);
  b.launch(0, {writes(x, 0, 64)});
  b.add(0, Free{}, {reads(x, 0, 64)});
  b.launch(0, {writes(x, 0, 32)});
  b.launch(0, {reads(x, 0, 64)}, "k");
  EXPECT_NE(only_fault(b, Kind::use_after_free, 1, 3).find("reads x[32, 64), which command 1"),
            std::string::npos);
}

TEST(Verifier, WhatIsKeptMayNotBeFreed) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64, true, true);
  b.add(0, Free{}, {reads(x, 0, 64)});
  only_fault(b, Kind::use_after_free, 0, -1);
}

TEST(Verifier, HookTwice) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64, true);
  b.hook(1, "h", {reads(x, 0, 64)});
  b.add(1, Hook{0, false}, {reads(x, 0, 64)}, "h", Phase::hooks);
  only_fault(b, Kind::hook_twice, 0, 1);
}

TEST(Verifier, BadReferences) {
  const auto expect_bad = [](auto change) {
    ScheduleBuilder b;
    const BufferId x = b.buffer("x", 64, true);
    b.launch(0, {reads(x, 0, 64)});
    b.schedule.hooks = {"h"};
    b.schedule.events = 1;
    change(b.schedule.commands[0]);
    const auto faults = find_faults(b.schedule);
    ASSERT_FALSE(faults.empty());
    for (const ScheduleFault& fault : faults)
      EXPECT_EQ(static_cast<int>(fault.kind), static_cast<int>(Kind::bad_reference))
          << fault.message;
  };
  expect_bad([](Command& c) { c.stream = 2; });
  expect_bad([](Command& c) { c.stream = -1; });
  expect_bad([](Command& c) { c.operands[0].range.buffer = 1; });
  expect_bad([](Command& c) { c.operands[0].range.begin = -1; });
  expect_bad([](Command& c) { c.operands[0].range.end = 65; });
  expect_bad([](Command& c) { c.operands[0].range.begin = 65; });
  expect_bad([](Command& c) { c.what = Launch{1, 0}; });
  expect_bad([](Command& c) { c.what = Launch{0, -1}; });
  expect_bad([](Command& c) { c.what = Hook{1, false}; });
  expect_bad([](Command& c) { c.what = Record{1}; });
  expect_bad([](Command& c) { c.what = Wait{-1}; });
  expect_bad([](Command& c) { c.what = Collective{0, 1}; });
  expect_bad([](Command& c) { c.what = Copy{}; });
  expect_bad([](Command& c) { c.what = Fill{}; });
  expect_bad([](Command& c) { c.operands.clear(), c.what = Free{}; });
}

TEST(Verifier, VerifyThrowsWithTheFirstFaults) {
  ScheduleBuilder b;
  const EventId e = b.event();
  for (int i = 0; i < 5; ++i) b.wait(0, e);
  try {
    verify(b.schedule);
    FAIL();
  } catch (const DeviceError& error) {
    const std::string what(error.message());
    EXPECT_NE(what.find("command 0"), std::string::npos) << what;
    EXPECT_NE(what.find("and 2 more faults"), std::string::npos) << what;
  }
}

TEST(Verifier, OfTwoWaitsForTheSameTheLaterStays) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64);
  const EventId e = b.event();
  b.launch(0, {writes(x, 0, 64)});
  b.record(0, e);
  const auto early = b.wait(1, e);
  b.wait(1, e);
  b.launch(1, {reads(x, 0, 64)});
  EXPECT_EQ(redundant_waits(b.schedule), std::vector<std::int32_t>{early});
}

TEST(Schedule, PrintsOneAlignedLineACommand) {
  ScheduleBuilder b;
  const BufferId x = b.buffer("x", 64);
  const EventId e = b.event();
  b.add(0, Launch{0, 2}, {writes(x, 0, 64)}, "k2", Phase::forward, 1);
  b.record(0, e);
  b.wait(1, e);
  b.hook(1, "net.bias", {reads(x, 0, 64)});
  EXPECT_EQ(print(b.schedule),
            "#  stream   phase     part  command  label     what      operands\n"
            "0  compute  forward   1     launch   k2        module.2  w:x[0, 64)\n"
            "1  compute  backward  -     record             event 0\n"
            "2  hooks    backward  -     wait               event 0\n"
            "3  hooks    hooks     -     hook     net.bias  net.bias  r:x[0, 64)\n");
}

// Random schedules: launches that fold what they read into what they write, on three streams, with
// a record and a wait for every dependency (and some that none needs).
constexpr std::int64_t kCell = 64;

ScheduleBuilder random_schedule(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  ScheduleBuilder b;
  b.schedule.streams.push_back({"third", false, 0});
  const BufferId x = b.buffer("x", 8 * kCell, true, true);
  const int count = 2 + below(14);
  struct Done {
    StreamId stream;
    Operand read, write;
    EventId event;
  };
  std::vector<Done> done;
  const auto overlap = [](const Operand& p, const Operand& q) {
    return p.range.begin < q.range.end && q.range.begin < p.range.end;
  };
  for (int i = 0; i < count; ++i) {
    const auto range = [&] {
      const int begin = below(8), end = begin + 1 + below(std::min(2, 8 - begin));
      return std::pair(begin * kCell, end * kCell);
    };
    const auto [read_begin, read_end] = range();
    const auto [write_begin, write_end] = range();
    Done next{below(3), reads(x, read_begin, read_end), changes(x, write_begin, write_end),
              b.event()};
    for (const Done& other : done) {
      const bool conflicts = overlap(other.write, next.read) || overlap(other.read, next.write) ||
                             overlap(other.write, next.write);
      if (other.stream != next.stream && (conflicts || below(8) == 0))
        b.wait(next.stream, other.event);
    }
    b.launch(next.stream, {next.read, next.write}, fmt::format("k{}", i), i);
    b.record(next.stream, next.event);
    done.push_back(next);
  }
  return b;
}

/// What kernel i does with its operands; depends on the order of any two that conflict.
void fold(int i, const unsigned char* read, std::int64_t reads, unsigned char* write,
          std::int64_t writes) {
  unsigned sum = static_cast<unsigned>(i) * 2654435761u;
  for (std::int64_t k = 0; k < reads; k += 16) sum = sum * 31 + read[k];
  for (std::int64_t k = 0; k < writes; k += 16)
    write[k] = static_cast<unsigned char>(write[k] * 5 + sum + static_cast<unsigned>(k));
}

TEST(RandomSchedules, RunAsIfInSequence) {
  const auto device = make_cpu_device({.threads = 2});
  Executor executor(*device);
  const auto buffer = device->allocate(8 * kCell, "x");
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto schedule = std::make_shared<const Schedule>(random_schedule(random).schedule);
    ASSERT_TRUE(find_faults(*schedule).empty());
    ModuleImage image;
    std::vector<unsigned char> expected(8 * kCell, 1);
    int kernel = 0;
    for (const Command& command : schedule->commands) {
      if (!std::holds_alternative<Launch>(command.what)) continue;
      const ByteRange read = command.operands[0].range, write = command.operands[1].range;
      const auto apply = [i = kernel++, reads = read.end - read.begin,
                          writes = write.end - write.begin](void* const* operands) {
        fold(i, static_cast<unsigned char*>(operands[0]), reads,
             static_cast<unsigned char*>(operands[1]), writes);
      };
      void* operands[] = {expected.data() + read.begin, expected.data() + write.begin};
      apply(operands);
      image.kernels.push_back({"k", {}, nullptr, apply});
    }
    const auto module = device->load(std::move(image));
    std::memset(buffer->host(), 1, 8 * kCell);
    Bindings bindings;
    bindings.buffers = {buffer.get()};
    bindings.modules = {module.get()};
    executor.prepare(schedule);
    executor.run(bindings);
    ASSERT_EQ(std::memcmp(buffer->host(), expected.data(), expected.size()), 0);
  }
}

Schedule without(const Schedule& schedule, const std::set<std::int32_t>& commands) {
  Schedule result = schedule;
  result.commands.clear();
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (!commands.contains(static_cast<std::int32_t>(i)))
      result.commands.push_back(schedule.commands[i]);
  return result;
}

TEST(RandomSchedules, NoWaitCanGoUnlessItIsRedundant) {
  int redundant_total = 0, needed_total = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Schedule schedule = random_schedule(random).schedule;
    const auto redundant = redundant_waits(schedule);
    redundant_total += static_cast<int>(redundant.size());
    const Schedule lean = without(schedule, {redundant.begin(), redundant.end()});
    ASSERT_TRUE(find_faults(lean).empty());
    ASSERT_TRUE(redundant_waits(lean).empty());
    for (std::size_t i = 0; i < lean.commands.size(); ++i) {
      if (!std::holds_alternative<Wait>(lean.commands[i].what)) continue;
      ++needed_total;
      EXPECT_FALSE(find_faults(without(lean, {static_cast<std::int32_t>(i)})).empty()) << i;
    }
  }
  EXPECT_GT(redundant_total, 100);
  EXPECT_GT(needed_total, 100);
}

TEST(RandomSchedules, FaultsAreThoseOfABruteForceCheck) {
  // All pairs, reachability by search: nothing shared with the verifier's clocks and frontiers.
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Schedule schedule = random_schedule(random).schedule;
    std::set<std::int32_t> dropped;
    for (std::size_t i = 0; i < schedule.commands.size(); ++i)
      if (std::holds_alternative<Wait>(schedule.commands[i].what) && random() % 4 == 0)
        dropped.insert(static_cast<std::int32_t>(i));
    schedule = without(schedule, dropped);
    const std::size_t count = schedule.commands.size();
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
    for (std::size_t j = 0; j < count; ++j)
      for (std::size_t i = 0; i < j; ++i) {
        bool edge = schedule.commands[i].stream == schedule.commands[j].stream;
        const auto* wait = std::get_if<Wait>(&schedule.commands[j].what);
        const auto* record = std::get_if<Record>(&schedule.commands[i].what);
        edge |= wait && record && wait->event == record->event;  // recorded once each
        if (!edge) continue;
        before[i][j] = true;
        for (std::size_t k = 0; k < i; ++k)
          if (before[k][i]) before[k][j] = true;
      }
    bool faulty = false;
    for (std::size_t j = 0; j < count; ++j)
      for (std::size_t i = 0; i < j; ++i)
        for (const Operand& a : schedule.commands[i].operands)
          for (const Operand& b : schedule.commands[j].operands)
            faulty |= a.range.begin < b.range.end && b.range.begin < a.range.end &&
                      (a.access != Access::read || b.access != Access::read) && !before[i][j];
    EXPECT_EQ(!find_faults(schedule).empty(), faulty);
  }
}

}  // namespace
}  // namespace riffle::runtime
