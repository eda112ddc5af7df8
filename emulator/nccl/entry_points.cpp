// The exported functions of the emulated libnccl.so.2, and the registry of its communicators.
//
// Start at guard(): every entry point is a body in it, which turns Problems into results.
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "emulator/nccl/comm.h"
#include "emulator/nccl/control.h"
#include "emulator/nccl/reduce.h"

#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator::nccl {
namespace {

/// Everything of the process. Never destroyed: host functions may still run when it ends.
struct Registry {
  std::mutex mutex;
  Settings settings = settings_from_environment();
  // Handles are numbers that are never handed out twice, so that a destroyed one is told.
  std::map<std::uintptr_t, std::shared_ptr<Comm>> comms;
  std::uintptr_t last = 0x4e43434c0000;

  std::shared_ptr<Comm> find(ncclComm_t handle) {
    const std::lock_guard lock(mutex);
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const auto found = comms.find(number);
    if (found != comms.end()) return found->second;
    const bool was = number > 0x4e43434c0000 && number <= last && number % 16 == 0;
    throw Problem{ncclInvalidArgument, was       ? "the communicator has been destroyed"
                                       : !handle ? "the communicator is null"
                                                 : "that is no communicator"};
  }
  std::shared_ptr<Comm> take(ncclComm_t handle) {
    auto comm = find(handle);
    const std::lock_guard lock(mutex);
    if (comms.erase(reinterpret_cast<std::uintptr_t>(handle)) == 0)
      throw Problem{ncclInvalidArgument, "the communicator has been destroyed"};
    return comm;
  }
  ncclComm_t add(std::shared_ptr<Comm> comm) {
    const std::lock_guard lock(mutex);
    last += 16;
    comms.emplace(last, std::move(comm));
    return reinterpret_cast<ncclComm_t>(last);  // NOLINT(performance-no-int-to-ptr): a number
  }
  Settings current_settings() {
    const std::lock_guard lock(mutex);
    return settings;
  }
};

Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

// No destructor may run when a thread ends after this library's; hence an array.
thread_local char t_last_error[1024];

ncclResult_t report(const Problem& problem) {
  std::snprintf(t_last_error, sizeof t_last_error, "%s", problem.text.c_str());
  return problem.code;
}

/// The calls of an open group.
struct Group {
  int depth = 0;
  std::vector<std::pair<std::shared_ptr<Comm>, Request>> requests;
  std::vector<std::shared_ptr<Comm>> joining;
  Problem problem;  // the first of a call inside
};
/// Lives from a thread's first call in a group to the call that ends it (or during a single call).
thread_local Group* t_group = nullptr;
Group& group() {
  if (!t_group) t_group = new Group;
  return *t_group;
}
struct ReleaseClosedGroup {
  ~ReleaseClosedGroup() {
    if (!t_group || t_group->depth > 0) return;
    delete t_group;
    t_group = nullptr;
  }
};

template <typename Body>
ncclResult_t guard(Body&& body) noexcept {
  const ReleaseClosedGroup release;
  try {
    try {
      return body();
    } catch (const Problem& problem) {
      if (group().depth > 0 && group().problem.code == ncclSuccess) group().problem = problem;
      return report(problem);
    } catch (const std::exception& error) {
      return report({ncclInternalError, error.what()});
    }
  } catch (...) {
    return ncclInternalError;
  }
}

ncclResult_t answer(Comm& comm) {
  if (comm.blocking()) return ncclSuccess;
  comm.begin_call();
  return ncclInProgress;
}

ncclResult_t start(const std::shared_ptr<Comm>& comm, const Request& request) {
  comm->enqueue(request, registry().current_settings());
  return ncclSuccess;
}

ncclResult_t collective(ncclComm_t handle, const Request& request) {
  return guard([&]() -> ncclResult_t {
    const auto comm = registry().find(handle);
    comm->check(request);
    Group& open = group();
    if (open.depth > 0) {
      if (!open.joining.empty())
        throw Problem{ncclInvalidUsage, "a group holds both a collective and an initialisation"};
      // Calls of one group on one communicator need not wait for each other.
      bool first = true;
      for (const auto& [other, earlier] : open.requests) first &= other != comm;
      if (first) comm->require_ready();
      open.requests.emplace_back(comm, request);
      return comm->blocking() ? ncclSuccess : ncclInProgress;
    }
    comm->require_ready();
    start(comm, request);
    return answer(*comm);
  });
}

ncclResult_t join(ncclComm_t* handle, int size, const ncclUniqueId& id, int rank, bool blocking) {
  return guard([&]() -> ncclResult_t {
    if (!handle) throw Problem{ncclInvalidArgument, "the communicator's place is null"};
    *handle = nullptr;
    Group& open = group();
    if (open.depth > 0 && !open.requests.empty())
      throw Problem{ncclInvalidUsage, "a group holds both a collective and an initialisation"};
    if (::strnlen(id.internal, sizeof id.internal) == sizeof id.internal ||
        std::strncmp(id.internal, "/riffle-nccl-", 13) != 0)
      throw Problem{ncclInvalidArgument, "the unique id is not of ncclGetUniqueId"};
    auto comm =
        std::make_shared<Comm>(id.internal, rank, size, blocking, registry().current_settings());
    *handle = registry().add(comm);
    if (open.depth > 0) {
      open.joining.push_back(std::move(comm));
      return blocking ? ncclSuccess : ncclInProgress;
    }
    if (!blocking) return ncclInProgress;
    try {
      comm->wait_joined();
    } catch (const Problem&) {
      registry().take(*handle)->end(Exchange::State::aborted);
      *handle = nullptr;
      throw;
    }
    return ncclSuccess;
  });
}

}  // namespace

EMULATOR_EXPORT ncclResult_t ncclGetVersion(int* version) {
  return guard([&]() -> ncclResult_t {
    if (!version) throw Problem{ncclInvalidArgument, "the version's place is null"};
    *version = registry().current_settings().version;
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guard([&]() -> ncclResult_t {
    if (!id) throw Problem{ncclInvalidArgument, "the id's place is null"};
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "%s", Exchange::new_name().c_str());
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id,
                                              int rank) {
  return join(comm, size, id, rank, true);
}

EMULATOR_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id,
                                                    int rank, ncclConfig_t* config) {
  bool blocking = true;
  if (config) {
    if (config->magic != kConfigMagic || config->size < sizeof(ncclConfig_t) ||
        config->version < 21400)
      return report({ncclInvalidArgument, "the configuration was not initialised"});
    if (config->blocking != INT_MIN && config->blocking != 0 && config->blocking != 1)
      return report({ncclInvalidArgument, "blocking is neither 0 nor 1"});
    blocking = config->blocking != 0;
  }
  return join(comm, size, id, rank, blocking);
}

EMULATOR_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return guard([&]() -> ncclResult_t {
    const auto comm = registry().find(handle);
    comm->require_ready();
    comm->finalize();
    return answer(*comm);
  });
}

EMULATOR_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return guard([&]() -> ncclResult_t {
    registry().take(handle)->end(Exchange::State::left);
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return guard([&]() -> ncclResult_t {
    registry().take(handle)->end(Exchange::State::aborted);
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return guard([&]() -> ncclResult_t {
    if (!error) throw Problem{ncclInvalidArgument, "the error's place is null"};
    *error = registry().find(handle)->state();
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclCommCount(ncclComm_t handle, int* size) {
  return guard([&]() -> ncclResult_t {
    *size = registry().find(handle)->size();
    return ncclSuccess;
  });
}
EMULATOR_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  return guard([&]() -> ncclResult_t {
    *rank = registry().find(handle)->rank();
    return ncclSuccess;
  });
}
EMULATOR_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  return guard([&]() -> ncclResult_t {
    *device = registry().find(handle)->device();
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count,
                                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  return collective(comm,
                    {{.count = count, .operation = Operation::all_reduce, .type = type, .op = op},
                     from,
                     to,
                     reinterpret_cast<Stream>(stream)});
}
EMULATOR_EXPORT ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count,
                                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream) {
  return collective(
      comm, {{.count = count, .operation = Operation::reduce_scatter, .type = type, .op = op},
             from,
             to,
             reinterpret_cast<Stream>(stream)});
}
EMULATOR_EXPORT ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count,
                                           ncclDataType_t type, ncclComm_t comm,
                                           cudaStream_t stream) {
  return collective(comm, {{.count = count, .operation = Operation::all_gather, .type = type},
                           from,
                           to,
                           reinterpret_cast<Stream>(stream)});
}
EMULATOR_EXPORT ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count,
                                           ncclDataType_t type, int root, ncclComm_t comm,
                                           cudaStream_t stream) {
  return collective(
      comm, {{.count = count, .operation = Operation::broadcast, .type = type, .root = root},
             from,
             to,
             reinterpret_cast<Stream>(stream)});
}

EMULATOR_EXPORT ncclResult_t ncclGroupStart() {
  return guard([]() -> ncclResult_t {
    ++group().depth;
    return ncclSuccess;
  });
}

EMULATOR_EXPORT ncclResult_t ncclGroupEnd() {
  return guard([]() -> ncclResult_t {
    Group& open = group();
    if (open.depth == 0) throw Problem{ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart"};
    if (--open.depth > 0) return ncclSuccess;
    Group calls;
    std::swap(calls, open);
    // A group of which one call was refused starts nothing.
    if (calls.problem.code != ncclSuccess) throw Problem(calls.problem);
    ncclResult_t result = ncclSuccess;
    for (const auto& comm : calls.joining)
      if (comm->blocking())
        comm->wait_joined();
      else
        result = ncclInProgress;
    for (const auto& [comm, request] : calls.requests) start(comm, request);
    for (const auto& [comm, request] : calls.requests)
      if (answer(*comm) == ncclInProgress) result = ncclInProgress;
    return result;
  });
}

EMULATOR_EXPORT const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (emulated)";
    case ncclSystemError:
      return "unhandled system error (emulated)";
    case ncclInternalError:
      return "internal error (emulated)";
    case ncclInvalidArgument:
      return "invalid argument (emulated)";
    case ncclInvalidUsage:
      return "invalid usage (emulated)";
    case ncclRemoteError:
      return "remote process exited or there was a network error (emulated)";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

EMULATOR_EXPORT const char* ncclGetLastError(ncclComm_t handle) {
  guard([&]() -> ncclResult_t {
    if (!handle) return ncclSuccess;
    const std::string text = registry().find(handle)->error_text();
    if (!text.empty()) std::snprintf(t_last_error, sizeof t_last_error, "%s", text.c_str());
    return ncclSuccess;
  });
  return t_last_error;
}

EMULATOR_EXPORT int riffle_emulator_nccl_set(const char* name, const char* value) {
  const std::lock_guard lock(registry().mutex);
  return name && value && set(registry().settings, name, value) ? 1 : 0;
}

}  // namespace emulator::nccl
