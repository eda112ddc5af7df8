// Codes of NCCL turned into CommErrors: the one place where that happens.
#pragma once

#include <string>
#include <string_view>

#include "riffle/error.h"
#include "runtime/collectives/nccl/library.h"

namespace riffle::runtime::nccl {

/// "ncclRemoteError"; "ncclResult_t 99" for a code that is not known here.
std::string name_of(Result code);
/// `call` is the function that returned the code; `where` the collectives and the ranks. `comm`, if
/// not null, is asked for its last words.
CommError make_error(const NcclApi& api, CommHandle comm, Result code, std::string_view call,
                     std::string_view where);

}  // namespace riffle::runtime::nccl
