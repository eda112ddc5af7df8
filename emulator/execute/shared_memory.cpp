#include "emulator/execute/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "emulator/execute/warp.h"

namespace emulator {
namespace {
constexpr std::uint32_t kUninitialised = 0;
}

void SharedMemory::begin_block(std::uint32_t bytes, std::uint32_t warps) {
  bytes_ = bytes;
  warps_ = warps;
  if (data_.size() < bytes)
    data_.resize(bytes), writers_.resize(bytes, kUninitialised),
        readers_.resize(bytes, kUninitialised);
  if (time_ > kLatest / 2) {
    std::fill(writers_.begin(), writers_.end(), kUninitialised);
    std::fill(readers_.begin(), readers_.end(), kUninitialised);
    time_ = 0;
  }
  ++time_;
  block_began_ = block_sync_ = time_;
  warp_sync_.assign(warps, time_);
  lane_clocks_.clear();
  warp_clocks_.clear();
  copies_ = 0;
}

void SharedMemory::advance() {
  if (time_ < kLatest) {
    ++time_;
    return;
  }
  // Out of time: keep which bytes are initialised, forget who touched them. Races across this
  // moment go unseen.
  const std::uint32_t oldest = block_began_ << kThreadBits;
  for (Cell& c : writers_)
    c = c >= oldest ? ((c & kWho) == kCopy ? 2u << kThreadBits | kCopy : 1u << kThreadBits)
                    : kUninitialised;
  std::fill(readers_.begin(), readers_.end(), kUninitialised);
  block_began_ = 1;
  block_sync_ = 2;
  time_ = 3;
  std::fill(warp_sync_.begin(), warp_sync_.end(), 2);
  std::fill(lane_clocks_.begin(), lane_clocks_.end(), 2);
  std::fill(warp_clocks_.begin(), warp_clocks_.end(), 2);
}

void SharedMemory::refuse(std::uint64_t offset, std::uint32_t bytes,
                          std::uint32_t alignment) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw make_fault(FaultKind::illegal_address,
                     std::to_string(bytes) + " bytes at shared offset " + std::to_string(offset) +
                         " of " + std::to_string(bytes_) + " bytes of shared memory");
  throw make_fault(FaultKind::misaligned_address, "shared offset " + std::to_string(offset) +
                                                      " is not a multiple of " +
                                                      std::to_string(alignment));
}

std::uint32_t SharedMemory::known(std::uint32_t thread, std::uint32_t who) const {
  std::uint32_t result = block_sync_;
  const std::uint32_t warp = thread / 32;
  const std::uint32_t other = who < 1024 ? who / 32 : who < kMany ? who - kManyOfWarp : ~0u;
  if (other == warp) {
    result = std::max(result, warp_sync_[warp]);
    if (!lane_clocks_.empty()) {
      const std::uint32_t* mine = &lane_clocks_[(std::size_t{warp} * 32 + thread % 32) * 32];
      if (who < 1024)
        result = std::max(result, mine[who % 32]);
      else
        for (int i = 0; i < 32; ++i) result = std::max(result, mine[i]);
    }
  }
  if (!warp_clocks_.empty()) {
    const std::uint32_t* mine = &warp_clocks_[std::size_t{warp} * warps_];
    if (other < warps_)
      result = std::max(result, mine[other]);
    else if (other == ~0u)
      result = std::max(result, *std::max_element(mine, mine + warps_));
  }
  return result;
}

bool SharedMemory::conflicts(std::uint32_t thread, Cell earlier, Access access) const {
  if (earlier < block_sync_ << kThreadBits) return false;
  const std::uint32_t who = earlier & kWho;
  if (who == thread || (who == kStrong && access == Access::strong)) return false;
  return earlier >> kThreadBits >= known(thread, who);
}

void SharedMemory::race(std::uint32_t thread, Cell earlier, std::uint64_t offset, bool writing,
                        bool wrote) const {
  const std::uint32_t who = earlier & kWho;
  std::string other = who < 1024    ? "thread " + std::to_string(who)
                      : who < kMany ? "other threads of warp " + std::to_string(who - kManyOfWarp)
                      : who == kStrong ? "an atomic operation of another thread"
                                       : "other threads";
  throw make_fault(FaultKind::shared_race,
                   "thread " + std::to_string(thread) + (writing ? " writes" : " reads") +
                       " shared offset " + std::to_string(offset) + ", which " + other +
                       (wrote ? " wrote" : " read") + " with no barrier between");
}

void SharedMemory::pending(std::uint64_t offset) const {
  throw make_fault(FaultKind::asynchronous_copy,
                   "shared offset " + std::to_string(offset) +
                       " is the destination of a cp.async that nobody has waited for");
}

void SharedMemory::note_read(std::uint32_t thread, std::uint64_t offset, Access access) {
  Cell& reader = readers_[offset];
  const std::uint32_t who = access == Access::strong ? kStrong : thread;
  if (reader < block_sync_ << kThreadBits || (reader & kWho) == who) {
    reader = cell(who);
    return;
  }
  const std::uint32_t old = reader & kWho, warp = thread / 32;
  const std::uint32_t old_warp = old < 1024 ? old / 32 : old < kMany ? old - kManyOfWarp : ~0u;
  if (old_warp == warp && who < 1024)
    reader = reader >> kThreadBits < known(thread, old) ? cell(who) : cell(kManyOfWarp + warp);
  else
    reader = cell(kMany);
}

// Four cells at a time: a compiler makes one comparison of each line below.
using Cells = std::uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
static bool all(Cells mask) {
  const auto halves = reinterpret_cast<const std::uint64_t __attribute__((may_alias))*>(&mask);
  return (halves[0] & halves[1]) == ~std::uint64_t{0};
}

/// Everything else than: written in this block before its last barrier, no copy under way.
void SharedMemory::check_read(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                              Access access) const {
  const Cell oldest = block_began_ << kThreadBits;
  for (std::uint64_t i = offset; i < offset + bytes; ++i) {
    const Cell writer = writers_[i];
    if (writer < oldest)
      throw make_fault(FaultKind::uninitialised_memory,
                       "shared offset " + std::to_string(i) + " was never written");
    if ((writer & kWho) == kCopy) pending(i);
    if (check_races_ && conflicts(thread, writer, access)) race(thread, writer, i, false, true);
  }
}

const std::byte* SharedMemory::read(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                                    std::uint32_t alignment, Access access) {
  const std::byte* data = place(offset, bytes, alignment);
  if (bytes % 4 != 0 || access == Access::strong) {
    check_read(thread, offset, bytes, access);
    if (check_races_)
      for (std::uint32_t i = 0; i < bytes; ++i) note_read(thread, offset + i, access);
    return data;
  }
  const Cell oldest = block_began_ << kThreadBits, synchronised = block_sync_ << kThreadBits;
  const Cell mine = cell(thread), warps = cell(kManyOfWarp + thread / 32), many = cell(kMany);
  for (std::uint32_t i = 0; i < bytes; i += 4) {
    const Cells w = *reinterpret_cast<const Cells*>(&writers_[offset + i]);
    if (copies_ != 0 || !all((Cells)(w - oldest < synchronised - oldest)))
      check_read(thread, offset + i, 4, access);
    if (!check_races_) continue;
    Cells& r = *reinterpret_cast<Cells*>(&readers_[offset + i]);
    if (all((Cells)(r == mine) | (Cells)(r == warps) | (Cells)(r == many))) continue;
    if (all((Cells)(r < synchronised) | (Cells)((r & kWho) == thread))) {
      r = Cells{} + mine;
      continue;
    }
    const bool alike = all((Cells)(r == r[0]));
    note_read(thread, offset + i, access);
    if (alike) {
      r = Cells{} + r[0];
      continue;
    }
    for (std::uint32_t j = 1; j < 4; ++j) note_read(thread, offset + i + j, access);
  }
  return data;
}

void SharedMemory::check_write(std::uint32_t thread, std::uint64_t offset, Access access,
                               bool same) {
  const Cell writer = writers_[offset], reader = readers_[offset];
  if ((writer & kWho) == kCopy && writer >= block_began_ << kThreadBits) pending(offset);
  if (!check_races_) return;
  if (!same && conflicts(thread, writer, access)) race(thread, writer, offset, true, true);
  if (conflicts(thread, reader, access)) race(thread, reader, offset, true, false);
}

void SharedMemory::write(std::uint32_t thread, std::uint64_t offset, std::uint32_t alignment,
                         std::span<const std::byte> value, Access access) {
  const auto bytes = static_cast<std::uint32_t>(value.size());
  std::byte* data = place(offset, bytes, alignment);
  Cell *w = &writers_[offset], *r = &readers_[offset];
  const Cell synchronised = block_sync_ << kThreadBits,
             mine = cell(access == Access::strong ? kStrong : thread);
  bool plain = true;
  for (std::uint32_t i = 0; i < bytes; ++i)
    plain &= w[i] < synchronised && r[i] < synchronised && (w[i] & kWho) != kCopy;
  if (!plain)
    for (std::uint32_t i = 0; i < bytes; ++i)
      check_write(thread, offset + i, access, data[i] == value[i]);
  for (std::uint32_t i = 0; i < bytes; ++i) w[i] = mine;
  std::memcpy(data, value.data(), bytes);
}

std::byte* SharedMemory::update(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                                std::uint32_t alignment) {
  std::byte* data = place(offset, bytes, alignment);
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (writers_[offset + i] < block_began_ << kThreadBits)
      throw make_fault(FaultKind::uninitialised_memory,
                       "shared offset " + std::to_string(offset + i) + " was never written");
    check_write(thread, offset + i, Access::strong, false);
    writers_[offset + i] = cell(kStrong);
  }
  return data;
}

void SharedMemory::begin_copy(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes) {
  place(offset, bytes, bytes);
  for (std::uint32_t i = 0; i < bytes; ++i) {
    check_write(thread, offset + i, Access::weak, false);
    writers_[offset + i] = cell(kCopy);
  }
  ++copies_;
}

void SharedMemory::end_copy(std::uint32_t thread, std::uint64_t offset,
                            std::span<const std::byte> value) {
  --copies_;
  for (std::size_t i = 0; i < value.size(); ++i) writers_[offset + i] = cell(thread);
  std::memcpy(data_.data() + offset, value.data(), value.size());
}

void SharedMemory::synchronise_block() {
  advance();
  block_sync_ = time_;
}

void SharedMemory::synchronise_warps(std::span<const std::uint32_t> arrived,
                                     std::span<const std::uint32_t> waited) {
  if (warp_clocks_.empty()) warp_clocks_.assign(std::size_t{warps_} * warps_, block_sync_);
  advance();
  for (const std::uint32_t w : waited) {
    // Everything that those who arrived knew, and what they did themselves.
    for (const std::uint32_t a : arrived) {
      for (std::uint32_t i = 0; i < warps_; ++i) {
        std::uint32_t& mine = warp_clocks_[std::size_t{w} * warps_ + i];
        mine = std::max(mine, warp_clocks_[std::size_t{a} * warps_ + i]);
      }
      warp_clocks_[std::size_t{w} * warps_ + a] = time_;
    }
    warp_clocks_[std::size_t{w} * warps_ + w] = time_;
    warp_sync_[w] = time_;
  }
}

void SharedMemory::synchronise_lanes(std::uint32_t warp, std::uint32_t lanes, bool all) {
  advance();
  if (all) {
    warp_sync_[warp] = time_;
    return;
  }
  if (lane_clocks_.empty()) lane_clocks_.assign(std::size_t{warps_} * 1024, block_sync_);
  std::uint32_t* clocks = &lane_clocks_[std::size_t{warp} * 1024];
  std::uint32_t joined[32] = {};
  for (int i = 0; i < 32; ++i)
    if (lanes >> i & 1)
      for (int j = 0; j < 32; ++j)
        joined[j] = std::max(joined[j], (lanes >> j & 1) ? time_ : clocks[i * 32 + j]);
  for (int i = 0; i < 32; ++i)
    if (lanes >> i & 1) std::copy(joined, joined + 32, clocks + i * 32);
}

}  // namespace emulator
