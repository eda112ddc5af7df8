// Planted mistakes: a step whose schedule lacks one wait that it needs. The verifier refuses it,
// and run all the same, the emulated GPU reports the race, whatever the data came out as.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "jit/session_impl.h"
#include "runtime/executor.h"
#include "runtime/staging.h"
#include "tests/jit/training.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/support/scale.h"
#include "tests/support/source_folder.h"

namespace riffle::test {
namespace {

using runtime::Command;
using runtime::Schedule;

/// Walks a schedule as the Executor does, but without asking the verifier. Hooks touch what they
/// declare: they read their gradient, and write it back when they may.
class UnverifiedRun {
 public:
  UnverifiedRun(Executable& executable, const Schedule& schedule)
      : schedule_(schedule), impl_(executable.impl()), spec_(impl_.reported()) {
    runtime::Device& device = *impl_.session->device;
    for (int b = 0; b < jit::kInputs; ++b)
      buffers_.push_back(impl_.state->buffer(static_cast<jit::BufferIndex>(b)));
    for (const auto* buffer : {&spec_.inputs, &spec_.outputs, &spec_.arena})
      buffers_.push_back(buffer->get());
    for (std::size_t s = 0; s < schedule.streams.size(); ++s)
      streams_.push_back(
          device.create_stream(schedule.streams[s], static_cast<runtime::StreamId>(s)));
    for (std::int32_t e = 0; e < schedule.events; ++e) events_.push_back(device.create_event());
  }

  void run() {
    for (const Command& command : schedule_.commands) enqueue(command);
    for (const auto& stream : streams_) stream->flush();
    for (const auto& stream : streams_) stream->synchronize();
  }

 private:
  void enqueue(const Command& command) {
    runtime::Stream& stream = *streams_[command.stream];
    std::vector<void*> operands;
    for (const runtime::Operand& operand : command.operands)
      operands.push_back(buffers_[operand.range.buffer]->address() + operand.range.begin);
    const auto size = [&] {
      return command.operands[0].range.end - command.operands[0].range.begin;
    };
    if (const auto* launch = std::get_if<runtime::Launch>(&command.what))
      stream.launch(*spec_.modules[launch->module], launch->kernel, operands, nullptr);
    else if (const auto* record = std::get_if<runtime::Record>(&command.what))
      stream.record(*events_[record->event]);
    else if (const auto* wait = std::get_if<runtime::Wait>(&command.what))
      stream.wait(*events_[wait->event]);
    else if (std::holds_alternative<runtime::Copy>(command.what))
      stream.copy(operands[1], operands[0], size(), nullptr);
    else if (const auto* fill = std::get_if<runtime::Fill>(&command.what))
      stream.fill(operands[0], fill->byte, size(), nullptr);
    else if (std::holds_alternative<runtime::Hook>(command.what))
      stream.host_call(
          [this, &command] {
            runtime::with_operands_on_host(command.operands, buffers_, [](auto) {});
          },
          nullptr);
    else
      FAIL() << "a command that these schedules do not have";
  }

  const Schedule& schedule_;
  Executable::Impl& impl_;
  jit::Specialisation& spec_;
  std::vector<runtime::Buffer*> buffers_;
  std::vector<std::unique_ptr<runtime::Stream>> streams_;
  std::vector<std::unique_ptr<runtime::Event>> events_;
};

std::set<std::int32_t> needed_waits(const Schedule& schedule) {
  std::set<std::int32_t> waits;
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (std::holds_alternative<runtime::Wait>(schedule.commands[i].what))
      waits.insert(static_cast<std::int32_t>(i));
  for (std::int32_t redundant : runtime::redundant_waits(schedule)) waits.erase(redundant);
  return waits;
}

TEST(CudaMistakes, AWaitLeftOutIsRefusedAndItsRaceReported) {
  runtime::test::Emulator emulator;
  Session session({.device = "cuda-emulated", .cache_directory = ""});
  Executable executable = session.compile(
      Graph::load(source_folder() + "/examples/graph_break_small.rfl"), {.split = "nodes 3"});
  executable.init(0);
  executable.add_hook({.writes_gradient = true, .function = [](const GradientView&) {}});
  executable.step();
  ASSERT_EQ(emulator.problems(), "");

  const auto schedule = jit::schedule(executable);
  UnverifiedRun(executable, *schedule).run();
  ASSERT_EQ(emulator.problems(), "") << "the schedule as it is";

  const std::set<std::int32_t> waits = needed_waits(*schedule);
  ASSERT_GE(waits.size(), 8U);
  const std::size_t stride = std::max<std::size_t>(1, waits.size() / scaled(24));
  std::size_t planted = 0, turn = 0;
  for (std::int32_t wait : waits) {
    if (turn++ % stride != 0) continue;
    Schedule mistaken = *schedule;
    mistaken.commands.erase(mistaken.commands.begin() + wait);
    runtime::Executor executor(jit::device(session));
    EXPECT_THROW(executor.prepare(std::make_shared<const Schedule>(mistaken)), DeviceError);
    emulator.forget();
    UnverifiedRun(executable, mistaken).run();
    EXPECT_NE(emulator.problems().find("race"), std::string::npos)
        << "wait " << wait << " is not missed in\n"
        << runtime::print(*schedule);
    ++planted;
  }
  emulator.forget();
  std::cout << planted << " of " << waits.size() << " needed waits left out, one at a time\n";
}

}  // namespace
}  // namespace riffle::test
