#include "emulator/nccl/settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace emulator::nccl {
namespace {

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// "nth", "nth:code", either with "@rank".
bool read(std::string_view text, Injection& injection, int default_code) {
  Injection parsed{.code = default_code};
  if (const std::size_t at = text.find('@'); at != text.npos) {
    if (!read_number(text.substr(at + 1), parsed.rank) || parsed.rank < 0) return false;
    text = text.substr(0, at);
  }
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    if (!read_number(text.substr(colon + 1), parsed.code) || parsed.code < 1) return false;
    text = text.substr(0, colon);
  }
  if (!read_number(text, parsed.nth)) return false;
  injection = parsed;
  return true;
}

struct Row {
  const char* name;
  const char* meaning;
  bool (*set)(Settings&, std::string_view);
};

// The one table of settings; emulator/nccl/README.md explains them.
constexpr Row kRows[] = {
    {"version", "what ncclGetVersion says (22809)",
     [](Settings& s, std::string_view v) { return read_number(v, s.version); }},
    {"fail_init",
     "1[:code][@rank]: communicators are not made, with ncclSystemError or the code (0)",
     [](Settings& s, std::string_view v) { return read(v, s.fail_init, ncclSystemError); }},
    {"fail_collective",
     "n[:code][@rank]: a communicator's n-th collective meets an asynchronous error, "
     "ncclSystemError or the code (0)",
     [](Settings& s, std::string_view v) { return read(v, s.fail_collective, ncclSystemError); }},
    {"hang", "n[@rank]: a communicator's n-th collective does not end until it is aborted (0)",
     [](Settings& s, std::string_view v) { return read(v, s.hang, 0); }},
    {"die", "n[@rank]: at a communicator's n-th collective the rank is gone for the others (0)",
     [](Settings& s, std::string_view v) { return read(v, s.die, 0); }},
};

}  // namespace

bool set(Settings& settings, std::string_view name, std::string_view value) {
  for (const Row& row : kRows)
    if (name == row.name) return row.set(settings, value);
  return false;
}

Settings settings_from_environment() {
  Settings settings;
  for (const Row& row : kRows) {
    std::string variable = std::string("RIFFLE_EMULATOR_NCCL_") + row.name;
    for (char& c : variable) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const char* value = std::getenv(variable.c_str());
    if (value && !row.set(settings, value))
      std::fprintf(stderr, "riffle's NCCL emulator: %s=%s is not understood and ignored: %s\n",
                   variable.c_str(), value, row.meaning);
  }
  return settings;
}

std::string describe_settings() {
  std::string text;
  for (const Row& row : kRows) text += std::string(row.name) + ": " + row.meaning + "\n";
  return text;
}

}  // namespace emulator::nccl
