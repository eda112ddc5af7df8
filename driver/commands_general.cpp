// set, device, backend, timer, source, history, version, help, quit; and what is not there yet.
#include <fmt/format.h>

#include "codegen/host/host_codegen.h"
#include "driver/command.h"
#include "driver/format.h"
#include "driver/hook_lines.h"
#include "driver/interpreter.h"
#include "driver/settings.h"
#include "support/env.h"

namespace riffle::driver {
namespace {

void set(Context& context, Arguments& arguments) {
  if (arguments.empty()) {
    context.output().result({{"command", "set"}}, format_settings(context));
    return;
  }
  const std::string key = arguments.take("a setting");
  const std::string value = arguments.take("a value");
  arguments.finish();
  apply_setting(context, key, value);
  context.output().result({{"command", "set"}, {"key", key}, {"value", value}},
                          fmt::format("{} = {}", key, value));
}

void device(Context& context, Arguments& arguments) {
  const std::string name = arguments.take("cpu, cuda, cuda-emulated or null");
  arguments.finish();
  SessionOptions options = context.session_options();
  options.device = name;
  context.set_session_options(options);
  context.output().result({{"command", "device"}, {"name", name}}, "device " + name);
}

void backend(Context& context, Arguments& arguments) {
  const std::int64_t partition = arguments.take_integer("a partition's number");
  const std::string name = arguments.take("reference, cpu or cuda");
  arguments.finish();
  const bool on_gpu = jit::device(context.session()).gpu() != nullptr;
  jit::Backend backend = jit::Backend::device;
  if (name == "reference")
    backend = jit::Backend::reference;
  else if (name == "cpu")
    backend = on_gpu ? jit::Backend::host : jit::Backend::device;
  else if (name != "cuda")
    throw UsageError(
        {.what = "there is no back end '" + name + "'", .hint = "reference, cpu or cuda"});
  else if (!on_gpu)
    throw BackendAbsent({.what = "partitions run on CUDA only in a session on a CUDA device",
                         .hint = "device cuda, or device cuda-emulated"});
  if (partition < 0) throw UsageError({.what = "partitions count from 0"});
  jit::set_backend(context.executable(), static_cast<std::size_t>(partition), backend);
  context.output().result({{"command", "backend"}, {"partition", partition}, {"name", name}},
                          fmt::format("partition {} runs on {}", partition,
                                      name == "reference" ? "the reference evaluator" : name));
}

void say(Context& context, Arguments& arguments) {
  std::string text;
  for (const std::string& word : arguments.take_rest()) text += (text.empty() ? "" : " ") + word;
  const Output::Options& options = context.output().options();
  context.output().result(
      {{"command", "say"}, {"text", text}},
      options.heading_color ? "\n\x1b[1m" + text + "\x1b[0m\n" : "\n" + text + "\n");
}

void timer(Context& context, Arguments& arguments) {
  const std::string value = arguments.take("on or off");
  arguments.finish();
  if (value != "on" && value != "off") throw UsageError({.what = "timer is on or off"});
  context.timer = value == "on";
  context.output().result({{"command", "timer"}, {"on", context.timer}}, "timer " + value);
}

void source(Context& context, Arguments& arguments) {
  const std::string path = arguments.take("a script");
  arguments.finish();
  run_script(context, path);
}

void history(Context& context, Arguments& arguments) {
  arguments.finish();
  std::string text;
  for (std::size_t i = 0; i < context.history.size(); ++i)
    text += fmt::format("{:>4}  {}\n", i + 1, context.history[i]);
  context.output().result({{"command", "history"}, {"lines", context.history}},
                          text.empty() ? "(empty)" : text);
}

void version(Context& context, Arguments& arguments) {
  arguments.finish();
  const codegen::HostTarget target = codegen::detect_host();
  context.output().result(
      {{"command", "version"},
       {"riffle", RIFFLE_VERSION},
       {"llvm", codegen::llvm_version()},
       {"cpu", target.cpu},
       {"vector_bytes", target.vector_bytes}},
      fmt::format("riffle " RIFFLE_VERSION ", LLVM {}, for {} ({}-byte vectors)",
                  codegen::llvm_version(), target.cpu, target.vector_bytes));
}

void help(Context& context, Arguments& arguments) {
  std::string text;
  if (arguments.take_if("environment")) {
    for (const EnvironmentVariable& variable : environment_variables())
      text += fmt::format("{:<20} {}\n", variable.name, variable.meaning);
  } else if (!arguments.empty()) {
    const std::string name = arguments.take("a command");
    const Command* command = find_command(name);
    if (!command) throw UsageError({.what = "there is no command '" + name + "'", .hint = "help"});
    text = fmt::format("{}\n  {}", command->usage, command->help);
    if (name == "split")
      for (const ir::SplitPolicyInfo& policy : ir::split_policies())
        text += fmt::format("\n  {:<32} {}", policy.usage(), policy.help);
    if (name == "set") text += "\n" + format_settings(context);
  } else {
    for (const Command* command : all_commands())
      text += fmt::format("{}\n    {}\n", command->usage, command->help);
    text +=
        "A graph in text form may be typed or pasted at the prompt. help environment lists\n"
        "environment variables.\n";
  }
  arguments.finish();
  context.output().result({{"command", "help"}, {"text", text}}, text);
}

void quit(Context& context, Arguments& arguments) {
  arguments.finish();
  context.quit = true;
}

void many_ranks(Context&, Arguments& arguments) {
  arguments.take_rest();
  throw UsageError({.what = "not there yet: this version runs one rank",
                    .hint = "hook, split and overlap work on one rank"});
}

constexpr Command kCommands[] = {
    {"device", "device cpu|cuda[:N]|cuda-emulated|null",
     "Chooses the device; cuda-emulated is a GPU that the CPU imitates; null runs nothing.", device,
     Completes::words, "cpu null cuda cuda-emulated"},
    {"backend", "backend K reference|cpu|cuda",
     "Runs partition K by the double-precision evaluator, or compiled for the CPU or the GPU.",
     backend},
    {"set", "set [KEY VALUE]", "Changes a setting; alone, lists them.", set, Completes::words,
     kSettingNames},
    {"say", "say TEXT", "Prints the text: a heading in a script's output.", say},
    {"timer", "timer on|off", "Says how long each command took.", timer, Completes::words,
     "on off"},
    {"source", "source FILE", "Runs a script's commands here.", source, Completes::file},
    {"history", "history", "Lists the commands typed.", history},
    {"version", "version", "Versions of riffle and LLVM, and the CPU that code is for.", version},
    {"help", "help [COMMAND|environment]", "Says what commands do.", help, Completes::command},
    {"quit", "quit", "Ends.", quit},
    {"world", "world N", "Many ranks: not there yet.", many_ranks},
    {"ddp", "ddp …", "Data-parallel training: not there yet.", many_ranks},
    {"fsdp", "fsdp …", "Sharded training: not there yet.", many_ranks},
    {"comm", "comm hooks|graph", "Where collectives live: not there yet.", many_ranks},
    {"simulate", "simulate …", "A step at scale: not there yet.", many_ranks},
};

}  // namespace

std::span<const Command> general_commands() { return kCommands; }

std::vector<const Command*> all_commands() {
  std::vector<const Command*> commands;
  for (auto family : {graph_commands(), training_commands(), hook_commands(), check_commands(),
                      report_commands(), general_commands()})
    for (const Command& command : family) commands.push_back(&command);
  return commands;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : all_commands())
    if (command->name == name) return command;
  return nullptr;
}

}  // namespace riffle::driver
