// The NCCL communicator: ranks with a CUDA device each, in threads, processes or machines. NCCL is
// loaded at run time (library.h); with device "cuda-emulated" it is the emulator's, whose sums are
// in rank order. Real NCCL adds in an order of its own choosing.
//
// A group is given to NCCL on the thread that enqueues, or, behind a host call, on the stream's. A
// thread of the communicator's watches what is in flight: an asynchronous error, or a group that
// does not end in time after its stream came to it, aborts the communicator; the stream's own
// thread then finds the failure behind the group and fails the stream. docs/cuda.md has more.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/collectives/communicator.h"

namespace riffle::runtime {

/// What all ranks of one communicator must know: made by one, sent to the others by any means.
using NcclId = std::array<std::byte, 128>;

struct NcclOptions {
  /// libnccl to load; empty: for an emulated device the emulator's, else RIFFLE_NCCL, then the
  /// system's "libnccl.so.2".
  std::string library;
  /// How long a group may take, from when its stream comes to it (so compute before it does not
  /// count) until it has ended. Ranks that come later make it longer.
  std::chrono::milliseconds timeout{600'000};
  /// How long the other ranks may take to join, and to leave.
  std::chrono::milliseconds join_timeout{300'000};
  /// Every group is followed by a look at whether it went well, on the stream's thread: costs the
  /// stream a wake-up of that thread, some tens of microseconds. False: only Communicator::settle
  /// looks, which must then stand before anything that uses the results.
  bool check_each = true;
};

/// How the communicator reaches the device that its ranks compute on.
struct NcclDevice {
  Device* device = nullptr;  ///< for events, and for the memory of barriers
  std::string library;       ///< the libnccl that belongs to it; empty: any
  /// Calls with the device's context current on this thread.
  std::function<void(const std::function<void()>&)> with_context;
};
/// Of a device made by make_cuda_device, which must outlive what is made with it. Throws UsageError
/// for other devices.
NcclDevice nccl_device(Device& device);

/// Throws CommError: NCCL not found, too old, incomplete, or what it says.
NcclId make_nccl_id(const NcclDevice& device, const NcclOptions& options = {});
/// Blocks until all `size` ranks have called it with that id, each with another rank and on another
/// device. Throws UsageError, CommError.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclDevice& device, const NcclId& id,
                                                     int rank, int size,
                                                     const NcclOptions& options = {});
/// Works on an ncclComm_t that stays the embedder's and must outlive the result; `options.library`
/// must be the library that made it. After a failure it has been aborted: do not use or destroy it.
std::unique_ptr<Communicator> adopt_nccl_communicator(const NcclDevice& device, void* comm,
                                                      const NcclOptions& options = {});
/// 22809 is 2.28.9.
int nccl_version(const NcclDevice& device, const NcclOptions& options = {});

}  // namespace riffle::runtime
