#include "driver/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/command.h"
#include "driver/format.h"
#include "driver/hook_lines.h"

namespace riffle::driver {
namespace {

struct Setting {
  std::string_view key, values, meaning;
  std::string (*get)(Context&);
  void (*set)(Context&, std::string_view);
};

[[noreturn]] void bad_value(std::string_view key, std::string_view values, std::string_view value) {
  throw UsageError(
      {.what = fmt::format("{} cannot be '{}'", key, value), .hint = std::string(values)});
}

template <typename Change>
void change_session(Context& context, Change change) {
  SessionOptions options = context.session_options();
  change(options);
  context.set_session_options(std::move(options));
}

constexpr Setting kSettings[] = {
    {"hooks.at", "gradient or partition",
     "when hooks fire: as each gradient is ready, or after its partition",
     [](Context& context) -> std::string {
       return context.hooks_at == HooksAt::gradient ? "gradient" : "partition";
     },
     [](Context& context, std::string_view value) {
       if (value != "gradient" && value != "partition")
         bad_value("hooks.at", "gradient or partition", value);
       context.hooks_at = value == "gradient" ? HooksAt::gradient : HooksAt::partition;
       if (!context.has_executable()) return;
       context.executable().set_hooks_at(context.hooks_at);
       sync_partition_lines(context);
     }},
    {"threads", "0 (the machine's cores) or a number", "threads that compute; starts a new session",
     [](Context& context) { return std::to_string(context.session_options().threads); },
     [](Context& context, std::string_view value) {
       const std::int64_t threads = parse_integer(value, "threads");
       if (threads < 0 || threads > 1024) bad_value("threads", "0 to 1024", value);
       change_session(context, [&](SessionOptions& o) { o.threads = static_cast<int>(threads); });
     }},
    {"fuse", "on or off", "off: one kernel a primitive; same bits; starts a new session",
     [](Context& context) -> std::string { return context.session_options().fuse ? "on" : "off"; },
     [](Context& context, std::string_view value) {
       if (value != "on" && value != "off") bad_value("fuse", "on or off", value);
       change_session(context, [&](SessionOptions& o) { o.fuse = value == "on"; });
     }},
    {"cache.directory", "a directory, default or none", "the disk cache; starts a new session",
     [](Context& context) {
       const std::string& directory = context.session_options().cache_directory;
       return directory.empty() ? std::string("none") : directory;
     },
     [](Context& context, std::string_view value) {
       change_session(context, [&](SessionOptions& o) {
         o.cache_directory = value == "none" ? "" : std::string(value);
       });
     }},
    {"memory.limit", "bytes, 0 for none", "most device memory; starts a new session",
     [](Context& context) { return std::to_string(context.session_options().memory_limit); },
     [](Context& context, std::string_view value) {
       const std::int64_t bytes = parse_integer(value, "memory.limit");
       if (bytes < 0) bad_value("memory.limit", "bytes, 0 for none", value);
       change_session(context, [&](SessionOptions& o) { o.memory_limit = bytes; });
     }},
    {"cuda.graphs", "on or off",
     "what a partition launches becomes one CUDA graph; same bits; starts a new session",
     [](Context& context) -> std::string {
       return context.session_options().cuda.graphs ? "on" : "off";
     },
     [](Context& context, std::string_view value) {
       if (value != "on" && value != "off") bad_value("cuda.graphs", "on or off", value);
       change_session(context, [&](SessionOptions& o) { o.cuda.graphs = value == "on"; });
     }},
    {"matmul.tf32", "on or off",
     "f32 matmuls on a GPU's tensor cores, operands rounded to tf32; starts a new session",
     [](Context& context) -> std::string {
       return context.session_options().cuda.tf32 ? "on" : "off";
     },
     [](Context& context, std::string_view value) {
       if (value != "on" && value != "off") bad_value("matmul.tf32", "on or off", value);
       change_session(context, [&](SessionOptions& o) { o.cuda.tf32 = value == "on"; });
     }},
};

constexpr bool names_agree() {
  std::string_view rest = kSettingNames;
  for (const Setting& setting : kSettings) {
    if (!rest.starts_with(setting.key)) return false;
    rest.remove_prefix(setting.key.size());
    if (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return rest.empty();
}
static_assert(names_agree(), "kSettingNames lists the keys of kSettings, in their order");

}  // namespace

void apply_setting(Context& context, std::string_view key, std::string_view value) {
  auto row = std::find_if(std::begin(kSettings), std::end(kSettings),
                          [&](const Setting& setting) { return setting.key == key; });
  if (row == std::end(kSettings))
    throw UsageError(
        {.what = fmt::format("there is no setting '{}'", key), .hint = std::string(kSettingNames)});
  row->set(context, value);
}

std::string format_settings(Context& context) {
  std::string text;
  for (const Setting& setting : kSettings)
    text += fmt::format("{:<16} {:<12} {} ({})\n", setting.key, setting.get(context),
                        setting.meaning, setting.values);
  return text;
}

}  // namespace riffle::driver
