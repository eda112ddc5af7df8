#include "runtime/collectives/nccl/error.h"

#include <fmt/format.h>

#include <array>

namespace riffle::runtime::nccl {
namespace {

struct Row {
  Result code;
  const char* name;
  const char* hint;
};
constexpr std::array kRows = {
    Row{kSuccess, "ncclSuccess", ""},
    Row{kUnhandledCudaError, "ncclUnhandledCudaError",
        "a CUDA call inside NCCL failed: NCCL_DEBUG=INFO says which; does the driver work "
        "(nvidia-smi)?"},
    Row{kSystemError, "ncclSystemError",
        "a system call failed: NCCL_DEBUG=INFO says which; look at the network interface "
        "(NCCL_SOCKET_IFNAME), /dev/shm and limits (ulimit)"},
    Row{kInternalError, "ncclInternalError",
        "NCCL_DEBUG=INFO says more; are all ranks' versions of NCCL the same?"},
    Row{kInvalidArgument, "ncclInvalidArgument",
        "all ranks must pass the same operation, count and dtype, and a communicator that is "
        "alive"},
    Row{kInvalidUsage, "ncclInvalidUsage",
        "all ranks must enqueue the same collectives in the same order, each on a device of its "
        "own"},
    Row{kRemoteError, "ncclRemoteError",
        "another rank has failed or is gone: its own message says why; make a new communicator"},
    Row{kInProgress, "ncclInProgress", "wait for the other ranks"},
};

const Row* find(Result code) {
  for (const Row& row : kRows)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

std::string name_of(Result code) {
  const Row* row = find(code);
  return row ? row->name : fmt::format("ncclResult_t {}", code);
}

CommError make_error(const NcclApi& api, CommHandle comm, Result code, std::string_view call,
                     std::string_view where) {
  const char* text = api.GetErrorString ? api.GetErrorString(code) : nullptr;
  std::string what = fmt::format("{} failed: {}", call, text ? text : "no reason given");
  // Its words on the last error of this thread or communicator; "" where there are none.
  const char* last = api.GetLastError ? api.GetLastError(comm) : nullptr;
  if (last && *last) {
    std::string_view words = last;
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.remove_suffix(1);
    if (!words.empty()) what += fmt::format(" ({})", words);
  }
  const Row* row = find(code);
  return CommError({.what = std::move(what),
                    .where = std::string(where),
                    .hint = row ? row->hint : "a version of riffle that knows this code",
                    .foreign = name_of(code)});
}

}  // namespace riffle::runtime::nccl
