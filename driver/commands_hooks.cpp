// hook add, list, rm; and the lines that say when a partition's backward starts and ends.
#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "driver/command.h"
#include "driver/hook_lines.h"
#include "ir/array.h"

namespace riffle::driver {
namespace {

HookSpec print_hook(Output& output) {
  HookSpec hook{.description = "print"};
  hook.function = [&output](const GradientView& view) {
    output.result({{"event", "hook"}, {"parameter", view.parameter}, {"iteration", view.step}},
                  fmt::format("gradient hook fired: {}", view.parameter));
  };
  return hook;
}

HookSpec norm_hook(Output& output) {
  HookSpec hook{.description = "norm"};
  hook.function = [&output](const GradientView& view) {
    const ir::Array gradient = ir::array_from_bytes(view.type, view.bytes);
    double sum = 0;
    for (double x : gradient.data) sum += x * x;
    output.result({{"event", "norm"}, {"parameter", view.parameter}, {"norm", std::sqrt(sum)}},
                  fmt::format("gradient norm {}: {:.6g}", view.parameter, std::sqrt(sum)));
  };
  return hook;
}

HookSpec delay_hook(double milliseconds) {
  HookSpec hook{.description = fmt::format("delay {} ms", milliseconds)};
  hook.function = [milliseconds](const GradientView&) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
  };
  return hook;
}

bool is_action(const std::string& word) {
  return word == "print" || word == "norm" || word == "delay";
}

void add(Context& context, Arguments& arguments, std::string pattern, const std::string& action) {
  const std::string when = arguments.option("--when", "before-reduce");
  HookSpec hook;
  if (action == "print")
    hook = print_hook(context.output());
  else if (action == "norm")
    hook = norm_hook(context.output());
  else if (action == "delay") {
    const double ms = parse_number(arguments.take("milliseconds"), "the delay");
    if (!(ms >= 0 && ms <= 60'000)) throw UsageError({.what = "the delay must be 0 to 60000 ms"});
    hook = delay_hook(ms);
  } else {
    throw UsageError(
        {.what = "there is no hook action '" + action + "'", .hint = "print, norm or delay MS"});
  }
  arguments.finish();
  if (when != "before-reduce")
    throw UsageError({.what = "--when " + when + " needs a reduce, and there is one rank only yet",
                      .hint = "before-reduce"});
  Executable& executable = context.executable();
  const std::vector<std::string> matches = executable.matching_parameters(pattern);
  if (matches.empty()) {
    jit::require_trainable(executable);
    throw UsageError(
        {.what = "'" + pattern + "' matches no parameter with a gradient", .hint = "show graph"});
  }
  hook.pattern = pattern;
  const std::string description = hook.description;
  const HookId id = executable.add_hook(std::move(hook));
  sync_partition_lines(context);
  context.output().result(
      {{"command", "hook"},
       {"id", id},
       {"pattern", pattern},
       {"action", description},
       {"parameters", matches.size()}},
      fmt::format("hook {}: {} on {} parameters ({})", id, description, matches.size(), pattern));
}

void list(Context& context) {
  std::string text;
  Json hooks = Json::array();
  for (const auto& [id, hook] : context.executable().hooks()) {
    text += fmt::format("{:>4}  {:<16} {:<14} {}\n", id, hook.pattern, hook.description,
                        name_of(hook.point));
    hooks.push_back({{"id", id},
                     {"pattern", hook.pattern},
                     {"action", hook.description},
                     {"point", name_of(hook.point)}});
  }
  context.output().result({{"command", "hook list"}, {"hooks", hooks}},
                          text.empty() ? "no hooks" : text);
}

void remove(Context& context, Arguments& arguments) {
  const std::string which = arguments.take("a hook's number or all");
  arguments.finish();
  if (which == "all") {
    context.executable().remove_all_hooks();
    context.partition_line_hooks.clear();
  } else if (!context.executable().remove_hook(parse_integer(which, "a hook's number"))) {
    throw UsageError({.what = "there is no hook " + which, .hint = "hook list"});
  }
  sync_partition_lines(context);
  context.output().result({{"command", "hook rm"}, {"which", which}}, "removed " + which);
}

void hook(Context& context, Arguments& arguments) {
  const std::string first = arguments.take("add, list, rm or an action");
  if (first == "list") {
    arguments.finish();
    list(context);
  } else if (first == "rm") {
    remove(context, arguments);
  } else if (first == "add") {
    std::string pattern = arguments.take("a pattern");
    add(context, arguments, pattern, arguments.take("print, norm or delay"));
  } else if (is_action(first)) {
    add(context, arguments, "*", first);
  } else {
    throw UsageError({.what = "hook cannot '" + first + "'"});
  }
}

constexpr Command kCommands[] = {
    {"hook", "hook add PATTERN print|norm|delay MS | hook list | hook rm N|all",
     "Calls something when gradients are ready. `hook print` alone means `hook add * print`.", hook,
     Completes::words, "add list rm print norm delay"},
};

}  // namespace

void sync_partition_lines(Context& context) {
  Executable& executable = context.executable();
  bool prints = false;
  for (const auto& [id, hook] : executable.hooks())
    prints |= hook.description == "print" && hook.point == HookPoint::post_accumulate;
  const bool wanted = prints && executable.hooks_at() == HooksAt::partition;
  if (wanted == !context.partition_line_hooks.empty()) return;
  for (HookId id : std::exchange(context.partition_line_hooks, {})) executable.remove_hook(id);
  if (!wanted) return;
  for (auto [point, word] : {std::pair{HookPoint::pre_backward, "starts"},
                             std::pair{HookPoint::post_backward, "ends"}}) {
    HookSpec line{.description = "partition lines", .point = point, .observer = true};
    line.function = [&output = context.output(),
                     word = std::string(word)](const GradientView& view) {
      output.result({{"event", "backward " + word}, {"partition", view.parameter}},
                    fmt::format("backward of {} {}", view.parameter, word));
    };
    context.partition_line_hooks.push_back(executable.add_hook(std::move(line)));
  }
}

std::span<const Command> hook_commands() { return kCommands; }

}  // namespace riffle::driver
