// Start reading at assemble().
#include "codegen/nvptx/ptxas.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>

#include "riffle/error.h"
#include "support/env.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the user

namespace riffle::codegen {
namespace {

[[noreturn]] void fail(const std::string& what, std::string hint = {}) {
  throw CompileError({.what = what, .hint = std::move(hint), .foreign = "ptxas"});
}

/// A file that goes when this goes.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / "riffle-ptx-XXXXXX").string()),
        descriptor_(mkostemp(path_.data(), O_CLOEXEC)) {
    if (descriptor_ < 0)
      fail(fmt::format("could not make a temporary file {}: {}", path_, std::strerror(errno)));
  }
  ~TemporaryFile() {
    close(descriptor_);
    unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t done = ::write(descriptor_, text.data(), text.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail(fmt::format("could not write {}: {}", path_, std::strerror(errno)));
      text.remove_prefix(static_cast<std::size_t>(done));
    }
  }
  std::string read() const {
    std::string text;
    char block[4096];
    for (off_t at = 0;;) {
      const ssize_t got = pread(descriptor_, block, sizeof block, at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return text;
      text.append(block, static_cast<std::size_t>(got));
      at += got;
    }
  }
  const std::string& path() const noexcept { return path_; }
  int descriptor() const noexcept { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

/// Runs the program with both outputs in `output`; its exit status, or −1 for a signal.
int run(const std::vector<std::string>& words, const TemporaryFile& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    fail(fmt::format("could not run {}: {}", words[0], std::strerror(error)),
         "RIFFLE_PTXAS names another one");
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail(fmt::format("lost {}: {}", words[0], std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int number(const std::string& line, const std::regex& pattern) {
  std::smatch found;
  return std::regex_search(line, found, pattern) ? std::atoi(found[1].str().c_str()) : 0;
}

template <typename Use>
void for_each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace

std::optional<std::string> find_ptxas() {
  namespace fs = std::filesystem;
  const auto usable = [](const std::string& path) { return access(path.c_str(), X_OK) == 0; };
  if (auto named = environment("RIFFLE_PTXAS")) return named;
  const std::string path = environment("PATH").value_or("");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (const std::string folder = path.substr(begin, end - begin); !folder.empty())
      if (std::string candidate = folder + "/ptxas"; usable(candidate)) return candidate;
    begin = end + 1;
  }
  if (std::string toolkit = "/usr/local/cuda/bin/ptxas"; usable(toolkit)) return toolkit;
  return std::nullopt;
}

std::vector<PtxasKernel> assemble(const std::string& ptxas, std::string_view ptx, int sm) {
  const TemporaryFile source, object, report;
  source.write(ptx);
  const int status = run(
      {ptxas, fmt::format("-arch=sm_{}", sm), "-v", source.path(), "-o", object.path()}, report);
  const std::string text = report.read();
  if (status != 0)
    fail(fmt::format("ptxas rejects the PTX for sm_{} (status {}): {}", sm, status, text),
         "this is a bug of riffle: please report it with the PTX (show ptx K)");
  return parse_ptxas_report(text);
}

std::vector<PtxasKernel> parse_ptxas_report(std::string_view report) {
  static constexpr std::string_view kEntry = "Compiling entry function '";
  const std::regex stack("([0-9]+) bytes stack frame"), stores("([0-9]+) bytes spill stores"),
      loads("([0-9]+) bytes spill loads"), registers("Used ([0-9]+) registers"),
      shared("([0-9]+) bytes smem");
  std::vector<PtxasKernel> kernels;
  for_each_line(report, [&](std::string_view view) {
    const std::string line(view);
    if (const std::size_t at = line.find(kEntry); at != std::string::npos) {
      const std::size_t begin = at + kEntry.size();
      kernels.push_back({.symbol = line.substr(begin, line.find('\'', begin) - begin)});
    } else if (!kernels.empty() && line.find("bytes stack frame") != std::string::npos) {
      kernels.back().stack_bytes = number(line, stack);
      kernels.back().spill_store_bytes = number(line, stores);
      kernels.back().spill_load_bytes = number(line, loads);
    } else if (!kernels.empty() && line.find("Used ") != std::string::npos) {
      kernels.back().registers = number(line, registers);
      kernels.back().shared_bytes = number(line, shared);
    }
  });
  return kernels;
}

std::vector<InstructionMix> count_instructions(std::string_view ptx) {
  std::vector<InstructionMix> kernels;
  for_each_line(ptx, [&](std::string_view line) {
    if (const std::size_t entry = line.find(".entry "); entry != std::string_view::npos) {
      std::string_view symbol = line.substr(entry + 7);
      kernels.push_back({.symbol = std::string(symbol.substr(0, symbol.find_first_of(" (\t")))});
      return;
    }
    const std::size_t begin = line.find_first_not_of(" \t");
    if (kernels.empty() || begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    if (line[0] == '@') {  // a predicated instruction
      const std::size_t after = line.find_first_of(" \t");
      if (after == std::string_view::npos) return;
      line.remove_prefix(line.find_first_not_of(" \t", after));
    }
    // LLVM writes the operands of an mma below it, a line each.
    const bool ends = line.find(';') != std::string_view::npos || line.starts_with("mma.");
    if (!ends || line[0] == '.' || line[0] == '/' || line[0] == '{' || line[0] == '}' ||
        line[0] == '$')
      return;
    InstructionMix& mix = kernels.back();
    const std::string_view name = line.substr(0, line.find_first_of(" \t;"));
    const auto says = [&](std::string_view part) {
      return name.find(part) != std::string_view::npos;
    };
    const bool wide = says(".v4.b32") || says(".v4.u32") || says(".v4.f32") || says(".v2.b64") ||
                      says(".v2.u64") || says(".v2.f64");
    const bool access = name.starts_with("ld.") || name.starts_with("st.");
    ++mix.instructions;
    if (name.starts_with("mma.")) ++mix.mma;
    if (name.starts_with("cp.async.c")) ++mix.async_copies;  // .ca and .cg, not the waits
    if (access && says(".global")) ++(wide ? mix.global_128 : mix.global_other);
    if (access && says(".shared")) ++(wide ? mix.shared_128 : mix.shared_other);
    if (name.starts_with("ldmatrix.")) ++mix.shared_128;
    if (access && says(".local")) ++mix.local;
    if (name.starts_with("shfl.")) ++mix.shuffles;
    if (name.starts_with("bar.") || name.starts_with("barrier.")) ++mix.barriers;
  });
  return kernels;
}

}  // namespace riffle::codegen
