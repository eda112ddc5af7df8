// trace, report, overlap, timeline, explain.
#include <fmt/format.h>

#include "driver/command.h"
#include "driver/explain.h"
#include "driver/report/run_report.h"
#include "io/file.h"

namespace riffle::driver {
namespace {

void trace(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a file name");
  arguments.finish();
  io::write_text(path, context.executable().chrome_trace());
  context.output().result({{"command", "trace"}, {"file", path}},
                          "wrote " + path + " (open in chrome://tracing or ui.perfetto.dev)");
}

void report(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a file name");
  arguments.finish();
  std::vector<Json> runs = context.earlier_runs;
  runs.push_back(run_report(context));
  io::write_text(path, report_page(runs));
  std::string names;
  Json graphs = Json::array();
  for (const Json& run : runs) {
    names += (names.empty() ? "@" : ", @") + run["graph"].get<std::string>();
    graphs.push_back(run["graph"]);
  }
  context.output().result({{"command", "report"}, {"file", path}, {"graphs", graphs}},
                          "wrote " + path + ": " + names + " (open in a browser)");
}

void explain_step(Context& context, Arguments& arguments) {
  std::optional<std::string> kernel;
  if (arguments.take_if("kernel")) kernel = arguments.take("a kernel's name");
  arguments.finish();
  explain(context, kernel);
}

void overlap(Context& context, Arguments& arguments) {
  arguments.finish();
  const OverlapReport o = context.executable().overlap();
  const double share = o.hook_ms > 0 ? 100 * o.hidden_ms / o.hook_ms : 0;
  context.output().result(
      {{"command", "overlap"},
       {"wall_ms", o.wall_ms},
       {"compute_ms", o.compute_ms},
       {"hook_ms", o.hook_ms},
       {"hidden_ms", o.hidden_ms},
       {"exposed_ms", o.exposed_ms}},
      fmt::format("compute {:.2f} ms, hooks {:.2f} ms: {:.2f} ms hidden behind compute ({:.0f}%), "
                  "{:.2f} ms "
                  "exposed; the traced steps took {:.2f} ms",
                  o.compute_ms, o.hook_ms, o.hidden_ms, share, o.exposed_ms, o.wall_ms));
}

void timeline(Context& context, Arguments& arguments) {
  arguments.finish();
  const std::string text = context.executable().timeline(context.output().options().width, true);
  context.output().result({{"command", "timeline"}, {"text", text}}, text);
}

constexpr Command kCommands[] = {
    {"timeline", "timeline", "Draws the last step: streams, partitions, hooks.", timeline},
    {"overlap", "overlap", "How much of the hooks' time was hidden behind compute.", overlap},
    {"explain", "explain [kernel NAME]",
     "What bounds the last traced step: kernels by time, partitions, exposed hooks.", explain_step,
     Completes::words, "kernel"},
    {"report", "report FILE.html",
     "Writes one page: timeline, overlap, loss, partitions, memory, of this graph and those "
     "before.",
     report, Completes::file},
    {"trace", "trace FILE.json", "Writes the traced steps as Chrome trace events.", trace,
     Completes::file},
};

}  // namespace

std::span<const Command> report_commands() { return kCommands; }

}  // namespace riffle::driver
