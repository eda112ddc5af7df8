// Numbers, tensors and tables as text and JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/context.h"
#include "ir/array.h"

namespace riffle::driver {

std::string format_bytes(std::int64_t bytes);  ///< "4.0 MiB"

/// Applies a slice in NumPy's notation ("[0, 2:5, :]", "" for all). UsageError when it does not
/// fit.
ir::Array sliced(const HostTensor& tensor, std::string_view slice, std::string_view name);
/// Nested rows; long ones are cut in the middle with "…".
std::string format_array(const ir::Array& array);
/// Nested lists of numbers; NaN and infinities as strings.
Json json_of(const ir::Array& array);

/// key, value and meaning of every setting, aligned (`show settings`).
std::string format_settings(Context& context);

}  // namespace riffle::driver
