// Lines between the hooks' own that say when each partition's backward starts and ends.
#pragma once

#include "driver/context.h"

namespace riffle::driver {

/// Adds or removes them: they are there while a print hook is, and hooks fire at partitions.
void sync_partition_lines(Context& context);

}  // namespace riffle::driver
