// Where the time of the last traced step went, kernel by kernel, and what bounds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/context.h"

namespace riffle::driver {

/// One kernel of one partition's forward or backward, or of the optimizer; equal ones are summed.
struct KernelTime {
  std::string name, phase;
  std::int32_t partition = -1;
  std::int64_t launches = 0;
  double ms = 0, flops = 0, bytes = 0;
  std::vector<std::string> origin;  ///< names of the nodes that it computes
};

/// Sorted by time. UsageError when nothing was traced.
std::vector<KernelTime> kernel_times(const Executable& executable);

/// Of the whole step, or of the kernels named `kernel` (a name, or a glob over names).
void explain(Context& context, const std::optional<std::string>& kernel);

}  // namespace riffle::driver
