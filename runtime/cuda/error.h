// Codes of the CUDA driver turned into DeviceErrors: the one place where that happens.
#pragma once

#include <string>
#include <string_view>

#include "riffle/error.h"
#include "runtime/cuda/driver.h"

namespace riffle::runtime::cuda {

/// "CUDA_ERROR_ILLEGAL_ADDRESS"; "CUresult 1234" for a code that the driver does not know.
std::string name_of(const DriverApi& api, Result code);
/// After such an error every later call in the context fails too: only a new process (for a
/// primary context) or a new context helps.
bool is_sticky(Result code) noexcept;
/// `call` is the function that returned the code; `where` a module, a stream, a buffer's purpose.
DeviceError make_error(const DriverApi& api, Result code, std::string_view call,
                       std::string_view where = {});

}  // namespace riffle::runtime::cuda
