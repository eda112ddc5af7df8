#include "driver/explain.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "driver/format.h"
#include "runtime/timeline_rows.h"

namespace riffle::driver {
namespace {

using runtime::Span;

std::vector<Span> last_step(const Executable& executable) {
  const std::vector<Span>& all = jit::spans(executable);
  if (all.empty())
    throw UsageError({.what = "nothing was traced yet", .hint = "step, then explain"});
  std::vector<Span> spans;
  for (const Span& span : all)
    if (span.step == all.back().step) spans.push_back(span);
  return spans;
}

double ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }
double per_second(double amount, double milliseconds) {
  return milliseconds > 0 ? amount / (milliseconds * 1e6) : 0;  // in units of 10⁹
}

std::string place_of(const KernelTime& row) {
  return row.partition < 0 ? row.phase : fmt::format("{} {}", row.phase, row.partition);
}

/// Lines of the kernels' table; at most `most`, then what the rest is.
std::string kernel_table(const std::vector<KernelTime>& rows, double total_ms, std::size_t most) {
  std::size_t names = 6, places = 5;
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    names = std::max(names, rows[i].name.size());
    places = std::max(places, place_of(rows[i]).size());
  }
  names = std::min<std::size_t>(names, 40);
  std::string text =
      fmt::format("{:<{}}  {:<{}}  {:>9}  {:>5}  {:>9}  {:>9}  {:>8}  {:>7}\n", "kernel", names,
                  "where", places, "ms", "%", "MFLOP", "bytes", "GFLOP/s", "GB/s");
  double rest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const KernelTime& row = rows[i];
    if (i >= most) {
      rest += row.ms;
      continue;
    }
    text += fmt::format("{:<{}}  {:<{}}  {:>9.3f}  {:>5.1f}  {:>9.2f}  {:>9}  {:>8.1f}  {:>7.1f}\n",
                        row.name.substr(0, names), names, place_of(row), places, row.ms,
                        total_ms > 0 ? 100 * row.ms / total_ms : 0, row.flops * 1e-6,
                        format_bytes(static_cast<std::int64_t>(row.bytes)),
                        per_second(row.flops, row.ms), per_second(row.bytes, row.ms));
  }
  if (rows.size() > most)
    text += fmt::format("{} more kernels, {:.3f} ms\n", rows.size() - most, rest);
  return text;
}

Json json_of(const KernelTime& row) {
  return {{"kernel", row.name},
          {"phase", row.phase},
          {"partition", row.partition},
          {"launches", row.launches},
          {"ms", row.ms},
          {"flops", row.flops},
          {"bytes", row.bytes},
          {"gflops", per_second(row.flops, row.ms)},
          {"gbytes_per_second", per_second(row.bytes, row.ms)},
          {"nodes", row.origin}};
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void explain_kernel(Context& context, const std::string& pattern) {
  std::vector<KernelTime> rows = kernel_times(context.executable());
  std::erase_if(rows, [&](const KernelTime& row) {
    return fnmatch(pattern.c_str(), row.name.c_str(), 0) != 0;
  });
  if (rows.empty())
    throw UsageError({.what = "no kernel of the last step is called '" + pattern + "'",
                      .hint = "explain lists them"});
  double total = 0;
  for (const KernelTime& row : rows) total += row.ms;
  std::string text = kernel_table(rows, total, rows.size());
  Json kernels = Json::array();
  for (const KernelTime& row : rows) {
    text += fmt::format("{} of {} computes {}\n", row.name, place_of(row),
                        row.origin.empty() ? "what the optimizer does" : joined(row.origin));
    kernels.push_back(json_of(row));
  }
  context.output().result({{"command", "explain"}, {"kernels", std::move(kernels)}}, text);
}

}  // namespace

std::vector<KernelTime> kernel_times(const Executable& executable) {
  std::map<std::tuple<std::string_view, std::int32_t, std::string>, KernelTime> found;
  for (const Span& span : last_step(executable)) {
    const codegen::KernelSpec* spec = jit::kernel_of(executable, span);
    if (!spec) continue;
    const runtime::Command& command = *span.command;
    KernelTime& row = found[{runtime::name_of(command.phase), command.partition, spec->name}];
    row.name = spec->name;
    row.phase = runtime::name_of(command.phase);
    row.partition = command.partition;
    row.origin = spec->origin;
    ++row.launches;
    row.ms += ms(span.end_ns - span.begin_ns);
    row.flops += spec->flops;
    row.bytes += spec->bytes;
  }
  std::vector<KernelTime> rows;
  for (auto& [key, row] : found) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
  return rows;
}

void explain(Context& context, const std::optional<std::string>& kernel) {
  if (kernel) return explain_kernel(context, *kernel);
  Executable& executable = context.executable();
  const std::vector<Span> spans = last_step(executable);
  const std::vector<KernelTime> rows = kernel_times(executable);
  const runtime::Overlap overlap = runtime::measure_overlap(spans);
  double kernel_ms = 0;
  for (const KernelTime& row : rows) kernel_ms += row.ms;
  const double wall = ms(overlap.wall_ns), exposed = ms(overlap.exposed_ns);
  const double gaps = std::max(0.0, wall - ms(overlap.compute_ns) - exposed);

  std::map<std::pair<std::string, std::int32_t>, double> partitions;
  std::vector<std::pair<std::string, std::int32_t>> order;
  for (const runtime::PartitionBlock& block : runtime::partition_blocks(spans)) {
    const std::pair key{std::string(runtime::name_of(block.phase)), block.partition};
    if (partitions.emplace(key, 0).second) order.push_back(key);
    partitions[key] += ms(block.end_ns - block.begin_ns);
  }

  struct Bound {
    std::string_view what;
    double ms;
  };
  const Bound bounds[] = {{"compute", ms(overlap.compute_ns)},
                          {"exposed hooks", exposed},
                          {"gaps between kernels", gaps}};
  const Bound& most = *std::max_element(std::begin(bounds), std::end(bounds),
                                        [](const Bound& a, const Bound& b) { return a.ms < b.ms; });

  std::string text =
      fmt::format("step {}: {:.3f} ms, bound by {}", spans.front().step, wall, most.what);
  if (most.what == "compute" && !rows.empty())
    text += fmt::format(", most of all by {} ({})", rows.front().name, place_of(rows.front()));
  text += "\n\n";
  Json parts = Json::array();
  auto line = [&](std::string_view what, double milliseconds) {
    text += fmt::format("{:<24}{:>9.3f} ms  {:>5.1f}%\n", what, milliseconds,
                        wall > 0 ? 100 * milliseconds / wall : 0);
  };
  for (const Bound& bound : bounds) line(bound.what, bound.ms);
  text += "\n";
  for (const auto& key : order) {
    line(key.second < 0 ? key.first : fmt::format("{} partition_{}", key.first, key.second),
         partitions[key]);
    parts.push_back({{"phase", key.first}, {"partition", key.second}, {"ms", partitions[key]}});
  }
  text += "\n" + kernel_table(rows, kernel_ms, 16);
  Json hooks = Json::array();
  for (const Span& span : spans)
    if (runtime::is_hook(*span.command))
      hooks.push_back({{"hook", span.command->label}, {"ms", ms(span.end_ns - span.begin_ns)}});
  Json kernels = Json::array();
  for (const KernelTime& row : rows) kernels.push_back(json_of(row));
  context.output().result({{"command", "explain"},
                           {"step", spans.front().step},
                           {"wall_ms", wall},
                           {"bound_by", most.what},
                           {"compute_ms", ms(overlap.compute_ns)},
                           {"exposed_ms", exposed},
                           {"gaps_ms", gaps},
                           {"partitions", std::move(parts)},
                           {"kernels", std::move(kernels)},
                           {"hooks", std::move(hooks)}},
                          text);
}

}  // namespace riffle::driver
