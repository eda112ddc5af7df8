#include "runtime/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace riffle::runtime {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

template <typename Names>
std::string name_or_index(const Names& names, std::int32_t index, std::string_view kind) {
  if (index >= 0 && static_cast<std::size_t>(index) < names.size()) {
    if constexpr (requires { names[0].name; }) {
      if (!names[index].name.empty()) return names[index].name;
    } else {
      if (!names[index].empty()) return names[index];
    }
  }
  return fmt::format("{}#{}", kind, index);
}

std::string details_of(const Command& command, const Schedule& schedule) {
  return std::visit(Overloaded{
                        [&](const Launch& launch) {
                          return fmt::format(
                              "{}.{}", name_or_index(schedule.modules, launch.module, "module"),
                              launch.kernel);
                        },
                        [](const Copy&) { return std::string(); },
                        [](const Fill& fill) { return fmt::format("0x{:02x}", fill.byte); },
                        [](const Record& record) { return fmt::format("event {}", record.event); },
                        [](const Wait& wait) { return fmt::format("event {}", wait.event); },
                        [&](const Hook& hook) {
                          return name_or_index(schedule.hooks, hook.slot, "hook") +
                                 (hook.opaque ? " opaque" : "");
                        },
                        [&](const Collective& collective) {
                          return fmt::format("{} → event {}",
                                             name_or_index(schedule.hooks, collective.slot, "hook"),
                                             collective.done);
                        },
                        [](const Free&) { return std::string(); },
                    },
                    command.what);
}

std::string_view access_of(Access access) {
  switch (access) {
    case Access::read:
      return "r";
    case Access::write:
      return "w";
    case Access::read_write:
      return "rw";
  }
  return "?";
}

}  // namespace

std::string_view name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::setup:
      return "setup";
    case Phase::forward:
      return "forward";
    case Phase::loss:
      return "loss";
    case Phase::backward:
      return "backward";
    case Phase::hooks:
      return "hooks";
    case Phase::optimizer:
      return "optimizer";
  }
  return "?";
}

std::string_view kind_of(const Command& command) noexcept {
  constexpr std::string_view kNames[] = {"launch", "copy", "fill",       "record",
                                         "wait",   "hook", "collective", "free"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(Command::what)>);
  return kNames[command.what.index()];
}

std::string print(const Schedule& schedule) {
  constexpr std::size_t kColumns = 7;
  std::vector<std::array<std::string, kColumns>> rows;
  rows.push_back({"#", "stream", "phase", "part", "command", "label", "what"});
  std::vector<std::string> operands{"operands"};
  for (std::size_t i = 0; i < schedule.commands.size(); ++i) {
    const Command& command = schedule.commands[i];
    rows.push_back({std::to_string(i), name_or_index(schedule.streams, command.stream, "stream"),
                    std::string(name_of(command.phase)),
                    command.partition < 0 ? "-" : std::to_string(command.partition),
                    std::string(kind_of(command)), command.label, details_of(command, schedule)});
    std::string& text = operands.emplace_back();
    for (const Operand& operand : command.operands)
      text += fmt::format("{}{}:{}[{}, {})", text.empty() ? "" : " ", access_of(operand.access),
                          name_or_index(schedule.buffers, operand.range.buffer, "buffer"),
                          operand.range.begin, operand.range.end);
  }
  std::array<std::size_t, kColumns> widths{};
  const auto columns_of = [](std::string_view text) {  // "→" is one column of three bytes
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  for (const auto& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::string padding(widths[c] - columns_of(rows[r][c]), ' ');
      line += c == 0 ? padding + rows[r][c] : "  " + rows[r][c] + padding;
    }
    line += "  " + operands[r];
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace riffle::runtime
