#include "driver/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "driver/report/page.h"
#include "runtime/timeline_rows.h"

namespace riffle::driver {
namespace {

using runtime::Span;

// What a page may hold: a browser draws some thousands of shapes at once without effort.
constexpr std::size_t kMostSteps = 5, kMostSpans = 4000, kMostLosses = 2000;

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json microseconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

bool is_drawn(const Span& span) {
  return runtime::is_compute(*span.command) || runtime::is_hook(*span.command);
}

/// The spans of one step, in time order.
Json step_report(const Executable& executable, const std::vector<Span>& all) {
  const std::int64_t origin =
      std::min_element(all.begin(), all.end(), [](const Span& a, const Span& b) {
        return a.begin_ns < b.begin_ns;
      })->begin_ns;
  std::int64_t end = origin + 1;
  std::size_t left_out = 0;
  Json spans = Json::array();
  for (const Span& span : all) {
    if (!is_drawn(span)) continue;
    if (spans.size() == kMostSpans) {
      ++left_out;
      continue;
    }
    end = std::max(end, span.end_ns);
    const runtime::Command& command = *span.command;
    spans.push_back({{"stream", span.stream},
                     {"kind", runtime::kind_of(command)},
                     {"hook", runtime::is_hook(command)},
                     {"phase", runtime::name_of(command.phase)},
                     {"partition", command.partition},
                     {"begin", microseconds(span.begin_ns - origin)},
                     {"duration", microseconds(span.end_ns - span.begin_ns)},
                     {"label", command.label}});
  }
  Json blocks = Json::array();
  for (const runtime::PartitionBlock& block : runtime::partition_blocks(all))
    if (block.begin_ns < end)
      blocks.push_back({{"stream", block.stream},
                        {"phase", runtime::name_of(block.phase)},
                        {"partition", block.partition},
                        {"begin", microseconds(block.begin_ns - origin)},
                        {"duration", microseconds(std::min(block.end_ns, end) - block.begin_ns)},
                        {"label", runtime::label_of(block)}});
  Json arrows = Json::array();
  for (const auto& [record, hook] :
       runtime::ready_arrows(all, jit::schedule_of(executable, all.front())))
    if (hook->begin_ns < end)
      arrows.push_back({{"from_stream", record->stream},
                        {"from", microseconds(record->begin_ns - origin)},
                        {"to_stream", hook->stream},
                        {"to", microseconds(hook->begin_ns - origin)}});
  return {{"step", all.front().step},    {"length", microseconds(end - origin)},
          {"left_out", left_out},        {"spans", std::move(spans)},
          {"blocks", std::move(blocks)}, {"arrows", std::move(arrows)}};
}

/// The last few traced steps.
Json steps_report(const Executable& executable) {
  std::map<std::int32_t, std::vector<Span>> steps;
  for (const Span& span : jit::spans(executable)) steps[span.step].push_back(span);
  while (steps.size() > kMostSteps) steps.erase(steps.begin());
  Json list = Json::array();
  for (const auto& [step, spans] : steps)
    if (std::any_of(spans.begin(), spans.end(), is_drawn))
      list.push_back(step_report(executable, spans));
  return list;
}

/// Evenly thinned when there are many; the last point stays.
Json losses_report(const std::vector<LossPoint>& losses) {
  Json list = Json::array();
  const std::size_t stride = losses.size() / kMostLosses + 1;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (i % stride == 0 || i + 1 == losses.size())
      list.push_back({losses[i].step, finite(losses[i].loss)});
  return list;
}

/// Mean time of a partition's blocks over the traced steps, in ms; null when none ran.
Json mean_block_ms(const std::vector<runtime::PartitionBlock>& blocks, runtime::Phase phase,
                   std::size_t partition) {
  std::int64_t sum = 0;
  std::set<std::int32_t> steps;
  for (const runtime::PartitionBlock& block : blocks)
    if (block.phase == phase && block.partition == static_cast<std::int32_t>(partition)) {
      sum += block.end_ns - block.begin_ns;
      steps.insert(block.step);
    }
  if (steps.empty()) return {};
  return static_cast<double>(sum) * 1e-6 / static_cast<double>(steps.size());
}

Json partitions_report(Executable& executable) {
  const ir::PartitionedGraph& graph = jit::partitioned(executable);
  const auto blocks = runtime::partition_blocks(jit::spans(executable));
  Json list = Json::array();
  for (std::size_t p = 0; p < graph.partitions.size(); ++p) {
    Json nodes = Json::array();
    for (const ir::Node& node : graph.shown(p).nodes)
      if (ir::is_compute(node)) nodes.push_back(node.name);
    std::int64_t elements = 0, bytes = 0;
    Json parameters = Json::array();
    for (ir::ValueId id : graph.partitions[p].parameter_values) {
      elements += graph.whole[id].type.elements();
      bytes += graph.whole[id].type.bytes();
      parameters.push_back(graph.whole[id].name);
    }
    std::size_t kernels = jit::forward_module(executable, p).program.kernels.size();
    if (const jit::CompiledGraph* backward = jit::backward_module(executable, p))
      kernels += backward->program.kernels.size();
    list.push_back({{"name", graph.partitions[p].name},
                    {"nodes", std::move(nodes)},
                    {"parameters", std::move(parameters)},
                    {"parameter_elements", elements},
                    {"bytes", bytes},
                    {"kernels", kernels},
                    {"forward_ms", mean_block_ms(blocks, runtime::Phase::forward, p)},
                    {"backward_ms", mean_block_ms(blocks, runtime::Phase::backward, p)}});
  }
  return list;
}

Json memory_report(Executable& executable) {
  const MemoryReport m = executable.memory();
  return {{"parameters", m.parameters},
          {"gradients", m.gradients},
          {"optimizer", m.optimizer},
          {"inputs", m.inputs},
          {"outputs", m.outputs},
          {"arena", m.arena},
          {"lower_bound", m.lower_bound},
          {"residuals", m.residuals},
          {"device_allocated", m.device_allocated},
          {"device_peak", m.device_peak}};
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos)
    text.replace(at, mark.size(), by);
}

/// JSON inside a <script> element: no `<` may open a tag or a comment there.
std::string script_safe(const Json& json) {
  std::string safe;
  for (char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

Json run_report(Context& context) {
  const Graph& graph = context.graph();
  Executable& executable = context.executable();
  const std::vector<Span>& spans = jit::spans(executable);
  std::set<std::int32_t> steps;
  std::size_t hook_calls = 0;
  Json streams = Json::array();
  for (const Span& span : spans) {
    steps.insert(span.step);
    hook_calls += runtime::is_hook(*span.command);
  }
  if (!spans.empty())
    for (const runtime::StreamInfo& stream : jit::schedule_of(executable, spans.back()).streams)
      streams.push_back(stream.name);
  const OverlapReport o = executable.overlap();
  std::string split;
  for (const std::string& word : context.split_words()) split += (split.empty() ? "" : " ") + word;
  const OptimizerSpec& optimizer = executable.optimizer();
  return {{"graph", graph.ir().name},
          {"split", split},
          {"device", context.session_options().device},
          {"hooks_at", executable.hooks_at() == HooksAt::gradient ? "gradient" : "partition"},
          {"optimizer", optimizer.name == "none"
                            ? "no optimizer"
                            : fmt::format("{}, lr {}", optimizer.name, optimizer.lr)},
          {"traced_steps", steps.size()},
          {"hook_calls", hook_calls},
          {"overlap",
           {{"wall_ms", o.wall_ms},
            {"compute_ms", o.compute_ms},
            {"hook_ms", o.hook_ms},
            {"hidden_ms", o.hidden_ms},
            {"exposed_ms", o.exposed_ms}}},
          {"losses", losses_report(context.losses)},
          {"last_loss", context.losses.empty() ? Json() : finite(context.losses.back().loss)},
          {"test_accuracy", context.test_accuracy ? Json(*context.test_accuracy) : Json()},
          {"partitions", partitions_report(executable)},
          {"memory", memory_report(executable)},
          {"fallbacks", executable.fallbacks()},
          {"streams", std::move(streams)},
          {"steps", steps_report(executable)}};
}

std::string report_page(std::span<const Json> runs) {
  const Json data = {{"version", RIFFLE_VERSION}, {"runs", runs}};
  std::string page(kPageHtml);
  replace(page, "@STYLE@", kPageCss);
  replace(page, "@SCRIPT@", kPageJs);
  replace(page, "@DATA@", script_safe(data));  // last: data is not searched for marks
  return page;
}

}  // namespace riffle::driver
