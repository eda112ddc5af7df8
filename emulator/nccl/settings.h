// What can be set about the emulated NCCL, by environment variable (RIFFLE_EMULATOR_NCCL_ and the
// name in capitals) or by riffle_emulator_nccl_set. The table is in settings.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/nccl/abi.h"

namespace emulator::nccl {

/// "3", "3:2", "3:2@1": at a communicator's third collective, code 2, on rank 1 alone. 0: never.
struct Injection {
  std::uint64_t nth = 0;
  int code = 0;
  int rank = -1;  ///< -1: every rank

  bool hits(std::uint64_t n, int at_rank) const noexcept {
    return nth != 0 && n == nth && (rank < 0 || rank == at_rank);
  }
};

struct Settings {
  int version = 22809;
  Injection fail_init;  ///< nth counts nothing: 1 is "on"
  Injection fail_collective, hang, die;
};

/// False: no such setting, or `value` is not one of its values.
bool set(Settings& settings, std::string_view name, std::string_view value);
/// The defaults, changed by the environment. A variable that cannot be read is said on stderr.
Settings settings_from_environment();
/// One line a setting: name, meaning.
std::string describe_settings();

}  // namespace emulator::nccl
