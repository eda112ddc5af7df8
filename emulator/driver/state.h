// Everything the emulated driver knows. One mutex guards it; it is never held while a kernel, a
// copy or a host function runs, nor while a call waits. Start at Driver, at the end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulator/driver/abi.h"
#include "emulator/driver/clock.h"
#include "emulator/driver/handles.h"
#include "emulator/driver/races.h"
#include "emulator/driver/report.h"
#include "emulator/driver/settings.h"
#include "emulator/driver/work.h"
#include "emulator/memory/device_memory.h"
#include "emulator/ptx/module.h"

namespace emulator {

struct Capture;
struct Context;
struct Graph;
struct GraphExec;
struct Node;
struct Operation;

/// What a device is, by compute capability.
struct Architecture {
  int sm = 80;
  int threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  int shared_per_multiprocessor = 0, shared_per_block_optin = 0;
};
Architecture architecture(int sm);

struct Pool {
  abi::CUmemoryPool handle = nullptr;
  int device = 0;
  bool is_default = false, destroyed = false;
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0, threshold = 0;
  int reuse[4] = {0, 1, 1, 1};  ///< by CUmemPool_attribute 1 to 3
};

struct Device {
  int ordinal = 0;
  Architecture architecture;
  std::unique_ptr<DeviceMemory> memory;
  std::shared_ptr<Pool> default_pool, pool;
  std::shared_ptr<Context> primary;
  int primary_retained = 0;
  unsigned primary_flags = 0;
  abi::CUresult lost = abi::CUDA_SUCCESS;

  // The executor's (executor.cpp).
  std::vector<std::shared_ptr<Operation>> ready;
  std::condition_variable wake;
  bool busy = false;  ///< a worker runs something other than a host function
  int workers = 0, idle = 0;
  std::atomic<bool> stop{false};
};

/// A stream, the legacy default stream, or a thread's default stream.
struct Stream {
  std::uint64_t id = 0;
  abi::CUstream handle = nullptr;  ///< null: a default stream
  std::weak_ptr<Context> context;
  bool legacy = false, blocking = true;
  int priority = 0;
  std::size_t component = 0;
  std::shared_ptr<Operation> tail;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> captured;  ///< what the next captured node depends on
  std::string name() const;
};

struct Context {
  std::uint64_t id = 0;
  abi::CUcontext handle = nullptr;
  Device* device = nullptr;
  bool primary = false, destroyed = false;
  unsigned flags = 0;
  abi::CUresult sticky = abi::CUDA_SUCCESS;
  bool diagnosing = false;  ///< operations already queued still run, to see what they touch
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;
  std::vector<std::weak_ptr<Stream>> streams;
  struct Orphan {
    std::shared_ptr<Operation> last;
    bool blocking = true;
  };
  std::vector<Orphan> orphans;  ///< what destroyed streams left behind
  std::set<int> peers;
  std::map<int, std::size_t> limits;
};

struct Event {
  abi::CUevent handle = nullptr;
  std::weak_ptr<Context> context;
  unsigned flags = 0;
  std::shared_ptr<Operation> recorded;
  std::weak_ptr<Capture> capture;  ///< where it was last recorded, if in a capture
  std::vector<Node*> captured;
  std::uint64_t capture_id = 0;  ///< 0: not recorded in a capture
};

struct LoadedModule {
  abi::CUmodule handle = nullptr;
  std::shared_ptr<Context> context;
  ptx::Module ptx;
  std::map<std::string, std::uint64_t> variables;  ///< addresses
  std::uint64_t unfinished = 0;                    ///< operations that have not run
  bool unloaded = false;
};

struct Function {
  abi::CUfunction handle = nullptr;
  std::weak_ptr<LoadedModule> module;
  std::size_t kernel = 0;
  int max_dynamic_shared = 0;
  int carveout = -1;
};

struct PinnedMemory {
  std::uint64_t bytes = 0;
  std::uint64_t device_address = 0;
  unsigned flags = 0;
  bool registered = false;  ///< the caller's memory, of cuMemHostRegister
  std::uint64_t context = 0;
};

/// Who owns device memory.
struct Ownership {
  std::uint64_t context = 0;
  int device = 0;
  std::shared_ptr<Pool> pool;  ///< null: cuMemAlloc
  bool freeing = false;        ///< cuMemFreeAsync was called
  bool module = false;         ///< a module's variable
};

struct Statistics {
  std::uint64_t launches = 0, operations = 0, thread_instructions = 0;
  double kernel_seconds = 0;
};

/// What parses and runs kernels; tests of the driver alone put something simpler in its place.
struct Engine {
  ptx::Module (*parse)(std::string_view text);
  LaunchStatistics (*run)(const Launch& launch, DeviceMemory& memory, const ExecuteOptions& options,
                          Footprint& footprint);
};

Engine default_engine();

struct Driver {
  std::mutex mutex;
  std::condition_variable done;  ///< an operation has ended
  Settings settings = settings_from_environment();
  Engine engine = default_engine();
  Report report;
  std::mt19937_64 random{settings.seed};
  bool initialised = false, deinitialised = false;
  int process = 0;  ///< that initialised it; a fork's child has no workers

  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<DeviceMemory> host_memory;  ///< pinned, by its own address or an alias
  Handles<Context, abi::CUcontext> contexts{0x10, "context"};
  Handles<Stream, abi::CUstream> streams{0x11, "stream"};
  Handles<Event, abi::CUevent> events{0x12, "event"};
  Handles<LoadedModule, abi::CUmodule> modules{0x13, "module"};
  Handles<Function, abi::CUfunction> functions{0x14, "function"};
  Handles<Graph, abi::CUgraph> graphs{0x15, "graph"};
  Handles<GraphExec, abi::CUgraphExec> graph_execs{0x16, "executable graph"};
  Handles<Pool, abi::CUmemoryPool> pools{0x17, "memory pool"};
  std::map<abi::CUgraphNode, Node*> nodes;
  std::map<std::uint64_t, Ownership> owners;     ///< by address of device memory
  std::map<std::uint64_t, PinnedMemory> pinned;  ///< by host address
  std::vector<std::shared_ptr<Capture>> captures;

  AccessHistory history;
  Components components;
  VectorClock host_clock;
  std::uint64_t last_id = 0, last_operation = 0;
  std::uint64_t demand = 0;   ///< operations that some call waits for, counted once a call
  std::uint64_t credits = 0;  ///< operations that queries let run
  std::uint64_t allocations_seen = 0, launches_seen = 0;
  Statistics statistics;

  bool chance() { return (random() & 1) != 0; }
};

/// The process's driver. Never destroyed: workers may still run when the process ends.
Driver& driver();

/// Fails the call that throws it, and reports `message` as misuse unless it is empty.
struct ApiError {
  abi::CUresult code;
  std::string message = {};
};

}  // namespace emulator
