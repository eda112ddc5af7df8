// Chrome trace events:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
// ("Trace Event Format"): "X" complete events nest by time on a track; "s"/"f" are flow arrows; "M"
// names tracks. Times are microseconds.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/timeline_rows.h"
#include "runtime/trace.h"

namespace riffle::runtime {
namespace {

using Json = nlohmann::ordered_json;

/// Strings come from graphs and users: bytes that are not UTF-8 must not spoil the file.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(const Schedule& schedule) : schedule_(schedule) {}

  void name_tracks() {
    events_.push_back({{"name", "process_name"},
                       {"ph", "M"},
                       {"pid", 0},
                       {"tid", 0},
                       {"args", {{"name", "riffle"}}}});
    for (std::size_t s = 0; s < schedule_.streams.size(); ++s) {
      events_.push_back({{"name", "thread_name"},
                         {"ph", "M"},
                         {"pid", 0},
                         {"tid", s},
                         {"args", {{"name", schedule_.streams[s].name}}}});
      events_.push_back({{"name", "thread_sort_index"},
                         {"ph", "M"},
                         {"pid", 0},
                         {"tid", s},
                         {"args", {{"sort_index", s}}}});
    }
  }
  void complete(const std::string& name, std::string_view category, StreamId stream,
                std::int64_t begin_ns, std::int64_t end_ns, Json arguments) {
    events_.push_back({{"name", name},
                       {"cat", category},
                       {"ph", "X"},
                       {"pid", 0},
                       {"tid", stream},
                       {"ts", microseconds(begin_ns)},
                       {"dur", static_cast<double>(end_ns - begin_ns) / 1000.0},
                       {"args", std::move(arguments)}});
  }
  void instant(const std::string& name, StreamId stream, std::int64_t at_ns) {
    events_.push_back({{"name", name},
                       {"cat", "record"},
                       {"ph", "i"},
                       {"s", "t"},
                       {"pid", 0},
                       {"tid", stream},
                       {"ts", microseconds(at_ns)}});
  }
  void arrow(const std::string& name, StreamId from, std::int64_t from_ns, StreamId to,
             std::int64_t to_ns) {
    const int id = ++arrows_;
    events_.push_back({{"name", name},
                       {"cat", "gradient_ready"},
                       {"ph", "s"},
                       {"id", id},
                       {"pid", 0},
                       {"tid", from},
                       {"ts", microseconds(from_ns)}});
    events_.push_back({{"name", name},
                       {"cat", "gradient_ready"},
                       {"ph", "f"},
                       {"bp", "e"},
                       {"id", id},
                       {"pid", 0},
                       {"tid", to},
                       {"ts", microseconds(to_ns)}});
  }
  void set_origin(std::int64_t origin_ns) { origin_ns_ = origin_ns; }
  std::string finish() {
    return dumped(Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}});
  }

 private:
  double microseconds(std::int64_t at_ns) const {
    return static_cast<double>(at_ns - origin_ns_) / 1000.0;
  }
  const Schedule& schedule_;
  Json events_ = Json::array();
  std::int64_t origin_ns_ = 0;
  int arrows_ = 0;
};

std::string title_of(const Command& command) {
  return command.label.empty() ? std::string(kind_of(command)) : command.label;
}

}  // namespace

std::string chrome_trace(const std::vector<Span>& spans, const Schedule& schedule) {
  Writer writer(schedule);
  if (!spans.empty())
    writer.set_origin(
        std::min_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
          return a.begin_ns < b.begin_ns;
        })->begin_ns);
  writer.name_tracks();
  // Of events with equal times the one that comes first encloses the others: partitions first.
  for (const PartitionBlock& block : partition_blocks(spans))
    writer.complete(label_of(block), "partition", block.stream, block.begin_ns, block.end_ns,
                    {{"step", block.step}});
  for (const Span& span : spans) {
    const Command& command = *span.command;
    if (std::holds_alternative<Record>(command.what)) {
      writer.instant(title_of(command), span.stream, span.begin_ns);
      continue;
    }
    writer.complete(title_of(command), kind_of(command), span.stream, span.begin_ns, span.end_ns,
                    {{"step", span.step},
                     {"phase", name_of(command.phase)},
                     {"partition", command.partition},
                     {"command", span.command_index}});
  }
  for (const auto& [record, hook] : ready_arrows(spans, schedule))
    writer.arrow(title_of(*hook->command), record->stream, record->begin_ns, hook->stream,
                 hook->begin_ns);
  return writer.finish();
}

}  // namespace riffle::runtime
