// What a kernel reported in its status word, as an error.
#pragma once

#include <string_view>

#include "runtime/kernel_abi.h"

namespace riffle::runtime {

/// Throws DeviceError unless `status` says that all is well.
void check_status(const KernelStatus& status, std::string_view kernel, std::string_view module);

}  // namespace riffle::runtime
