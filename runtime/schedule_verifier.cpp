// The rules of DESIGN §5.3, each a function of Verifier. Start reading at Verifier::run.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "riffle/error.h"
#include "runtime/constraints.h"
#include "runtime/ordering.h"
#include "runtime/schedule.h"

namespace riffle::runtime {
namespace {

using Kind = ScheduleFault::Kind;

class Verifier {
 public:
  explicit Verifier(const Schedule& schedule) : schedule_(schedule) {}

  std::vector<ScheduleFault> run() {
    check_references();
    if (!faults_.empty()) return std::move(faults_);  // nothing else can be trusted
    const Ordering ordering(schedule_);
    const std::vector<BufferUses> buffers = uses_by_buffer(schedule_);
    check_waits(ordering);
    check_conflicts(ordering, buffers);
    check_hooks();
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      check_contents(static_cast<BufferId>(b), buffers[b]);
      check_reductions(static_cast<BufferId>(b), buffers[b]);
    }
    return std::move(faults_);
  }

 private:
  void check_references();
  void check_operand_shapes(std::int32_t index);
  void check_waits(const Ordering& ordering);
  void check_conflicts(const Ordering& ordering, const std::vector<BufferUses>& buffers);
  void check_hooks();
  void check_contents(BufferId id, const BufferUses& buffer);
  void check_reductions(BufferId id, const BufferUses& buffer);

  void add(Kind kind, std::int32_t first, std::int32_t second, std::string message) {
    faults_.push_back({kind, first, second, std::move(message)});
  }
  /// "command 12 (launch k3_matmul on stream compute)"
  std::string name(std::int32_t index) const {
    const Command& command = schedule_.commands[index];
    const bool has_stream =
        command.stream >= 0 && static_cast<std::size_t>(command.stream) < schedule_.streams.size();
    return fmt::format(
        "command {} ({}{}{} on stream {})", index, kind_of(command),
        command.label.empty() ? "" : " ", command.label,
        has_stream ? schedule_.streams[command.stream].name : std::to_string(command.stream));
  }
  std::string name(const ByteRange& range) const {
    return fmt::format("{}[{}, {})", schedule_.buffers[range.buffer].name, range.begin, range.end);
  }
  static std::string_view verb(const BufferUse& use) {
    if (use.frees) return "frees";
    if (use.reads && use.writes) return "changes";
    return use.writes ? "writes" : "reads";
  }
  std::string_view verb(const std::vector<BufferUses>& buffers, const Constraint& constraint,
                        std::int32_t command) const;

  const Schedule& schedule_;
  std::vector<ScheduleFault> faults_;
};

bool inside(std::int32_t index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

void Verifier::check_references() {
  const auto events = static_cast<std::size_t>(std::max(schedule_.events, 0));
  for (std::size_t i = 0; i < schedule_.commands.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const Command& command = schedule_.commands[i];
    const auto bad = [&](std::string_view kind, std::int32_t value, std::size_t size) {
      add(Kind::bad_reference, index, -1,
          fmt::format("{} names {} {}, of {} that there are", name(index), kind, value, size));
    };
    const auto check = [&](std::string_view kind, std::int32_t value, std::size_t size) {
      if (!inside(value, size)) bad(kind, value, size);
    };
    check("stream", command.stream, schedule_.streams.size());
    if (const auto* launch = std::get_if<Launch>(&command.what)) {
      check("module", launch->module, schedule_.modules.size());
      if (launch->kernel < 0)
        add(Kind::bad_reference, index, -1,
            fmt::format("{} names kernel {}", name(index), launch->kernel));
    } else if (const auto* record = std::get_if<Record>(&command.what)) {
      check("event", record->event, events);
    } else if (const auto* wait = std::get_if<Wait>(&command.what)) {
      check("event", wait->event, events);
    } else if (const auto* hook = std::get_if<Hook>(&command.what)) {
      check("hook slot", hook->slot, schedule_.hooks.size());
    } else if (const auto* collective = std::get_if<Collective>(&command.what)) {
      check("hook slot", collective->slot, schedule_.hooks.size());
      check("event", collective->done, events);
    }
    for (const Operand& operand : command.operands) {
      const ByteRange& range = operand.range;
      if (!inside(range.buffer, schedule_.buffers.size())) {
        bad("buffer", range.buffer, schedule_.buffers.size());
      } else if (const BufferInfo& buffer = schedule_.buffers[range.buffer];
                 range.begin < 0 || range.end < range.begin || range.end > buffer.bytes) {
        add(Kind::bad_reference, index, -1,
            fmt::format("{} touches {}, which is not inside the buffer's {} bytes", name(index),
                        name(range), buffer.bytes));
      }
    }
    check_operand_shapes(index);
  }
}

void Verifier::check_operand_shapes(std::int32_t index) {
  const Command& command = schedule_.commands[index];
  std::size_t expected = command.operands.size();
  if (std::holds_alternative<Copy>(command.what)) expected = 2;
  if (std::holds_alternative<Fill>(command.what) || std::holds_alternative<Free>(command.what) ||
      std::holds_alternative<Collective>(command.what))
    expected = 1;
  if (std::holds_alternative<Record>(command.what) || std::holds_alternative<Wait>(command.what))
    expected = 0;
  if (command.operands.size() != expected) {
    add(Kind::bad_reference, index, -1,
        fmt::format("{} has {} operands, not {}", name(index), command.operands.size(), expected));
    return;
  }
  const auto size = [&](std::size_t i) {
    return command.operands[i].range.end - command.operands[i].range.begin;
  };
  const auto needs = [&](std::size_t i, Access access, std::string_view what) {
    if ((static_cast<unsigned>(command.operands[i].access) & static_cast<unsigned>(access)) == 0)
      add(Kind::bad_reference, index, -1,
          fmt::format("{} does not declare that it {} operand {}", name(index), what, i));
  };
  if (std::holds_alternative<Copy>(command.what)) {
    if (size(0) != size(1))
      add(Kind::bad_reference, index, -1,
          fmt::format("{} copies {} bytes to {}", name(index), size(0), size(1)));
    needs(0, Access::read, "reads");
    needs(1, Access::write, "writes");
  }
  if (std::holds_alternative<Fill>(command.what)) needs(0, Access::write, "writes");
  if (std::holds_alternative<Collective>(command.what)) {
    needs(0, Access::read, "reads");
    needs(0, Access::write, "writes");
  }
}

void Verifier::check_waits(const Ordering& ordering) {
  for (std::size_t i = 0; i < schedule_.commands.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const Command& command = schedule_.commands[i];
    if (const auto* wait = std::get_if<Wait>(&command.what);
        wait && ordering.recorded_by(index) < 0)
      add(Kind::wait_before_record, index, -1,
          fmt::format("{} waits for event {}, which nothing before it records", name(index),
                      wait->event));
    if (const auto* collective = std::get_if<Collective>(&command.what);
        collective && ordering.waits_for(index).empty())
      add(Kind::unwaited_collective, index, -1,
          fmt::format("{} is started, but nothing waits for its event {}", name(index),
                      collective->done));
  }
}

std::string_view Verifier::verb(const std::vector<BufferUses>& buffers,
                                const Constraint& constraint, std::int32_t command) const {
  const BufferUses& buffer = buffers[constraint.bytes.buffer];
  const auto segment = static_cast<std::int32_t>(
      std::lower_bound(buffer.bounds.begin(), buffer.bounds.end(), constraint.bytes.begin) -
      buffer.bounds.begin());
  BufferUse merged{.command = command};
  for (const BufferUse& use : buffer.uses) {
    if (use.command != command || segment < use.first_segment || segment >= use.end_segment)
      continue;
    merged.reads |= use.reads;
    merged.writes |= use.writes;
    merged.frees |= use.frees;
  }
  return verb(merged);
}

void Verifier::check_conflicts(const Ordering& ordering, const std::vector<BufferUses>& buffers) {
  for (const Constraint& constraint : constraints(schedule_, buffers)) {
    const auto [first, second, bytes] = constraint;
    if (ordering.before(first, second)) continue;
    if (bytes.buffer < 0) {
      add(Kind::unordered_conflict, first, second,
          fmt::format("{} and {} are not ordered, but one of them is an opaque hook", name(first),
                      name(second)));
      continue;
    }
    add(Kind::unordered_conflict, first, second,
        fmt::format("{} {} and {} {} {}, and nothing orders them", name(first),
                    verb(buffers, constraint, first), name(second),
                    verb(buffers, constraint, second), name(bytes)));
  }
}

void Verifier::check_hooks() {
  std::vector<std::int32_t> user(schedule_.hooks.size(), -1);
  for (std::size_t i = 0; i < schedule_.commands.size(); ++i) {
    const Command& command = schedule_.commands[i];
    std::int32_t slot = -1;
    if (const auto* hook = std::get_if<Hook>(&command.what)) slot = hook->slot;
    if (const auto* collective = std::get_if<Collective>(&command.what)) slot = collective->slot;
    if (slot < 0) continue;
    const auto index = static_cast<std::int32_t>(i);
    if (user[slot] < 0)
      user[slot] = index;
    else
      add(Kind::hook_twice, user[slot], index,
          fmt::format("hook slot {} ({}) runs in {} and again in {}", slot, schedule_.hooks[slot],
                      name(user[slot]), name(index)));
  }
}

/// Walks the commands in order, keeping of every segment who wrote or freed it. Conflicts are
/// ordered by check_conflicts, and order never contradicts position, so this walk stands for all.
void Verifier::check_contents(BufferId id, const BufferUses& buffer) {
  constexpr std::int32_t kUnwritten = -2, kInitial = -1;
  const BufferInfo& info = schedule_.buffers[id];
  std::vector<std::int32_t> writer(buffer.segments(), info.initialised ? kInitial : kUnwritten);
  std::vector<std::int32_t> freed(buffer.segments(), -1);
  const auto bytes = [&](std::int32_t begin, std::int32_t end) {
    return name(ByteRange{id, buffer.bounds[begin], buffer.bounds[end]});
  };
  // A command reads before it writes, also when two of its operands overlap.
  for (std::size_t u = 0; u < buffer.uses.size();) {
    const std::int32_t command = buffer.uses[u].command;
    const std::size_t begin = u;
    while (u < buffer.uses.size() && buffer.uses[u].command == command) ++u;
    for (std::size_t i = begin; i < u; ++i) {
      const BufferUse& use = buffer.uses[i];
      if (!use.reads) continue;
      for (std::int32_t s = use.first_segment; s < use.end_segment; ++s) {
        std::int32_t end = s + 1;
        if (freed[s] >= 0) {
          while (end < use.end_segment && freed[end] == freed[s]) ++end;
          add(Kind::use_after_free, freed[s], command,
              fmt::format("{} reads {}, which {} frees", name(command), bytes(s, end),
                          name(freed[s])));
        } else if (writer[s] == kUnwritten) {
          while (end < use.end_segment && freed[end] < 0 && writer[end] == kUnwritten) ++end;
          add(Kind::read_before_write, command, -1,
              fmt::format("{} reads {}, which nothing before it writes", name(command),
                          bytes(s, end)));
        } else {
          continue;
        }
        s = end - 1;
      }
    }
    for (std::size_t i = begin; i < u; ++i) {
      const BufferUse& use = buffer.uses[i];
      if (!use.writes) continue;
      for (std::int32_t s = use.first_segment; s < use.end_segment; ++s) {
        freed[s] = use.frees ? command : -1;
        if (!use.frees) writer[s] = command;
      }
    }
  }
  if (!info.kept) return;
  for (std::size_t s = 0; s < freed.size(); ++s)
    if (freed[s] >= 0 && (s == 0 || freed[s - 1] != freed[s])) {
      const auto segment = static_cast<std::int32_t>(s);
      add(Kind::use_after_free, freed[s], -1,
          fmt::format("{} frees {}, which is read after the step", name(freed[s]),
                      bytes(segment, segment + 1)));
    }
}

void Verifier::check_reductions(BufferId id, const BufferUses& buffer) {
  std::vector<BufferUse> reductions;
  for (const BufferUse& use : buffer.uses) {
    const Command& command = schedule_.commands[use.command];
    const bool reduces = std::holds_alternative<Collective>(command.what);
    const bool contributes = use.writes && !use.frees && !reduces &&
                             !std::holds_alternative<Hook>(command.what) &&
                             (command.phase == Phase::forward || command.phase == Phase::loss ||
                              command.phase == Phase::backward);
    if (reduces || contributes)
      for (const BufferUse& reduction : reductions) {
        const std::int32_t begin = std::max(use.first_segment, reduction.first_segment);
        const std::int32_t end = std::min(use.end_segment, reduction.end_segment);
        if (begin >= end) continue;
        const std::string bytes = name(ByteRange{id, buffer.bounds[begin], buffer.bounds[end]});
        add(Kind::reduced_twice, reduction.command, use.command,
            reduces ? fmt::format("{} reduces {}, which {} has reduced already", name(use.command),
                                  bytes, name(reduction.command))
                    : fmt::format("{} still contributes to {}, which {} has reduced already",
                                  name(use.command), bytes, name(reduction.command)));
      }
    if (reduces) reductions.push_back(use);
  }
}

}  // namespace

std::vector<ScheduleFault> find_faults(const Schedule& schedule) {
  return Verifier(schedule).run();
}

void verify(const Schedule& schedule) {
  const std::vector<ScheduleFault> faults = find_faults(schedule);
  if (faults.empty()) return;
  constexpr std::size_t kShown = 3;
  std::string what = fmt::format("the schedule may not run: {}", faults[0].message);
  for (std::size_t i = 1; i < std::min(faults.size(), kShown); ++i)
    what += "; " + faults[i].message;
  if (faults.size() > kShown) what += fmt::format("; and {} more faults", faults.size() - kShown);
  throw DeviceError(
      {.what = std::move(what),
       .hint = "this is a bug in what built the schedule: `show schedule` prints it"});
}

}  // namespace riffle::runtime
