// Ties the driver to the PTX parser and the interpreter.
#include "emulator/driver/state.h"

namespace emulator {

namespace ptx {
Module parse(std::string_view text) __attribute__((weak));
}
LaunchStatistics run_kernel(const Launch& launch, DeviceMemory& memory,
                            const ExecuteOptions& options, Footprint& footprint)
    __attribute__((weak));

Engine default_engine() { return {ptx::parse, run_kernel}; }

}  // namespace emulator
