// Schedule: one step as data. jit builds it, the verifier proves it, the Executor runs it, reports
// draw it. Nothing here is a pointer; everything can be printed and compared.
//
// Commands stand in the order in which they are enqueued. Two commands are ordered when they share
// a stream, or when an event recorded after the first is waited for before the second (and so on,
// transitively). Every byte that a command touches is among its operands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace riffle::runtime {

using BufferId = std::int32_t;
using StreamId = std::int32_t;
using EventId = std::int32_t;

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

struct ByteRange {
  BufferId buffer = -1;
  std::int64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct Operand {
  ByteRange range;
  Access access = Access::read;
  bool operator==(const Operand&) const = default;
};

/// Operands are the kernel's, in the kernel's order.
struct Launch {
  std::int32_t module = -1, kernel = -1;
};
/// operands: source, destination (equal sizes).
struct Copy {};
/// Sets every byte of operand 0.
struct Fill {
  std::uint8_t byte = 0;
};
struct Record {
  EventId event = -1;
};
struct Wait {
  EventId event = -1;
};
/// Calls hook slot `slot`. operands: what it declares; operand 0 is the gradient, if there is one.
struct Hook {
  std::int32_t slot = -1;
  /// Touches more than it declares: counts as reading and writing every buffer, so everything
  /// before and after it that touches memory must be ordered against it.
  bool opaque = false;
};
/// In place on operand 0. Started here; complete when the event is: only a Wait for `done` orders
/// others after it, not its stream. `slot` is of the same table as the hooks'.
struct Collective {
  std::int32_t slot = -1;
  EventId done = -1;
};
/// The bytes of operand 0 are not used any more (until written again).
struct Free {};

enum class Phase : std::uint8_t { setup, forward, loss, backward, hooks, optimizer };
std::string_view name_of(Phase phase) noexcept;

struct Command {
  std::variant<Launch, Copy, Fill, Record, Wait, Hook, Collective, Free> what;
  StreamId stream = 0;
  std::vector<Operand> operands;
  std::string label;  ///< "k0_matmul", "net4.bias", …: for people
  Phase phase = Phase::forward;
  std::int32_t partition = -1;
};

/// "launch", "copy", … after the alternatives of Command::what.
std::string_view kind_of(const Command& command) noexcept;

struct BufferInfo {
  std::string name;
  std::int64_t bytes = 0;
  /// Written before the step begins (parameters, inputs); others must be written before read.
  bool initialised = false;
  /// Read after the step ends (outputs, gradients, parameters): its last writes must be ordered
  /// before the end, which every schedule's end is.
  bool kept = false;
};

struct StreamInfo {
  std::string name;               ///< "compute", "hooks", "communication"
  bool driven_by_waiter = false;  ///< the thread that waits for the step runs it (compute)
  int priority = 0;
};

struct ScheduleModule {
  std::string name;
};

struct Schedule {
  std::vector<BufferInfo> buffers;
  std::vector<StreamInfo> streams;
  std::vector<ScheduleModule> modules;  ///< by index: Launch::module
  std::vector<std::string> hooks;       ///< names by slot, of hooks and collectives
  std::int32_t events = 0;
  std::vector<Command> commands;
};

/// Aligned text, one command a line: index, stream, kind, label, operands, waits.
std::string print(const Schedule& schedule);

/// One violated rule: the commands concerned (indices; second may be -1) and a sentence.
struct ScheduleFault {
  enum class Kind : std::uint8_t {
    bad_reference,  ///< buffer, stream, event, module, hook out of range; range outside buffer
    unordered_conflict,
    wait_before_record,  ///< waits for an event that nothing earlier records
    unwaited_collective,
    reduced_twice,  ///< or before its last contribution
    read_before_write,
    use_after_free,
    hook_twice,  ///< a hook slot runs more than once
  };
  Kind kind{};
  std::int32_t first = -1, second = -1;
  std::string message;
};

/// All kinds of violation, with the commands concerned; empty means that the schedule may run.
/// Several unordered accesses to the same bytes by one stream are reported once, for the last.
std::vector<ScheduleFault> find_faults(const Schedule& schedule);
/// Throws DeviceError with the first faults.
void verify(const Schedule& schedule);
/// Waits whose removal, all together, leaves every ordering that the rules need; each wait that
/// remains is then needed. Of two that could stand for each other the later is kept. For a schedule
/// without faults; used by tests and by the builder.
std::vector<std::int32_t> redundant_waits(const Schedule& schedule);

}  // namespace riffle::runtime
