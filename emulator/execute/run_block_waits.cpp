// Threads that wait for each other. A block- or warp-level operation fires when every living thread
// that it names waits at it. When no warp can go on, somebody waits for a thread that never comes:
// that is how divergence is found. Start reading at warp_operation and block_barrier.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "emulator/execute/run_block.h"

namespace emulator {
namespace {

std::string triple(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

}  // namespace

void BlockRunner::gather_waiting(Warp& w, Group& group) {
  for (std::size_t i = w.groups.size(); i-- > 0;) {
    const Group& g = w.groups[i];
    if (g.pc != group.pc || g.state == Group::State::at_barrier) continue;
    // A runnable group at this pc has not evaluated the guard yet.
    if (g.state == Group::State::runnable && kernel_.code[g.pc].guard != ~0u) continue;
    group.mask |= g.mask;
    w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool BlockRunner::warp_operation(Warp& w, Group& group, const Instruction& in) {
  gather_waiting(w, group);
  const bool whole = in.flags & kWholeWarp;
  const std::uint32_t* members = nullptr;
  if (!whole) {
    const Row r = extra_row(w, in, in.count);
    check(w, in, r, group.mask);
    members = row<std::uint32_t>(w, r);
  }
  std::uint32_t fired = 0, waits = 0;
  for (std::uint32_t rest = group.mask; rest;) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t named = whole ? w.alive : members[l];
    std::uint32_t same = rest;
    if (!whole) {
      same = 0;
      for (std::uint32_t m = rest; m; m &= m - 1)
        if (members[std::countr_zero(m)] == named) same |= m & ~(m - 1);
      if (same & ~named)
        fault(w, same & ~named, FaultKind::invalid_lane,
              kernel_.mnemonic(group.pc) + " by a lane that its own member mask does not name");
    }
    rest &= ~same;
    if (named & w.alive & ~same) {
      waits |= same;
    } else {
      in.handler(w, in, same);
      fired |= same;
    }
  }
  if (waits) w.groups.push_back({Group::State::waiting, group.pc, waits, 0});
  if (!fired) return false;
  if (!waits && !block_.independent_threads) {
    ++group.pc;
    return true;
  }
  if (!block_.independent_threads) {
    w.groups.push_back({Group::State::runnable, group.pc + 1, fired, 0});
  } else {
    for (; fired; fired &= fired - 1)
      w.groups.push_back({Group::State::runnable, group.pc + 1, fired & ~(fired - 1), 0});
  }
  return false;
}

bool BlockRunner::block_barrier(Warp& w, Group& group, const Instruction& in) {
  if (in.flags & kBarrierAligned) {
    gather_waiting(w, group);
    if (group.mask != w.alive) {
      w.groups.push_back({Group::State::waiting, group.pc, group.mask, 0});
      return false;
    }
  }
  check(w, in, in.a, group.mask);
  const auto first = static_cast<std::uint32_t>(std::countr_zero(group.mask));
  const std::uint32_t number = row<std::uint32_t>(w, in.a)[first];
  std::uint32_t expected = 0;
  for (std::uint32_t m = group.mask; m; m &= m - 1)
    if (row<std::uint32_t>(w, in.a)[std::countr_zero(m)] != number)
      fault(w, m, FaultKind::illegal_instruction, "the threads of a warp name different barriers");
  if (number > 15)
    fault(w, group.mask, FaultKind::illegal_instruction,
          "there is no barrier " + std::to_string(number));
  if (in.flags & kBarrierCounted) {
    check(w, in, in.b, group.mask);
    expected = row<std::uint32_t>(w, in.b)[first];
    if (expected == 0 || expected % 32 != 0)
      fault(w, group.mask, FaultKind::illegal_instruction,
            "a barrier for " + std::to_string(expected) + " threads: not a multiple of 32");
  }
  Barrier& barrier = block_.barriers[number];
  if (barrier.arrived && barrier.expected != expected)
    fault(w, group.mask, FaultKind::illegal_instruction,
          "barrier " + std::to_string(number) + " is waited for with different numbers of threads");
  barrier.expected = expected;
  barrier.arrived += expected && (in.flags & kBarrierAligned)
                         ? 32u
                         : static_cast<std::uint32_t>(std::popcount(group.mask));
  if (std::find(barrier.warps.begin(), barrier.warps.end(), w.index) == barrier.warps.end())
    barrier.warps.push_back(w.index);
  if (in.flags & kBarrierReduces) {
    check(w, in, in.c, group.mask);
    const std::uint32_t p = predicate(w, in.c) ^ (in.flags & kBarrierNegated ? kAllLanes : 0u);
    barrier.yes += static_cast<std::uint32_t>(std::popcount(p & group.mask));
    barrier.votes += static_cast<std::uint32_t>(std::popcount(group.mask));
  }
  if (in.flags & kBarrierArrive) {
    ++group.pc;
    w.groups.push_back(group);
  } else {
    w.groups.push_back({Group::State::at_barrier, group.pc, group.mask, number});
  }
  try_release(number);
  return false;
}

std::uint32_t BlockRunner::living() const {
  std::uint32_t count = 0;
  for (const Warp& w : block_.warps) count += static_cast<std::uint32_t>(std::popcount(w.alive));
  return count;
}

void BlockRunner::try_release(std::uint32_t number) {
  Barrier& barrier = block_.barriers[number];
  if (barrier.expected ? barrier.arrived < barrier.expected : barrier.arrived < living()) return;
  std::vector<std::uint32_t> waited;
  for (Warp& w : block_.warps) {
    bool here = false;
    const std::size_t count = w.groups.size();
    for (std::size_t i = 0; i < count; ++i) {
      Group& g = w.groups[i];
      if (g.state != Group::State::at_barrier || g.barrier != number) continue;
      here = true;
      const Instruction& in = kernel_.code[g.pc];
      if (in.flags & kBarrierReduces) {
        if (in.imm == 0) {
          for (std::uint32_t m = g.mask; m; m &= m - 1)
            row<std::uint32_t>(w, in.dst)[std::countr_zero(m)] = barrier.yes;
          written(w, in.dst, g.mask);
        } else {
          const bool answer = in.imm == 1 ? barrier.yes == barrier.votes : barrier.yes != 0;
          set_predicate(w, in.dst, answer ? kAllLanes : 0, g.mask);
        }
      }
      g.state = Group::State::runnable;
      ++g.pc;
      if (block_.independent_threads) {
        const Group whole = g;
        g.mask = whole.mask & ~(whole.mask - 1);
        for (std::uint32_t m = whole.mask & (whole.mask - 1); m; m &= m - 1)
          w.groups.push_back({Group::State::runnable, whole.pc, m & ~(m - 1), 0});
      }
    }
    if (here) waited.push_back(w.index);
  }
  if (barrier.expected == 0 || waited.size() == block_.warps.size())
    shared_.synchronise_block();
  else
    shared_.synchronise_warps(barrier.warps, waited);
  barrier = Barrier{};
}

void BlockRunner::report_deadlock() {
  const auto thread_name = [&](std::uint32_t thread) {
    return triple(thread % launch_.block.x, thread / launch_.block.x % launch_.block.y,
                  thread / launch_.block.x / launch_.block.y);
  };
  const auto where = [&](const Warp& w, std::uint32_t lane) -> std::string {
    if (!(w.alive >> lane & 1)) return "has exited";
    for (const Group& g : w.groups)
      if (g.mask >> lane & 1)
        return "waits at line " + std::to_string(kernel_.code[g.pc].line) + " (" +
               kernel_.mnemonic(g.pc) + ")";
    return "is elsewhere";
  };
  const Group* group = nullptr;
  const Warp* warp = nullptr;
  for (const Warp& w : block_.warps)
    for (const Group& g : w.groups)
      if (!group || (group->state == Group::State::at_barrier && g.state == Group::State::waiting))
        group = &g, warp = &w;
  if (!group) throw make_fault(FaultKind::barrier_divergence, "no thread of the block can go on");
  // Somebody who is not there: a lane of the same warp, or for a block barrier any living thread.
  std::string missing;
  for (const Warp& w : block_.warps) {
    if (group->state == Group::State::waiting && &w != warp) continue;
    for (std::uint32_t l = 0; l < 32 && missing.empty(); ++l) {
      if (!(w.alive >> l & 1)) continue;
      bool here = false;
      for (const Group& g : w.groups) here |= (g.mask >> l & 1) && g.pc == group->pc;
      if (!here) missing = ": thread " + thread_name(w.index * 32 + l) + " " + where(w, l);
    }
  }
  if (missing.empty()) {
    missing = ": fewer threads come than it names";
  }
  Fault f = make_fault(
      FaultKind::barrier_divergence,
      kernel_.mnemonic(group->pc) + " is never reached by all threads that it waits for" + missing);
  place(f, *warp, group->pc, static_cast<std::uint32_t>(std::countr_zero(group->mask)));
  throw f;
}

void BlockRunner::place(Fault& f, const Warp& w, std::uint32_t pc, std::uint32_t lane) const {
  const std::uint32_t thread = w.index * 32 + lane;
  f.add_place(", kernel " + launch_.module->kernels[launch_.kernel].name + ", line " +
              std::to_string(kernel_.code[pc].line) + ", block " +
              triple(block_.index[0], block_.index[1], block_.index[2]) + ", thread " +
              triple(thread % launch_.block.x, thread / launch_.block.x % launch_.block.y,
                     thread / launch_.block.x / launch_.block.y));
}

}  // namespace emulator
