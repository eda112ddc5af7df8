// Settings of the driver: one table, for `set`, `show settings`, help and completion.
#pragma once

#include <string_view>

#include "driver/context.h"

namespace riffle::driver {

inline constexpr std::string_view kSettingNames =
    "hooks.at threads fuse cache.directory memory.limit cuda.graphs matmul.tf32";

/// UsageError for an unknown key or a value that does not fit.
void apply_setting(Context& context, std::string_view key, std::string_view value);

}  // namespace riffle::driver
