// trace, overlap, timeline.
#include <fmt/format.h>

#include "driver/command.h"
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
      fmt::format(
          "compute {:.2f} ms, hooks {:.2f} ms: {:.2f} hidden behind compute ({:.0f}%), {:.2f} "
          "exposed; wall {:.2f}",
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
    {"trace", "trace FILE.json", "Writes the traced steps as Chrome trace events.", trace,
     Completes::file},
};

}  // namespace

std::span<const Command> report_commands() { return kCommands; }

}  // namespace riffle::driver
