// Scheduling. A warp's lanes that stand at one pc are a *group* and run side by side; a branch may
// split a group, and groups that meet at a pc merge (the lowest pc runs first, so that they do). A
// warp runs until it can do nothing else, then the next one does. How threads wait for each other
// is in run_block_waits.cpp. Start reading at BlockRunner::run.
#include "emulator/execute/run_block.h"

#include <algorithm>
#include <bit>

#include "emulator/execute/atomic_locks.h"

namespace emulator {
namespace {

constexpr std::uint64_t kQuantum = 1u << 20;  ///< instructions before another warp gets its turn
constexpr std::uint32_t kPatience = 2000;     ///< loops while another group of the warp could run
constexpr std::uint64_t kRotated = 4096;      ///< instructions of the other group then

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

template <class T>
void fill(std::byte* to, std::uint64_t value) {
  for (int l = 0; l < 32; ++l) reinterpret_cast<T*>(to)[l] = static_cast<T>(value);
}

}  // namespace

Row extra_row(const Warp& w, const Instruction& in, std::uint32_t i) {
  return w.block->kernel->rows[in.target + i];
}

Fault make_fault(FaultKind kind, const std::string& what) {
  return Fault(kind, std::string(name(kind)) + ": " + what);
}

void fault(Warp& w, std::uint32_t lanes, FaultKind kind, const std::string& what) {
  if (lanes) w.fault_lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
  throw make_fault(kind, what);
}

void fault_uninitialised(Warp& w, const Instruction& in, Row r, std::uint32_t lanes) {
  const auto index = static_cast<std::size_t>(&in - w.block->kernel->code.data());
  (void)r;
  fault(w, lanes, FaultKind::uninitialised_register,
        w.block->kernel->mnemonic(index) + " reads a register that was never written");
}

BlockRunner::BlockRunner(const Launch& launch, const ExecuteOptions& options, LaunchMemory& memory,
                         AtomicLocks& atomics)
    : kernel_(*launch.module->bodies[launch.kernel]),
      launch_(launch),
      shared_(options.check_shared_races),
      seed_(options.seed) {
  block_.kernel = &kernel_;
  block_.launch = &launch_;
  block_.memory = &memory;
  block_.shared = &shared_;
  block_.atomics = &atomics;
  block_.threads = launch.block.x * launch.block.y * launch.block.z;
  block_.independent_threads = options.independent_threads;
  block_.instruction_limit = options.instruction_limit;
  const std::size_t warps = (block_.threads + 31) / 32;
  files_.resize(warps * kernel_.file_bytes + 64);
  const std::size_t misalignment = (64 - reinterpret_cast<std::uintptr_t>(files_.data()) % 64) % 64;
  init_.resize(warps * kernel_.slots);
  local_.resize(warps * 32 * kernel_.local_bytes);
  local_init_.resize(local_.size());
  block_.warps.resize(warps);
  for (std::size_t i = 0; i < warps; ++i) {
    Warp& w = block_.warps[i];
    w.file = files_.data() + misalignment + i * kernel_.file_bytes;
    w.init = init_.data() + i * kernel_.slots;
    w.local = local_.data() + i * 32 * kernel_.local_bytes;
    w.local_init = local_init_.data() + i * 32 * kernel_.local_bytes;
    w.block = &block_;
    w.index = static_cast<std::uint32_t>(i);
    w.seed = options.seed;
    order_.push_back(w.index);
  }
  first_init_.assign(kernel_.slots, 0);
  for (const FixedRow& fixed : kernel_.fixed) first_init_[fixed.row.slot] = kAllLanes;
  fill_fixed(true);
}

std::uint64_t BlockRunner::fixed_value(const FixedRow& fixed, const Warp& w,
                                       std::uint32_t lane) const {
  using ptx::Special;
  const std::uint32_t thread = w.index * 32 + lane;
  const Dim3 &b = launch_.block, &g = launch_.grid;
  switch (fixed.special) {
    case Special::tid_x:
      return thread % b.x;
    case Special::tid_y:
      return thread / b.x % b.y;
    case Special::tid_z:
      return thread / b.x / b.y;
    case Special::ntid_x:
      return b.x;
    case Special::ntid_y:
      return b.y;
    case Special::ntid_z:
      return b.z;
    case Special::ctaid_x:
      return block_.index[0];
    case Special::ctaid_y:
      return block_.index[1];
    case Special::ctaid_z:
      return block_.index[2];
    case Special::nctaid_x:
      return g.x;
    case Special::nctaid_y:
      return g.y;
    case Special::nctaid_z:
      return g.z;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return w.index;
    case Special::nwarpid:
      return block_.warps.size();
    case Special::lanemask_eq:
      return 1u << lane;
    case Special::lanemask_lt:
      return (1u << lane) - 1;
    case Special::lanemask_le:
      return (2ull << lane) - 1;
    case Special::lanemask_gt:
      return ~((2ull << lane) - 1);
    case Special::lanemask_ge:
      return ~((1ull << lane) - 1);
    case Special::warp_size:
      return 32;
    case Special::nsmid:
      return 1;
    case Special::dynamic_smem_size:
      return launch_.dynamic_shared_bytes;
    case Special::total_smem_size:
      return std::uint64_t{kernel_.static_shared_bytes} + launch_.dynamic_shared_bytes;
    case Special::cluster_size_x:
      return 1;
    default:
      return 0;
  }
}

void BlockRunner::fill_fixed(bool first) {
  for (const FixedRow& fixed : kernel_.fixed) {
    const bool special = fixed.kind == FixedRow::Kind::special;
    const bool moves =
        special && fixed.special >= ptx::Special::ctaid_x && fixed.special <= ptx::Special::ctaid_z;
    if (!first && !moves) continue;
    std::uint64_t value = fixed.bits;
    if (fixed.kind == FixedRow::Kind::variable) {
      const auto found = launch_.variables ? launch_.variables->find(fixed.variable)
                                           : decltype(launch_.variables->find(""))();
      if (!launch_.variables || found == launch_.variables->end())
        throw make_fault(FaultKind::illegal_instruction,
                         "variable " + fixed.variable + " has no address");
      value += found->second;
    }
    for (Warp& w : block_.warps) {
      std::byte* to = w.file + fixed.row.offset;
      if (fixed.width == 0) {
        *reinterpret_cast<std::uint32_t*>(to) = value ? kAllLanes : 0;
        continue;
      }
      if (special) {
        for (std::uint32_t l = 0; l < 32; ++l) {
          value = fixed_value(fixed, w, l);
          std::memcpy(to + std::size_t{l} * fixed.width, &value, fixed.width);
        }
        continue;
      }
      switch (fixed.width) {
        case 1:
          fill<std::uint8_t>(to, value);
          break;
        case 2:
          fill<std::uint16_t>(to, value);
          break;
        case 4:
          fill<std::uint32_t>(to, value);
          break;
        default:
          fill<std::uint64_t>(to, value);
      }
    }
  }
}

void BlockRunner::run(std::uint64_t number) {
  block_.index[0] = static_cast<std::uint32_t>(number % launch_.grid.x);
  block_.index[1] = static_cast<std::uint32_t>(number / launch_.grid.x % launch_.grid.y);
  block_.index[2] = static_cast<std::uint32_t>(number / launch_.grid.x / launch_.grid.y);
  fill_fixed(false);
  shared_.begin_block(kernel_.static_shared_bytes + launch_.dynamic_shared_bytes,
                      static_cast<std::uint32_t>(block_.warps.size()));
  std::fill(local_init_.begin(), local_init_.end(), std::byte{0});
  for (Barrier& barrier : block_.barriers) barrier = Barrier{};
  for (Warp& w : block_.warps) {
    std::copy(first_init_.begin(), first_init_.end(), w.init);
    const std::uint32_t count = std::min(32u, block_.threads - w.index * 32);
    w.alive = count == 32 ? kAllLanes : (1u << count) - 1;
    w.carry = 0;
    w.copies.clear();
    std::fill(std::begin(w.committed), std::end(w.committed), 0);
    std::fill(std::begin(w.executed), std::end(w.executed), 0);
    w.retry = w.rotate = false;
    w.groups.clear();
    if (!block_.independent_threads) {
      w.groups.push_back({Group::State::runnable, 0, w.alive, 0});
    } else {
      for (std::uint32_t l = 0; l < count; ++l)
        w.groups.push_back({Group::State::runnable, 0, 1u << l, 0});
    }
  }
  if (seed_ != 0)
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[mix(seed_ + number * 1024 + i) % i]);
  for (;;) {
    bool progress = false, done = true;
    for (const std::uint32_t i : order_) {
      Warp& w = block_.warps[i];
      if (w.alive == 0) continue;
      progress |= run_warp(w);
      done &= w.alive == 0;
    }
    if (done) return;
    if (!progress) report_deadlock();
  }
}

bool BlockRunner::choose(Warp& w, Group& chosen, std::uint32_t& stop_pc) {
  std::vector<Group>& groups = w.groups;
  for (;;) {
    if (!block_.independent_threads) {
      for (std::size_t i = 0; i < groups.size(); ++i) {
        if (groups[i].state != Group::State::runnable) continue;
        for (std::size_t j = groups.size(); j-- > i + 1;) {
          if (groups[j].state != Group::State::runnable || groups[j].pc != groups[i].pc) continue;
          groups[i].mask |= groups[j].mask;
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(j));
        }
      }
    }
    std::size_t best = groups.size();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].state != Group::State::runnable) continue;
      if (best == groups.size() ||
          (w.rotate ? groups[i].pc > groups[best].pc : groups[i].pc < groups[best].pc))
        best = i;
    }
    if (best == groups.size()) {
      if (!w.retry) return false;
      w.retry = false;
      for (Group& g : groups)
        if (g.state == Group::State::waiting) g.state = Group::State::runnable;
      if (groups.empty()) return false;
      continue;
    }
    chosen = groups[best];
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(best));
    stop_pc = ~0u;
    if (!block_.independent_threads && !w.rotate)
      for (const Group& g : groups)
        if (g.state == Group::State::runnable) stop_pc = std::min(stop_pc, g.pc);
    return true;
  }
}

bool BlockRunner::run_warp(Warp& w) {
  const std::uint64_t before = executed_in_pass_;
  Group group;
  std::uint32_t stop_pc = 0;
  while (executed_in_pass_ - before < kQuantum && choose(w, group, stop_pc))
    run_group(w, group, stop_pc);
  return executed_in_pass_ != before;
}

void BlockRunner::run_group(Warp& w, Group group, std::uint32_t stop_pc) {
  const Instruction* const code = kernel_.code.data();
  const Guard* const guards = kernel_.guards.data();
  const bool rotated = w.rotate;
  w.rotate = false;
  std::uint64_t budget = rotated ? kRotated : kQuantum, executed = 0;
  std::uint32_t patience = kPatience;
  std::uint32_t began = group.mask;  // whom `executed` counts for
  if (block_.instruction_limit)
    for (std::uint32_t l = 0; l < 32; ++l)
      if (group.mask >> l & 1)
        budget = std::min(
            budget, block_.instruction_limit - std::min(block_.instruction_limit, w.executed[l]));
  const auto account = [&](std::uint32_t mask) {
    for (std::uint32_t l = 0; l < 32; ++l) w.executed[l] += (mask >> l & 1) ? executed : 0;
    instructions_ += executed * static_cast<std::uint64_t>(std::popcount(mask));
    executed_in_pass_ += executed;
  };
  const auto put_back = [&] { w.groups.push_back(group); };
  try {
    for (;;) {
      if (executed >= budget) [[unlikely]] {
        account(began);
        put_back();
        if (block_.instruction_limit)
          for (std::uint32_t l = 0; l < 32; ++l)
            if ((group.mask >> l & 1) && w.executed[l] >= block_.instruction_limit)
              fault(w, 1u << l, FaultKind::stuck,
                    "more than " + std::to_string(block_.instruction_limit) + " instructions");
        return;
      }
      ++executed;
      const Instruction& in = code[group.pc];
      std::uint32_t mask = group.mask;
      if (in.guard != ~0u) {
        const Guard& guard = guards[in.guard];
        check(w, in, guard.row, mask);
        mask &= predicate(w, guard.row) ^ (guard.negated ? kAllLanes : 0u);
      }
      if (in.control == Control::plain) {
        if (mask) in.handler(w, in, mask);
        ++group.pc;
      } else if (mask == 0) {
        ++group.pc;
      } else {
        // What follows may divide the group: lanes that do not take part go on alone.
        const auto leave = [&] {
          if (mask == group.mask) return;
          w.groups.push_back({Group::State::runnable, group.pc + 1, group.mask & ~mask, 0});
          stop_pc = block_.independent_threads ? ~0u : std::min(stop_pc, group.pc + 1);
          account(began);
          budget -= executed;
          executed = 0;
          began = group.mask = mask;
        };
        switch (in.control) {
          case Control::plain:
            break;
          case Control::branch:
            leave();
            if (in.target <= group.pc && !w.groups.empty() && --patience == 0) {
              w.rotate = true;
              group.pc = in.target;
              account(began);
              put_back();
              return;
            }
            group.pc = in.target;
            break;
          case Control::branch_indexed: {
            leave();
            check(w, in, in.a, mask);
            const std::uint32_t* index = row<std::uint32_t>(w, in.a);
            for (std::uint32_t rest = mask; rest;) {
              const auto l = static_cast<std::uint32_t>(std::countr_zero(rest));
              if (index[l] >= static_cast<std::uint64_t>(in.imm))
                fault(w, 1u << l, FaultKind::illegal_instruction,
                      "brx.idx has no target " + std::to_string(index[l]));
              std::uint32_t same = 0;
              for (std::uint32_t m = rest; m; m &= m - 1)
                if (index[std::countr_zero(m)] == index[l]) same |= m & ~(m - 1);
              w.groups.push_back(
                  {Group::State::runnable, kernel_.targets[in.target + index[l]], same, 0});
              rest &= ~same;
            }
            account(began);
            return;
          }
          case Control::exit:
            leave();
            w.alive &= ~mask;
            w.retry = true;
            account(began);
            for (std::uint32_t i = 0; i < 16; ++i)
              if (block_.barriers[i].arrived) try_release(i);
            return;
          case Control::trap:
            fault(w, mask, FaultKind::trap, "trap");
          case Control::warp_operation:
            leave();
            account(began);
            budget -= executed;
            executed = 0;
            if (!warp_operation(w, group, in)) return;
            began = group.mask;
            break;
          case Control::block_barrier:
            leave();
            if (!block_barrier(w, group, in)) {
              account(began);
              return;
            }
            break;
        }
      }
      if (group.pc >= stop_pc) {
        account(began);
        put_back();
        return;
      }
    }
  } catch (Fault& f) {
    place(f, w, group.pc, w.fault_lane);
    throw;
  }
}

}  // namespace emulator
