// The workers of a device: threads that take ready operations in a seeded order.
//
// One operation of a device runs at a time, but host functions beside it: one that blocks must not
// hold up the other streams. Unless the `eager` setting says otherwise a worker starts late: when a
// call waits (demand), queries (credits), or after a delay without either, so that a program that
// waits by its own means makes progress.
#include <algorithm>
#include <thread>

#include "emulator/driver/operation.h"

namespace emulator {
namespace {

thread_local bool t_in_host_function = false;

std::shared_ptr<Operation> take(Driver& d, Device& device) {
  // A worker may take a host function while another runs a kernel.
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < device.ready.size(); ++i) {
    if (!device.busy || std::holds_alternative<HostWork>(device.ready[i]->work)) {
      candidates.push_back(i);
    }
  }
  if (candidates.empty()) return nullptr;
  const std::size_t at = candidates[d.settings.eager ? 0 : d.random() % candidates.size()];
  auto operation = device.ready[at];
  device.ready.erase(device.ready.begin() + static_cast<std::ptrdiff_t>(at));
  return operation;
}

void finish(Driver& d, Operation& operation) {
  operation.state = Operation::State::done;
  operation.finished = std::chrono::steady_clock::now();
  if (auto* kernel = std::get_if<KernelWork>(&operation.work)) --kernel->module->unfinished;
  operation.work = MarkerWork{};
  operation.context = nullptr;  // whose streams keep their last operation
  d.demand -= std::min(d.demand, operation.waiters);
  for (const auto& dependent : operation.dependents) {
    if (--dependent->missing > 0) continue;
    dependent->state = Operation::State::ready;
    Device& device = *dependent->context->device;
    device.ready.push_back(dependent);
    device.wake.notify_one();
  }
  operation.dependents.clear();
  d.done.notify_all();
}

void work(Driver& d, Device& device);

void spawn(Driver& d, Device& device) {
  ++device.workers;
  std::thread([&d, &device] { work(d, device); }).detach();
}

void work(Driver& d, Device& device) {
  std::unique_lock lock(d.mutex);
  while (!device.stop) {
    const bool wanted = d.settings.eager || d.demand > 0 || d.credits > 0;
    ++device.idle;
    if (device.ready.empty() || (!wanted && device.busy)) {
      device.wake.wait(lock);
      --device.idle;
      continue;
    }
    if (!wanted) {
      const auto delay = std::chrono::microseconds(d.settings.delay_us);
      const bool late = device.wake.wait_for(lock, delay) == std::cv_status::timeout;
      --device.idle;
      if (!late || device.stop) continue;
    } else {
      --device.idle;
    }
    const auto operation = take(d, device);
    if (!operation) {
      ++device.idle;
      device.wake.wait(lock);
      --device.idle;
      continue;
    }
    if (d.credits > 0 && d.demand == 0) --d.credits;
    operation->state = Operation::State::running;
    const bool host = std::holds_alternative<HostWork>(operation->work);
    if (!host) device.busy = true;
    if (host && device.idle == 0) {
      spawn(d, device);
    } else if (host && !device.ready.empty()) {
      device.wake.notify_one();  // what this worker was woken for may be another's to run
    }
    t_in_host_function = host;
    lock.unlock();
    run_operation(d, device, *operation);
    lock.lock();
    t_in_host_function = false;
    if (!host) device.busy = false;
    finish(d, *operation);
    if (!device.ready.empty()) device.wake.notify_one();
  }
  --device.workers;
  d.done.notify_all();
}

}  // namespace

bool in_host_function() { return t_in_host_function; }

void start_workers(Driver& d, Device& device) { spawn(d, device); }

void stop_workers(Driver& d, std::unique_lock<std::mutex>& lock, Device& device) {
  device.stop = true;
  device.wake.notify_all();
  d.done.wait(lock, [&] { return device.workers == 0; });
  device.ready.clear();
}

}  // namespace emulator
