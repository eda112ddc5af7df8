// emulator/control.h, and the beginning and end of the driver's life.
#include "emulator/control.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator {
namespace {

void at_exit() {
  Driver& d = driver();
  std::string destination;
  {
    const std::lock_guard lock(d.mutex);
    if (d.initialised) report_leaks(d);
    d.deinitialised = true;
    destination = d.settings.report;
  }
  if (destination.empty()) return;
  const std::string text = d.report.text();
  if (destination == "stderr") {
    std::fputs(text.c_str(), stderr);
  } else {
    std::ofstream(destination) << text;
  }
}

std::size_t copy_text(const std::string& from, char* text, std::size_t bytes) {
  if (text && bytes > 0) {
    const std::size_t count = std::min(bytes - 1, from.size());
    std::memcpy(text, from.data(), count);
    text[count] = '\0';
  }
  return from.size();
}

}  // namespace

void initialise(Driver& d) {
  static bool registered = false;
  if (!registered) std::atexit(at_exit);
  registered = true;
  d.random.seed(d.settings.seed);
  d.host_memory = std::make_unique<DeviceMemory>("the host's pinned memory", ~std::uint64_t{0} / 4);
  for (int i = 0; i < d.settings.devices; ++i) {
    auto device = std::make_unique<Device>();
    device->ordinal = i;
    device->architecture = architecture(d.settings.sm);
    device->memory =
        std::make_unique<DeviceMemory>("device " + std::to_string(i), d.settings.memory);
    device->memory->set_reachable(d.host_memory.get(), true);
    device->default_pool = std::make_shared<Pool>();
    device->default_pool->device = i;
    device->default_pool->is_default = true;
    device->default_pool->handle = d.pools.add(device->default_pool);
    device->pool = device->default_pool;
    d.devices.push_back(std::move(device));
  }
  for (const auto& device : d.devices) {
    for (const auto& other : d.devices) {
      if (other != device) device->memory->set_known(other->memory.get());
    }
    start_workers(d, *device);
  }
  d.process = getpid();
  d.initialised = true;
}

void report_leaks(Driver& d) {
  const auto add = [&](std::size_t count, const std::string& what) {
    if (count > 0) d.report.add("leak", std::to_string(count) + " " + what);
  };
  std::size_t allocations = 0;
  std::uint64_t bytes = 0;
  std::string first;
  for (const auto& [address, owner] : d.owners) {
    if (owner.module || owner.freeing) continue;
    const auto allocation =
        d.devices[static_cast<std::size_t>(owner.device)]->memory->find(address);
    if (allocations++ == 0) first = allocation->describe();
    bytes += allocation->bytes;
  }
  add(allocations, "allocations of device memory, " + std::to_string(bytes) +
                       " bytes (the first: " + first + ")");
  add(d.pinned.size(), "blocks of pinned host memory");
  add(d.contexts.size(), "contexts");
  add(d.streams.size(), "streams");
  add(d.events.size(), "events");
  add(d.modules.size(), "modules");
  add(d.graphs.size(), "graphs");
  add(d.graph_execs.size(), "executable graphs");
  add(d.pools.size() - d.devices.size(), "memory pools");
}

void reset(Driver& d, std::unique_lock<std::mutex>& lock) {
  for (const auto& device : d.devices) stop_workers(d, lock, *device);
  d.captures.clear();
  // What was dropped before it ran still refers to its context, whose streams refer to it.
  for (const auto& [handle, context] : d.contexts.all()) {
    context->legacy.reset();
    context->per_thread.clear();
    context->orphans.clear();
  }
  d.contexts.clear();
  d.streams.clear();
  d.events.clear();
  d.modules.clear();
  d.functions.clear();
  d.graphs.clear();
  d.graph_execs.clear();
  d.pools.clear();
  d.nodes.clear();
  d.owners.clear();
  for (const auto& [host, memory] : d.pinned) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
    if (!memory.registered) std::free(reinterpret_cast<void*>(host));
  }
  d.pinned.clear();
  d.history.clear();
  d.devices.clear();
  d.host_memory.reset();
  d.components = Components();
  d.host_clock = VectorClock();
  d.demand = d.credits = d.allocations_seen = d.launches_seen = d.last_operation = d.last_id = 0;
  d.statistics = Statistics();
  d.settings = settings_from_environment();
  d.report.clear();
  d.initialised = d.deinitialised = false;
  context_stack().clear();
}

}  // namespace emulator

using emulator::driver;

EMULATOR_EXPORT int riffle_emulator_set(const char* name, const char* value) {
  emulator::Driver& d = driver();
  if (!name || !value) return 0;
  const std::lock_guard lock(d.mutex);
  if (!emulator::set(d.settings, name, value)) return 0;
  const std::string_view setting = name;
  if (setting == "seed") d.random.seed(d.settings.seed);
  if (setting == "fail_allocation") d.allocations_seen = 0;
  if (setting == "fail_launch") d.launches_seen = 0;
  for (const auto& device : d.devices) device->wake.notify_all();
  return 1;
}

EMULATOR_EXPORT void riffle_emulator_reset(void) {
  emulator::Driver& d = driver();
  std::unique_lock lock(d.mutex);
  emulator::reset(d, lock);
}

EMULATOR_EXPORT void riffle_emulator_deinitialize(void) {
  emulator::Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  d.deinitialised = true;
}

EMULATOR_EXPORT int riffle_emulator_lose_device(int device, int code) {
  emulator::Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  if (device < 0 || static_cast<std::size_t>(device) >= d.devices.size()) return 0;
  d.devices[static_cast<std::size_t>(device)]->lost = static_cast<emulator::abi::CUresult>(code);
  return 1;
}

EMULATOR_EXPORT uint64_t riffle_emulator_live(const char* kind) {
  emulator::Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  const std::string_view what = kind ? kind : "";
  if (what == "contexts") return d.contexts.size();
  if (what == "streams") return d.streams.size();
  if (what == "events") return d.events.size();
  if (what == "allocations") {
    return static_cast<uint64_t>(std::count_if(
        d.owners.begin(), d.owners.end(),
        [](const auto& entry) { return !entry.second.module && !entry.second.freeing; }));
  }
  if (what == "pinned") return d.pinned.size();
  if (what == "modules") return d.modules.size();
  if (what == "graphs") return d.graphs.size();
  if (what == "graph_execs") return d.graph_execs.size();
  if (what == "pools") return d.pools.size() - d.devices.size();
  return ~uint64_t{0};
}

EMULATOR_EXPORT size_t riffle_emulator_report(char* text, size_t bytes) {
  return emulator::copy_text(driver().report.text(), text, bytes);
}

EMULATOR_EXPORT size_t riffle_emulator_report_count(const char* kind) {
  return driver().report.count(kind ? kind : "");
}

EMULATOR_EXPORT void riffle_emulator_report_clear(void) { driver().report.clear(); }

EMULATOR_EXPORT void riffle_emulator_report_leaks(void) {
  emulator::Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  emulator::report_leaks(d);
}

EMULATOR_EXPORT size_t riffle_emulator_settings(char* text, size_t bytes) {
  return emulator::copy_text(emulator::describe_settings(), text, bytes);
}

EMULATOR_EXPORT void riffle_emulator_get_statistics(riffle_emulator_statistics* statistics) {
  emulator::Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  if (!statistics) return;
  const emulator::Statistics& s = d.statistics;
  // Interpreted with all checks on, a core does about this many.
  constexpr double kGuess = 40e6;
  constexpr double kEnoughSeconds = 0.005;
  const double cores = d.settings.workers > 0 ? d.settings.workers
                                              : std::max(1u, std::thread::hardware_concurrency());
  *statistics = {s.launches, s.operations, s.thread_instructions, s.kernel_seconds,
                 s.kernel_seconds > kEnoughSeconds
                     ? static_cast<double>(s.thread_instructions) / s.kernel_seconds
                     : kGuess * cores};
}
