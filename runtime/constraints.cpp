#include "runtime/constraints.h"

#include <algorithm>

namespace riffle::runtime {
namespace {

bool is_collective(const Command& command) {
  return std::holds_alternative<Collective>(command.what);
}

bool touches_memory(const Command& command) {
  if (std::holds_alternative<Hook>(command.what) || is_collective(command)) return true;
  return std::any_of(command.operands.begin(), command.operands.end(), [](const Operand& operand) {
    return operand.range.begin < operand.range.end;
  });
}

class Builder {
 public:
  explicit Builder(const Schedule& schedule)
      : schedule_(schedule),
        streams_(schedule.streams.size()),
        seen_(schedule.commands.size(), -1) {}

  void add_buffer(BufferId id, const BufferUses& buffer);
  void add_opaque(std::int32_t hook);
  std::vector<Constraint> take() { return std::move(result_); }

 private:
  void require(std::int32_t first, std::int32_t second, const ByteRange& bytes) {
    const Command& a = schedule_.commands[first];
    const Command& b = schedule_.commands[second];
    if (first == second || (a.stream == b.stream && !is_collective(a))) return;
    // Commands come in order, so one mark per `first` keeps pairs from repeating within a buffer.
    if (seen_[first] == second) return;
    seen_[first] = second;
    result_.push_back({first, second, bytes});
  }

  const Schedule& schedule_;
  const std::size_t streams_;
  std::vector<std::int32_t> seen_;
  std::vector<Constraint> result_;
};

void Builder::add_buffer(BufferId id, const BufferUses& buffer) {
  const auto stream_of = [&](const BufferUse& use) {
    return schedule_.commands[use.command].stream;
  };
  const bool one_stream =
      std::all_of(buffer.uses.begin(), buffer.uses.end(), [&](const BufferUse& use) {
        return stream_of(use) == stream_of(buffer.uses.front()) &&
               !is_collective(schedule_.commands[use.command]);
      });
  if (one_stream) return;
  std::fill(seen_.begin(), seen_.end(), -1);

  // Of every segment and stream, the last writer and the last reader: whoever is ordered after the
  // last is ordered after all before it on that stream. Collectives are over later than their
  // stream says, so they are kept apart, all of them.
  std::vector<std::int32_t> writer(buffer.segments() * streams_, -1), reader(writer);
  std::vector<BufferUse> collectives;
  for (const BufferUse& use : buffer.uses) {
    const auto bytes = [&](std::int32_t begin, std::int32_t end) {
      return ByteRange{id, buffer.bounds[begin], buffer.bounds[end]};
    };
    for (std::int32_t segment = use.first_segment; segment < use.end_segment; ++segment) {
      const std::size_t base = static_cast<std::size_t>(segment) * streams_;
      for (std::size_t s = 0; s < streams_; ++s) {
        if (writer[base + s] >= 0)
          require(writer[base + s], use.command, bytes(segment, segment + 1));
        if (use.writes && reader[base + s] >= 0)
          require(reader[base + s], use.command, bytes(segment, segment + 1));
      }
    }
    for (const BufferUse& collective : collectives) {
      const std::int32_t begin = std::max(use.first_segment, collective.first_segment);
      const std::int32_t end = std::min(use.end_segment, collective.end_segment);
      if (begin < end && (use.writes || collective.writes))
        require(collective.command, use.command, bytes(begin, end));
    }
    if (is_collective(schedule_.commands[use.command])) {
      collectives.push_back(use);
      continue;
    }
    const auto stream = static_cast<std::size_t>(stream_of(use));
    for (std::int32_t segment = use.first_segment; segment < use.end_segment; ++segment) {
      const std::size_t at = static_cast<std::size_t>(segment) * streams_ + stream;
      if (use.writes) writer[at] = use.command;
      if (use.reads) reader[at] = use.command;
    }
  }
}

void Builder::add_opaque(std::int32_t hook) {
  std::fill(seen_.begin(), seen_.end(), -1);
  const auto count = static_cast<std::int32_t>(schedule_.commands.size());
  std::vector<std::int32_t> last(streams_, -1), next(streams_, -1);
  for (std::int32_t i = 0; i < count; ++i) {
    const Command& command = schedule_.commands[i];
    if (i == hook || !touches_memory(command)) continue;
    if (i < hook) {
      if (is_collective(command)) require(i, hook, {});
      last[command.stream] = i;
    } else if (next[command.stream] < 0) {
      next[command.stream] = i;
    }
  }
  for (std::size_t s = 0; s < streams_; ++s) {
    if (last[s] >= 0) require(last[s], hook, {});
    if (next[s] >= 0) require(hook, next[s], {});
  }
}

}  // namespace

std::vector<BufferUses> uses_by_buffer(const Schedule& schedule) {
  std::vector<BufferUses> buffers(schedule.buffers.size());
  const auto each = [&](auto visit) {
    for (std::size_t i = 0; i < schedule.commands.size(); ++i)
      for (const Operand& operand : schedule.commands[i].operands)
        if (operand.range.begin < operand.range.end)
          visit(static_cast<std::int32_t>(i), operand, buffers[operand.range.buffer]);
  };
  each([](std::int32_t, const Operand& operand, BufferUses& buffer) {
    buffer.bounds.push_back(operand.range.begin);
    buffer.bounds.push_back(operand.range.end);
  });
  for (BufferUses& buffer : buffers) {
    std::sort(buffer.bounds.begin(), buffer.bounds.end());
    buffer.bounds.erase(std::unique(buffer.bounds.begin(), buffer.bounds.end()),
                        buffer.bounds.end());
  }
  each([&](std::int32_t command, const Operand& operand, BufferUses& buffer) {
    const auto segment_at = [&](std::int64_t byte) {
      return static_cast<std::int32_t>(
          std::lower_bound(buffer.bounds.begin(), buffer.bounds.end(), byte) -
          buffer.bounds.begin());
    };
    const bool frees = std::holds_alternative<Free>(schedule.commands[command].what);
    const auto access = static_cast<unsigned>(operand.access);
    buffer.uses.push_back({.command = command,
                           .first_segment = segment_at(operand.range.begin),
                           .end_segment = segment_at(operand.range.end),
                           .reads = !frees && (access & 1u) != 0,
                           .writes = frees || (access & 2u) != 0,
                           .frees = frees});
  });
  return buffers;
}

std::vector<Constraint> constraints(const Schedule& schedule, std::span<const BufferUses> buffers) {
  Builder builder(schedule);
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (!buffers[b].uses.empty()) builder.add_buffer(static_cast<BufferId>(b), buffers[b]);
  for (std::size_t i = 0; i < schedule.commands.size(); ++i)
    if (const auto* hook = std::get_if<Hook>(&schedule.commands[i].what); hook && hook->opaque)
      builder.add_opaque(static_cast<std::int32_t>(i));
  return builder.take();
}

}  // namespace riffle::runtime
