// Where the kernels of one stream report what they could not do: a KernelStatus in device memory
// for every kernel that the stream has launched, so that a report names its kernel; read back when
// the stream is waited for. Slots keep their addresses as long as their module lives: captured
// graphs hold them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"

namespace riffle::runtime::cuda {

class StatusBoard {
 public:
  StatusBoard(std::shared_ptr<Memory> memory, StreamHandle stream)
      : memory_(std::move(memory)), stream_(stream) {}
  ~StatusBoard();  // the stream is idle
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  /// The address for a launch of `kernel`, zeroed in stream order. Throws DeviceError.
  DevicePointer slot(const std::shared_ptr<const LoadedModule>& module, std::int32_t kernel);
  /// Enqueues the copies to the host; nothing if nothing was launched since the last.
  void enqueue_read();
  struct Report {
    KernelStatus status;
    std::string kernel, module;
  };
  /// After the stream was waited for: the report of the kernel that was launched first, if any.
  /// Reports are taken once.
  std::optional<Report> take();

 private:
  struct Range {
    std::size_t chunk = 0, first = 0, count = 0;
    std::weak_ptr<const LoadedModule> module;
  };
  struct Chunk {
    DevicePointer device = 0;
    std::unique_ptr<PinnedMemory> host;
    std::size_t used = 0, size = 0;
    std::vector<std::uint64_t> launched;  // by slot: when it was launched last
  };
  const Range& range(const std::shared_ptr<const LoadedModule>& module);
  bool reuse(std::size_t count, Range& range);

  const std::shared_ptr<Memory> memory_;
  const StreamHandle stream_;
  std::vector<Chunk> chunks_;
  std::unordered_map<std::uint64_t, Range> ranges_;  // by module id
  const Range* latest_ = nullptr;                    // of latest_id_: most launches ask again
  std::uint64_t latest_id_ = 0, launches_ = 0;
  bool dirty_ = false, read_ = false;
};

}  // namespace riffle::runtime::cuda
