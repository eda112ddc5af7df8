#include "runtime/kernel_status.h"

#include <fmt/format.h>

#include "riffle/error.h"

namespace riffle::runtime {

void check_status(const KernelStatus& status, std::string_view kernel, std::string_view module) {
  if (status.code == 0) return;
  if (status.code == kIndexOutOfRange)
    throw DeviceError({.what = fmt::format("index {} is out of range [0, {}) in kernel {}",
                                           status.value, status.limit, kernel),
                       .where = std::string(module),
                       .hint = "indices below the size of the dimension that they index"});
  throw DeviceError({.what = fmt::format("kernel {} failed with status {}", kernel, status.code),
                     .where = std::string(module)});
}

}  // namespace riffle::runtime
