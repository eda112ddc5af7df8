#include "emulator/driver/operation.h"

#include <algorithm>

namespace emulator {

std::string Stream::name() const {
  if (legacy) return "the legacy default stream";
  if (!handle) return "a thread's default stream";
  return "stream " + std::to_string(id);
}

bool is_done(const std::shared_ptr<Operation>& operation) {
  return !operation || operation->state == Operation::State::done;
}

Operations stream_dependencies(Driver& d, Stream& stream) {
  Operations after;
  if (stream.tail) after.push_back(stream.tail);
  const auto context = stream.context.lock();
  if (!context) return after;
  if (stream.legacy) {
    const auto add = [&](const std::shared_ptr<Stream>& other) {
      if (other && other->blocking && !other->capture && other->tail && other.get() != &stream) {
        after.push_back(other->tail);
      }
    };
    for (const auto& weak : context->streams) add(weak.lock());
    for (const auto& [thread, other] : context->per_thread) add(other);
    for (const auto& orphan : context->orphans) {
      if (orphan.blocking) after.push_back(orphan.last);
    }
  } else if (stream.blocking && context->legacy && context->legacy->tail) {
    after.push_back(context->legacy->tail);
  }
  return after;
}

std::shared_ptr<Operation> submit_after(Driver& d, const std::shared_ptr<Context>& context,
                                        std::size_t component, Work work, const std::string& what,
                                        const std::string& where, const Operations& after) {
  auto operation = std::make_shared<Operation>();
  operation->number = ++d.last_operation;
  operation->context = context;
  operation->work = std::move(work);
  auto actor = std::make_shared<Actor>();
  actor->component = component;
  actor->tick = d.components.next_tick(component);
  actor->clock = d.host_clock;
  for (const auto& earlier : after) actor->clock.join(earlier->actor->clock);
  actor->clock.advance(component, actor->tick);
  actor->what = what + " (operation #" + std::to_string(operation->number) + ", " + where + ")";
  operation->actor = std::move(actor);
  if (auto* kernel = std::get_if<KernelWork>(&operation->work)) ++kernel->module->unfinished;
  for (const auto& earlier : after) {
    if (is_done(earlier)) continue;
    earlier->dependents.push_back(operation);
    ++operation->missing;
  }
  ++d.statistics.operations;
  if (operation->missing == 0) {
    operation->state = Operation::State::ready;
    context->device->ready.push_back(operation);
    context->device->wake.notify_one();
  }
  return operation;
}

std::shared_ptr<Operation> submit(Driver& d, Stream& stream, Work work, const std::string& what,
                                  const Operations& after) {
  Operations all = stream_dependencies(d, stream);
  all.insert(all.end(), after.begin(), after.end());
  stream.tail = submit_after(d, stream.context.lock(), stream.component, std::move(work), what,
                             stream.name(), all);
  return stream.tail;
}

void wait_for(Driver& d, std::unique_lock<std::mutex>& lock, const Operations& operations) {
  std::uint64_t pending = 0;
  for (const auto& operation : operations) {
    if (is_done(operation)) continue;
    ++operation->waiters;
    ++pending;
  }
  if (pending == 0) return;
  d.demand += pending;
  for (const auto& device : d.devices) device->wake.notify_all();
  d.done.wait(lock, [&] { return std::all_of(operations.begin(), operations.end(), is_done); });
}

void see(Driver& d, const Operations& operations) {
  for (const auto& operation : operations) {
    if (operation) d.host_clock.join(operation->actor->clock);
  }
}

void nudge(Driver& d) {
  // Bounded: queries while there is nothing to run must not make what comes later run at once.
  d.credits = std::min<std::uint64_t>(d.credits + 1 + d.random() % 3, 8);
  for (const auto& device : d.devices) device->wake.notify_one();
}

Operations tails(Driver& d, Context& context) {
  std::erase_if(context.orphans, [&](const Context::Orphan& orphan) {
    const Actor& actor = *orphan.last->actor;
    return is_done(orphan.last) && d.host_clock.covers(actor.component, actor.tick);
  });
  Operations all;
  for (const Context::Orphan& orphan : context.orphans) all.push_back(orphan.last);
  const auto add = [&](const std::shared_ptr<Stream>& stream) {
    if (stream && stream->tail) all.push_back(stream->tail);
  };
  add(context.legacy);
  for (const auto& [thread, stream] : context.per_thread) add(stream);
  for (const auto& weak : context.streams) add(weak.lock());
  return all;
}

std::shared_ptr<const Actor> host_actor(Driver& d, std::string what) {
  auto actor = std::make_shared<Actor>();
  actor->component = kHostComponent;
  actor->tick = d.components.next_tick(kHostComponent);
  d.host_clock.advance(kHostComponent, actor->tick);
  actor->clock = d.host_clock;
  actor->what = std::move(what);
  return actor;
}

namespace {

/// "kernel k (operation #12, stream 2)" without the 12.
std::string without_number(std::string what) {
  const std::size_t hash = what.find('#');
  if (hash == what.npos) return what;
  std::size_t end = hash + 1;
  while (end < what.size() && what[end] >= '0' && what[end] <= '9') ++end;
  return what.erase(hash, end - hash);
}

}  // namespace

void report_race(Driver& d, const AccessHistory::Race& race) {
  std::shared_ptr<Allocation> allocation;
  for (const auto& device : d.devices) {
    if (!allocation) allocation = device->memory->find(race.range.begin);
  }
  if (!allocation && d.host_memory) allocation = d.host_memory->find(race.range.begin);
  std::string bytes = "bytes ";
  if (allocation) {
    bytes += std::to_string(race.range.begin - allocation->begin) + " to " +
             std::to_string(race.range.end - 1 - allocation->begin) + " of " +
             allocation->describe();
  } else {
    bytes += "of memory that no longer exists";
  }
  const auto verb = [](bool writes) { return writes ? "writes" : "reads"; };
  const auto text = [&](const std::string& after, const std::string& before,
                        const std::string& where) {
    return after + " " + verb(race.after_writes) + " " + where + ", which " + before + " " +
           verb(race.before_writes) + "; no event, stream order or synchronisation orders the two";
  };
  // A training step repeats its mistakes.
  d.report.add("race", text(race.after->what, race.before->what, bytes),
               text(without_number(race.after->what), without_number(race.before->what), ""));
}

}  // namespace emulator
