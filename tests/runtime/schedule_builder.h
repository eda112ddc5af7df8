// Builds small schedules for tests, one call a command.
#pragma once

#include <string>
#include <utility>

#include "runtime/schedule.h"

namespace riffle::runtime {

struct ScheduleBuilder {
  Schedule schedule;

  ScheduleBuilder() {
    schedule.streams = {{"compute", true, 0}, {"hooks", false, 0}};
    schedule.modules = {{"module"}};
  }
  BufferId buffer(std::string name, std::int64_t bytes, bool initialised = false,
                  bool kept = false) {
    schedule.buffers.push_back({std::move(name), bytes, initialised, kept});
    return static_cast<BufferId>(schedule.buffers.size() - 1);
  }
  EventId event() { return schedule.events++; }
  std::int32_t add(StreamId stream, decltype(Command::what) what,
                   std::vector<Operand> operands = {}, std::string label = {},
                   Phase phase = Phase::backward, std::int32_t partition = -1) {
    schedule.commands.push_back(
        {what, stream, std::move(operands), std::move(label), phase, partition});
    return static_cast<std::int32_t>(schedule.commands.size() - 1);
  }
  std::int32_t launch(StreamId stream, std::vector<Operand> operands, std::string label = "kernel",
                      std::int32_t kernel = 0) {
    return add(stream, Launch{0, kernel}, std::move(operands), std::move(label));
  }
  std::int32_t record(StreamId stream, EventId event) { return add(stream, Record{event}); }
  std::int32_t wait(StreamId stream, EventId event) { return add(stream, Wait{event}); }
  std::int32_t hook(StreamId stream, std::string name, std::vector<Operand> operands,
                    bool opaque = false) {
    schedule.hooks.push_back(name);
    return add(stream, Hook{static_cast<std::int32_t>(schedule.hooks.size() - 1), opaque},
               std::move(operands), std::move(name), Phase::hooks);
  }
  std::int32_t collective(StreamId stream, std::string name, Operand operand, EventId done) {
    schedule.hooks.push_back(name);
    return add(stream, Collective{static_cast<std::int32_t>(schedule.hooks.size() - 1), done},
               {operand}, std::move(name), Phase::hooks);
  }
};

inline Operand reads(BufferId buffer, std::int64_t begin, std::int64_t end) {
  return {{buffer, begin, end}, Access::read};
}
inline Operand writes(BufferId buffer, std::int64_t begin, std::int64_t end) {
  return {{buffer, begin, end}, Access::write};
}
inline Operand changes(BufferId buffer, std::int64_t begin, std::int64_t end) {
  return {{buffer, begin, end}, Access::read_write};
}

}  // namespace riffle::runtime
