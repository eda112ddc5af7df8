#include "emulator/driver/settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace emulator {
namespace {

bool read(std::string_view text, std::uint64_t& value, std::uint64_t low, std::uint64_t high) {
  std::uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size() || parsed < low || parsed > high) {
    return false;
  }
  value = parsed;
  return true;
}

bool read(std::string_view text, int& value, int low, int high) {
  std::uint64_t wide = 0;
  if (!read(text, wide, low, high)) return false;
  value = static_cast<int>(wide);
  return true;
}

bool read(std::string_view text, bool& value) {
  if (text != "0" && text != "1") return false;
  value = text == "1";
  return true;
}

/// "n" or "n:code".
bool read(std::string_view text, Injection& injection, int default_code) {
  const std::size_t colon = text.find(':');
  Injection parsed;
  parsed.code = default_code;
  if (!read(text.substr(0, colon), parsed.nth, 0, ~std::uint64_t{0})) return false;
  if (colon != text.npos && !read(text.substr(colon + 1), parsed.code, 1, 9999)) return false;
  injection = parsed;
  return true;
}

/// "function:n:code", several separated by commas; empty: none.
bool read(std::string_view text, std::vector<Injection>& injections) {
  std::vector<Injection> parsed;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t colon = one.find(':');
    Injection injection;
    if (colon == one.npos || !read(one.substr(colon + 1), injection, 999)) return false;
    injection.function = one.substr(0, colon);
    parsed.push_back(injection);
  }
  injections = std::move(parsed);
  return true;
}

struct Row {
  const char* name;
  const char* meaning;
  bool (*set)(Settings&, std::string_view);
};

constexpr std::uint64_t kMost = ~std::uint64_t{0};

// The one table of settings; emulator/README.md prints it, and settings_test compares the two.
constexpr Row kRows[] = {
    {"seed", "orders operations of different streams, blocks, and pageable copies (1)",
     [](Settings& s, std::string_view v) { return read(v, s.seed, 0, kMost); }},
    {"eager", "1: operations run as soon as they may; 0: late, in a seeded order (0)",
     [](Settings& s, std::string_view v) { return read(v, s.eager); }},
    {"devices", "number of devices; read by cuInit; 0: CUDA_ERROR_NO_DEVICE (1)",
     [](Settings& s, std::string_view v) { return read(v, s.devices, 0, 64); }},
    {"sm", "compute capability times ten, 75 to 121; read by cuInit (80)",
     [](Settings& s, std::string_view v) { return read(v, s.sm, 75, 121); }},
    {"driver_version",
     "what cuDriverGetVersion says; newer entry points and PTX are refused (13000)",
     [](Settings& s, std::string_view v) { return read(v, s.driver_version, 10000, 19990); }},
    {"memory", "bytes of each device's memory; read by cuInit (8589934592)",
     [](Settings& s, std::string_view v) { return read(v, s.memory, 0, kMost / 2); }},
    {"multiprocessors", "number of multiprocessors a device says it has (4)",
     [](Settings& s, std::string_view v) { return read(v, s.multiprocessors, 1, 1024); }},
    {"workers", "host threads that run a kernel's blocks; 0: the machine's cores (0)",
     [](Settings& s, std::string_view v) { return read(v, s.workers, 0, 1024); }},
    {"delay_us", "microseconds after which operations run although nobody waits for them (1000)",
     [](Settings& s, std::string_view v) { return read(v, s.delay_us, 0, 10000000); }},
    {"peer_access", "1: devices can reach each other's memory once allowed; 0: they cannot (1)",
     [](Settings& s, std::string_view v) { return read(v, s.peer_access); }},
    {"check_shared_races",
     "1: unordered accesses of a block's threads to shared memory are faults (1)",
     [](Settings& s, std::string_view v) { return read(v, s.check_shared_races); }},
    {"independent_threads",
     "1: each thread runs alone as far as it can; 0: a warp's threads side by side (0)",
     [](Settings& s, std::string_view v) { return read(v, s.independent_threads); }},
    {"instruction_limit", "instructions a thread may execute before it counts as stuck; 0: any (0)",
     [](Settings& s, std::string_view v) { return read(v, s.instruction_limit, 0, kMost); }},
    {"fail_allocation",
     "n: the n-th allocation of device memory from here has no room; 0: none (0)",
     [](Settings& s, std::string_view v) { return read(v, s.fail_allocation, 0, kMost); }},
    {"fail_launch", "n or n:code: the n-th kernel to run from here fails, with 719 or the code (0)",
     [](Settings& s, std::string_view v) { return read(v, s.fail_launch, 719); }},
    {"fail", "function:n:code, …: the n-th call of that function from here returns the code ()",
     [](Settings& s, std::string_view v) { return read(v, s.fail); }},
    {"report", "where the report goes when the process ends: stderr, or a file; empty: nowhere ()",
     [](Settings& s, std::string_view v) {
       s.report = v;
       return true;
     }},
};

}  // namespace

bool set(Settings& settings, std::string_view name, std::string_view value) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.set(settings, value);
  }
  return false;
}

Settings settings_from_environment() {
  Settings settings;
  for (const Row& row : kRows) {
    std::string variable = std::string("RIFFLE_EMULATOR_") + row.name;
    for (char& c : variable) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const char* value = std::getenv(variable.c_str());
    if (value && !row.set(settings, value)) {
      std::fprintf(stderr, "riffle's CUDA emulator: %s=%s is not understood and ignored: %s\n",
                   variable.c_str(), value, row.meaning);
    }
  }
  return settings;
}

std::string describe_settings() {
  std::string text;
  for (const Row& row : kRows) text += std::string(row.name) + ": " + row.meaning + "\n";
  return text;
}

}  // namespace emulator
