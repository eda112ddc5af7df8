#include "emulator/fault.h"

namespace emulator {

const char* name(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::illegal_address:
      return "illegal address";
    case FaultKind::freed_memory:
      return "freed memory";
    case FaultKind::uninitialised_memory:
      return "uninitialised memory";
    case FaultKind::uninitialised_register:
      return "uninitialised register";
    case FaultKind::misaligned_address:
      return "misaligned address";
    case FaultKind::read_only_violation:
      return "read-only violation";
    case FaultKind::barrier_divergence:
      return "barrier divergence";
    case FaultKind::invalid_lane:
      return "invalid lane";
    case FaultKind::asynchronous_copy:
      return "asynchronous copy not waited for";
    case FaultKind::shared_race:
      return "shared memory race";
    case FaultKind::illegal_instruction:
      return "illegal instruction";
    case FaultKind::trap:
      return "trap";
    case FaultKind::stuck:
      return "stuck";
  }
  return "unknown fault";
}

}  // namespace emulator
