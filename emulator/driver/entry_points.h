// The table of the driver's entry points (entry_points.def), as addresses.
#pragma once

#include <span>

namespace emulator {

struct EntryPoint {
  const char* name;  ///< without the version: "cuMemAlloc"
  int since;         ///< the CUDA version from which this form is in the interface: 3020
  void (*address)();
};

std::span<const EntryPoint> entry_points();

}  // namespace emulator
