// A picture of the last step among the spans: one row a stream, to scale, then the hooks in order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/timeline_rows.h"
#include "runtime/trace.h"

namespace riffle::runtime {
namespace {

struct Style {
  bool unicode;
  std::string_view microseconds() const { return unicode ? "µs" : "us"; }
  std::string_view edge() const { return unicode ? "│" : "|"; }
  std::string_view hook() const { return unicode ? "█" : "#"; }
  std::string_view space() const { return unicode ? "·" : " "; }
  std::string_view of(Phase phase) const {
    switch (phase) {
      case Phase::setup:
        return unicode ? "╌" : "~";
      case Phase::forward:
        return unicode ? "░" : ".";
      case Phase::loss:
        return unicode ? "▒" : ":";
      case Phase::backward:
        return unicode ? "▓" : "=";
      case Phase::hooks:
        return hook();
      case Phase::optimizer:
        return unicode ? "▒" : "+";
    }
    return " ";
  }
};

/// Columns of one row; each cell is one character of one or more bytes.
using Row = std::vector<std::string>;

std::string joined(const Row& row) {
  std::string text;
  for (const std::string& cell : row) text += cell;
  return text;
}

struct Scale {
  std::int64_t begin_ns = 0, end_ns = 1;
  int columns = 1;
  int column(std::int64_t at_ns) const {
    const double part =
        static_cast<double>(at_ns - begin_ns) / static_cast<double>(end_ns - begin_ns);
    return std::clamp(static_cast<int>(part * columns), 0, columns - 1);
  }
};

/// The longest name of the block that fits into `room` columns.
std::string fitting_label(const PartitionBlock& block, int room) {
  const std::string phase(name_of(block.phase));
  const std::string number = block.partition < 0 ? "" : std::to_string(block.partition);
  const std::string initial(1, static_cast<char>(phase[0] - 'a' + 'A'));
  for (const std::string& label :
       {label_of(block), fmt::format("{}{}{}", phase, number.empty() ? "" : " ", number),
        initial + number, number})
    if (!label.empty() && static_cast<int>(label.size()) <= room) return label;
  return "";
}

void draw_block(Row& row, const PartitionBlock& block, const Scale& scale, const Style& style) {
  const int begin = scale.column(block.begin_ns);
  const int end = std::max(begin + 1, scale.column(block.end_ns));
  for (int c = begin; c < end; ++c) row[c] = style.of(block.phase);
  if (end - begin < 2) return;
  row[begin] = style.edge();
  const std::string label = fitting_label(block, end - begin - 1);
  const int at = begin + 1 + (end - begin - 1 - static_cast<int>(label.size())) / 2;
  for (std::size_t i = 0; i < label.size(); ++i) row[at + static_cast<int>(i)] = label[i];
}

constexpr std::string_view kMarks = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string mark_of(std::size_t hook, const Style& style) {
  return hook < kMarks.size() ? std::string(1, kMarks[hook]) : std::string(style.hook());
}

/// Hooks are often shorter than a column: each gets one of its own, as near as it can be.
void draw_hooks(Row& row, const std::vector<const Span*>& hooks, StreamId stream,
                const Scale& scale, const Style& style) {
  int free = 0;
  for (std::size_t h = 0; h < hooks.size(); ++h) {
    if (hooks[h]->stream != stream) continue;
    const int begin = std::max(scale.column(hooks[h]->begin_ns), free);
    if (begin >= scale.columns) continue;
    const int end = std::max(begin + 1, scale.column(hooks[h]->end_ns));
    row[begin] = mark_of(h, style);
    for (int c = begin + 1; c < end; ++c) row[c] = style.hook();
    free = end;
  }
}

std::string milliseconds(std::int64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
}

/// "under backward partition_1", "after backward partition_2"
std::string place_of(const Span& hook, const std::vector<PartitionBlock>& blocks) {
  const PartitionBlock* under = nullptr;
  const PartitionBlock* before = nullptr;
  std::int64_t most = 0;
  for (const PartitionBlock& block : blocks) {
    if (block.phase == Phase::hooks) continue;
    const std::int64_t common =
        std::min(block.end_ns, hook.end_ns) - std::max(block.begin_ns, hook.begin_ns);
    if (common > most) {
      most = common;
      under = &block;
    }
    if (block.end_ns <= hook.begin_ns) before = &block;
  }
  if (under) return "under " + label_of(*under);
  if (before) return "after " + label_of(*before);
  return "before any kernel";
}

}  // namespace

std::string terminal_timeline(const std::vector<Span>& all, const Schedule& schedule, int width,
                              bool unicode) {
  const Style style{unicode};
  if (all.empty()) return "nothing was traced\n";
  const std::int32_t step =
      std::max_element(all.begin(), all.end(), [](const Span& a, const Span& b) {
        return a.step < b.step;
      })->step;
  std::vector<Span> spans;
  for (const Span& span : all)
    if (span.step == step && !std::holds_alternative<Wait>(span.command->what))
      spans.push_back(span);
  if (spans.empty()) return "nothing was traced\n";
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  std::vector<const Span*> hooks;
  Scale scale{spans.front().begin_ns, spans.front().end_ns, 1};
  for (const Span& span : spans) {
    if (is_hook(*span.command)) hooks.push_back(&span);
    scale.end_ns = std::max(scale.end_ns, span.end_ns);
  }
  scale.end_ns = std::max(scale.end_ns, scale.begin_ns + 1);

  std::size_t names = 0;
  for (const StreamInfo& stream : schedule.streams) names = std::max(names, stream.name.size());
  names = std::min<std::size_t>(names, 16);
  scale.columns = std::max(20, width - static_cast<int>(names) - 2);

  const std::vector<PartitionBlock> blocks = partition_blocks(spans);
  std::string out = fmt::format(
      "step {}: {}, a column is {:.1f} {}\n", step, milliseconds(scale.end_ns - scale.begin_ns),
      static_cast<double>(scale.end_ns - scale.begin_ns) / 1e3 / scale.columns,
      style.microseconds());
  for (std::size_t s = 0; s < schedule.streams.size(); ++s) {
    Row row(static_cast<std::size_t>(scale.columns), std::string(style.space()));
    const auto stream = static_cast<StreamId>(s);
    const bool idle = std::none_of(spans.begin(), spans.end(),
                                   [&](const Span& span) { return span.stream == stream; });
    if (idle) continue;
    for (const PartitionBlock& block : blocks)
      if (block.stream == stream) draw_block(row, block, scale, style);
    draw_hooks(row, hooks, stream, scale, style);
    std::string line =
        fmt::format("{:<{}}  {}", schedule.streams[s].name.substr(0, names), names, joined(row));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  constexpr std::size_t kListed = 16;
  std::size_t labels = 0;
  for (std::size_t h = 0; h < std::min(hooks.size(), kListed); ++h)
    labels = std::max(labels, hooks[h]->command->label.size());
  labels = std::min<std::size_t>(labels, 40);
  for (std::size_t h = 0; h < std::min(hooks.size(), kListed); ++h)
    out += fmt::format("{:>{}}  {:<{}}  at {}, {:.1f} {}, {}\n", mark_of(h, style), names,
                       hooks[h]->command->label, labels,
                       milliseconds(hooks[h]->begin_ns - scale.begin_ns),
                       static_cast<double>(hooks[h]->end_ns - hooks[h]->begin_ns) / 1e3,
                       style.microseconds(), place_of(*hooks[h], blocks));
  if (hooks.size() > kListed)
    out += fmt::format("{:>{}}  and {} more hooks\n", "", names, hooks.size() - kListed);
  return out;
}

}  // namespace riffle::runtime
