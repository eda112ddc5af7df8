// Runs one operation: the bytes without the driver's mutex, then, with it, what it touched is put
// into the history of accesses.
#include <cstring>

#include "emulator/driver/operation.h"

namespace emulator {
namespace {

using abi::CUresult;

CUresult result_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address:
    case FaultKind::freed_memory:
      return abi::CUDA_ERROR_ILLEGAL_ADDRESS;
    case FaultKind::misaligned_address:
      return abi::CUDA_ERROR_MISALIGNED_ADDRESS;
    case FaultKind::illegal_instruction:
      return abi::CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case FaultKind::stuck:
      return abi::CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
      return abi::CUDA_ERROR_LAUNCH_FAILED;
  }
}

/// Memory of any device, or pinned: what copies, unlike kernels, may reach.
std::shared_ptr<Allocation> resolve_anywhere(Driver& d, Device& device, std::uint64_t address,
                                             std::uint64_t bytes, std::string_view access) {
  for (const auto& other : d.devices) {
    if (other->memory->in_reserved_range(address)) {
      return other->memory->resolve(address, bytes, access);
    }
  }
  return device.memory->resolve(address, bytes, access);
}

ByteRange range_of(std::uint64_t address, std::uint64_t bytes) {
  return {address, address + bytes};
}

struct Runner {
  Driver& d;
  Device& device;
  Operation& operation;
  Footprint touched = {};
  std::string name = {};

  void operator()(MarkerWork&) {}
  void operator()(EventRecordWork&) {}
  void operator()(EventWaitWork&) {}

  void operator()(KernelWork& work) {
    const ptx::Module& module = work.module->ptx;
    const ptx::KernelInfo& info = module.kernels[work.kernel];
    Launch launch;
    launch.module = &module;
    launch.kernel = work.kernel;
    launch.grid = work.grid;
    launch.block = work.block;
    launch.dynamic_shared_bytes = work.dynamic_shared_bytes;
    launch.parameters = work.parameters;
    launch.variables = &work.module->variables;
    ExecuteOptions options;
    bool injected = false;
    {
      const std::lock_guard lock(d.mutex);
      options.workers = d.settings.workers;
      options.seed = d.settings.seed * 0x9e3779b97f4a7c15 + operation.number;
      options.check_shared_races = d.settings.check_shared_races;
      options.independent_threads = d.settings.independent_threads;
      options.instruction_limit = d.settings.instruction_limit;
      ++d.launches_seen;
      injected = d.settings.fail_launch.nth != 0 && d.launches_seen == d.settings.fail_launch.nth;
    }
    options.cancelled = [&] { return device.stop.load(); };
    if (injected) {
      set_error(static_cast<CUresult>(d.settings.fail_launch.code),
                "kernel " + info.name + ": launch failure injected");
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const LaunchStatistics statistics = d.engine.run(launch, *device.memory, options, touched);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    {
      const std::lock_guard lock(d.mutex);
      ++d.statistics.launches;
      d.statistics.thread_instructions += statistics.thread_instructions;
      d.statistics.kernel_seconds += seconds.count();
    }
    const auto both = intersect(touched.constants, touched.writes);
    if (both.empty()) return;
    const auto where = device.memory->find_reachable(both[0].begin);
    throw Fault(
        FaultKind::read_only_violation,
        "read-only violation: the launch both writes and reads by ld.global.nc bytes " +
            (where ? std::to_string(both[0].begin - where->begin) + " to " +
                         std::to_string(both[0].end - 1 - where->begin) + " of " + where->describe()
                   : "of memory freed meanwhile") +
            ", kernel " + info.name);
  }

  void operator()(CopyWork& work) {
    std::shared_ptr<Allocation> to, from;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
    const std::byte* source = reinterpret_cast<const std::byte*>(work.from);
    const std::uint8_t* source_shadow = nullptr;
    if (work.staged) {
      source = work.staged->data();
    } else if (work.from_place != Place::pageable) {
      from = resolve_anywhere(d, device, work.from, work.bytes, "copy from");
      source = from->data + (work.from - from->begin);
      source_shadow = from->shadow + (work.from - from->begin);
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
    std::byte* target = reinterpret_cast<std::byte*>(work.to);
    std::uint8_t* target_shadow = nullptr;
    if (work.to_place != Place::pageable) {
      to = resolve_anywhere(d, device, work.to, work.bytes, "copy to");
      target = to->data + (work.to - to->begin);
      if (!to->host) target_shadow = to->shadow + (work.to - to->begin);
    }
    const std::uint64_t missing =
        copy_bytes(target, target_shadow, source, source_shadow, work.bytes);
    if (missing > 0 && !target_shadow) {
      d.report.add("fault",
                   operation.actor->what + ": uninitialised memory: " + std::to_string(missing) +
                       " of " + std::to_string(work.bytes) +
                       " bytes copied to the host were never written, from " + from->describe());
    }
  }

  void operator()(FillWork& work) {
    const std::uint64_t row = work.width * work.element_bytes;
    const std::uint64_t span = (work.height - 1) * work.pitch + row;
    if (row == 0 || work.height == 0) return;
    const auto to = resolve_anywhere(d, device, work.to, span, "memset");
    for (std::uint64_t y = 0; y < work.height; ++y) {
      std::byte* at = to->data + (work.to - to->begin) + y * work.pitch;
      for (std::uint64_t i = 0; i < work.width; ++i) {
        std::memcpy(at + i * work.element_bytes, &work.value, work.element_bytes);
      }
      std::memset(to->shadow + (at - to->data), 1, row);
    }
  }

  void operator()(HostWork& work) {
    {
      // What the function tells other threads comes after it, and so after what it waited for.
      const std::lock_guard lock(d.mutex);
      d.host_clock.join(operation.actor->clock);
    }
    work.function(work.user_data);
  }
  void operator()(AllocateWork&) {}

  void operator()(FreeWork& work) {
    const std::lock_guard lock(d.mutex);
    const auto owner = d.owners.find(work.address);
    const auto allocation = device.memory->find(work.address);
    if (owner == d.owners.end() || !allocation) return;
    d.history.check(operation.actor, {allocation->begin, allocation->end()},
                    [&](const AccessHistory::Race& race) { report_race(d, race); });
    d.history.forget({allocation->begin, allocation->end()});
    if (owner->second.pool) owner->second.pool->used -= allocation->bytes;
    d.owners.erase(owner);
    device.memory->release(work.address, operation.actor->what);
  }

  /// What the call itself says it touches; known even of an operation that is dropped.
  void declare() {
    if (const auto* copy = std::get_if<CopyWork>(&operation.work)) {
      if (copy->from_place != Place::pageable && !copy->staged) {
        touched.reads.push_back(range_of(copy->from, copy->bytes));
      }
      if (copy->to_place != Place::pageable) {
        touched.writes.push_back(range_of(copy->to, copy->bytes));
      }
    } else if (const auto* fill = std::get_if<FillWork>(&operation.work)) {
      for (std::uint64_t y = 0; y < fill->height; ++y) {
        touched.writes.push_back(
            range_of(fill->to + y * fill->pitch, fill->width * fill->element_bytes));
      }
    } else if (const auto* allocate = std::get_if<AllocateWork>(&operation.work)) {
      touched.writes.push_back(range_of(allocate->address, allocate->bytes));
    }
  }

  void set_error(CUresult code, const std::string& text, bool diagnose = false) {
    const std::lock_guard lock(d.mutex);
    Context& context = *operation.context;
    if (context.sticky != abi::CUDA_SUCCESS) return;
    context.sticky = code;
    context.diagnosing = diagnose;
    d.report.add("fault", text);
  }

  void run() {
    bool skip = false;
    {
      const std::lock_guard lock(d.mutex);
      const Context& context = *operation.context;
      skip = context.destroyed || device.lost != abi::CUDA_SUCCESS ||
             (context.sticky != abi::CUDA_SUCCESS && !context.diagnosing);
    }
    declare();
    // Memory is given back even where the context has failed: leaks are counted.
    if (!skip || std::holds_alternative<FreeWork>(operation.work)) {
      try {
        std::visit(*this, operation.work);
      } catch (const Fault& fault) {
        // Uninitialised reads are what a race looks like: what is queued still runs, to name it.
        set_error(result_of(fault.kind()), operation.actor->what + ": " + fault.what(),
                  fault.kind() == FaultKind::uninitialised_memory);
      } catch (const std::exception& error) {
        set_error(abi::CUDA_ERROR_UNKNOWN,
                  operation.actor->what + ": the emulator failed: " + error.what());
      }
    }
    if (touched.reads.empty() && touched.writes.empty()) return;
    const std::lock_guard lock(d.mutex);
    d.history.record(operation.actor, touched.reads, touched.writes,
                     [&](const AccessHistory::Race& race) { report_race(d, race); });
  }
};

}  // namespace

void run_operation(Driver& d, Device& device, Operation& operation) {
  Runner runner{d, device, operation};
  runner.run();
}

}  // namespace emulator
