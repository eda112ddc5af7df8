// What can be set about the emulated machine, by environment variable (RIFFLE_EMULATOR_ and the
// name in capitals) or by riffle_emulator_set. The table is in settings.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

/// "cuMemAlloc:3:2": the third call of cuMemAlloc from here returns 2, CUDA_ERROR_OUT_OF_MEMORY.
struct Injection {
  std::string function;
  std::uint64_t nth = 1;
  int code = 0;
  std::uint64_t seen = 0;
};

struct Settings {
  std::uint64_t seed = 1;
  bool eager = false;
  int devices = 1;
  int sm = 80;
  int driver_version = 13000;
  std::uint64_t memory = std::uint64_t{8} << 30;
  int multiprocessors = 4;
  int workers = 0;
  int delay_us = 1000;
  bool peer_access = true;
  bool check_shared_races = true;
  bool independent_threads = false;
  std::uint64_t instruction_limit = 0;
  std::uint64_t fail_allocation = 0;
  Injection fail_launch{.nth = 0};  ///< function unused; nth = 0: none
  std::vector<Injection> fail;
  std::string report;
};

/// False: no such setting, or `value` is not one of its values.
bool set(Settings& settings, std::string_view name, std::string_view value);
/// The defaults, changed by the environment. A variable that cannot be read is said on stderr.
Settings settings_from_environment();
/// One line a setting: name, meaning.
std::string describe_settings();

}  // namespace emulator
