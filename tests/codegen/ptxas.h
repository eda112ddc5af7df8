// NVIDIA's assembler, where it is installed: the judge of PTX texts.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <unistd.h>

namespace riffle::test {

/// Path of ptxas: $PATH, then /usr/local/cuda*/bin; empty when there is none.
inline std::string find_ptxas() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* path = std::getenv("PATH")) {
    std::string list = path;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      places.emplace_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error))
    if (entry.path().filename().string().starts_with("cuda"))
      places.push_back(entry.path() / "bin");
  for (const fs::path& place : places)
    if (::access((place / "ptxas").c_str(), X_OK) == 0) return place / "ptxas";
  return {};
}

struct Assembled {
  bool accepted = false;
  std::string messages;  ///< with -v: registers and spills of every function

  /// The largest number that `pattern`'s group finds in the messages; -1: none.
  int most(const std::string& pattern) const {
    int value = -1;
    const std::regex expression(pattern);
    for (std::sregex_iterator it(messages.begin(), messages.end(), expression), end; it != end;
         ++it)
      value = std::max(value, std::stoi((*it)[1]));
    return value;
  }
  int registers() const { return most("Used ([0-9]+) registers"); }
  int spilled() const { return most("([0-9]+) bytes spill stores"); }
};

/// Assembles `ptx` for sm_`sm` and throws the result away.
inline Assembled assemble(const std::string& ptxas, const std::string& ptx, int sm,
                          int opt_level = 3) {
  namespace fs = std::filesystem;
  char name[] = "/tmp/riffle_ptx_XXXXXX";
  const fs::path directory = ::mkdtemp(name);
  std::ofstream(directory / "k.ptx") << ptx;
  const std::string command = ptxas + " -v -O" + std::to_string(opt_level) + " -arch=sm_" +
                              std::to_string(sm) + " -o /dev/null " +
                              (directory / "k.ptx").string() + " 2>&1";
  Assembled result;
  if (std::FILE* pipe = ::popen(command.c_str(), "r")) {
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, pipe)) result.messages += buffer;
    result.accepted = ::pclose(pipe) == 0;
  }
  fs::remove_all(directory);
  return result;
}

}  // namespace riffle::test
