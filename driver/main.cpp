// The `riffle` program: a REPL, a script, or commands given with -c.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "driver/command.h"
#include "driver/interpreter.h"
#include "driver/repl.h"
#include "io/file.h"
#include "support/env.h"

namespace {

using namespace riffle;          // NOLINT: a program's main file
using namespace riffle::driver;  // NOLINT

constexpr int kMostThreads = 1024;

int run(int argc, char** argv) {
  CLI::App app(
      "riffle compiles the partitions of a training graph and interleaves their backward "
      "kernels with gradient hooks");
  std::string file, commands;
  bool json = false, keep_going = false;
  SessionOptions session;
  CLI::Option* script =
      app.add_option("script", file, "a script of commands; without one, a prompt");
  app.add_option("-c", commands, "commands, separated by ;")->excludes(script);
  app.add_flag("--json", json, "print one JSON object a result");
  app.add_flag("--keep-going", keep_going, "a failed command does not stop a script");
  app.add_option("--threads", session.threads, "threads that compute; 0: the machine's cores")
      ->check(CLI::Range(0, kMostThreads));
  app.set_version_flag("--version", "riffle " RIFFLE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (session.threads == 0)
    if (const auto text = environment("RIFFLE_THREADS")) {
      const std::int64_t threads = parse_integer(*text, "RIFFLE_THREADS");
      if (threads < 0 || threads > kMostThreads)
        throw UsageError({.what = "RIFFLE_THREADS must be 0 to " + std::to_string(kMostThreads) +
                                  ", not '" + *text + "'"});
      session.threads = static_cast<int>(threads);
    }

  const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  Output output({.json = json,
                 .color = isatty(STDERR_FILENO) && !environment("NO_COLOR"),
                 .heading_color = isatty(STDOUT_FILENO) && !environment("NO_COLOR"),
                 .progress = isatty(STDERR_FILENO) && !json,
                 .width = terminal_width()});
  Context context(session, output);
  const InterruptScope interrupts;
  Interpreter interpreter(context, keep_going);
  if (!commands.empty()) return interpreter.run(commands, "-c");
  if (!file.empty()) {
    std::string text;
    try {
      text = io::read_text(file);
    } catch (const Error& error) {
      output.error("", error.kind(), error.what());
      return kBadUsage;
    }
    return interpreter.run(text, file);
  }
  if (terminal && !json) return repl(context, interpreter);
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  return interpreter.run(text, "<stdin>");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // writing past a file size limit fails with EFBIG instead
  try {
    const int status = run(argc, argv);
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    std::fprintf(stderr, "error: standard output: cannot write\n");
    return status == kOk ? kCommandFailed : status;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kBadUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kCommandFailed;
  }
}
