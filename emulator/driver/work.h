// What an operation of a stream, or a node of a graph, does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "emulator/driver/abi.h"
#include "emulator/execute/run_kernel.h"

namespace emulator {

struct LoadedModule;
struct Event;
struct Pool;

struct KernelWork {
  std::shared_ptr<LoadedModule> module;
  std::size_t kernel = 0;
  abi::CUfunction function = nullptr;
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
};

/// Where a copy's end lies. Pageable bytes are the host's own and not tracked.
enum class Place : std::uint8_t { device, pinned, pageable };

struct CopyWork {
  std::uint64_t to = 0, from = 0, bytes = 0;
  Place to_place = Place::device, from_place = Place::device;
  std::shared_ptr<std::vector<std::byte>>
      staged;  ///< the source as it was when the copy was called
};

struct FillWork {
  std::uint64_t to = 0;
  std::uint32_t value = 0, element_bytes = 1;
  std::uint64_t width = 0, height = 1, pitch = 0;  ///< width in elements, pitch in bytes
};

struct HostWork {
  abi::CUhostFn function = nullptr;
  void* user_data = nullptr;
};

/// Runs nothing: an event, a wait, the ends of a graph.
struct MarkerWork {};

/// The place in the stream from which on memory of cuMemAllocAsync may be used.
struct AllocateWork {
  std::uint64_t address = 0, bytes = 0;
};

struct FreeWork {
  std::uint64_t address = 0;
};

/// Nodes of graphs alone: at a launch they become markers.
struct EventRecordWork {
  std::shared_ptr<Event> event;
};
struct EventWaitWork {
  std::shared_ptr<Event> event;
};

using Work = std::variant<MarkerWork, KernelWork, CopyWork, FillWork, HostWork, AllocateWork,
                          FreeWork, EventRecordWork, EventWaitWork>;

}  // namespace emulator
