// Shared memory of one block, with a shadow that knows for every byte who last wrote it and who
// read it since. Two accesses of different threads, one of them writing, need a barrier between
// them: bar.sync for the block, bar.warp.sync within a warp. shfl and vote order no memory.
//
// Time counts barriers. An access conflicts with an earlier one of thread t unless the accessing
// thread has synchronised with t since. A cell holds time and thread in 32 bits, so the usual
// answer, "before the last barrier of the block", is one comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulator/fault.h"

namespace emulator {

class SharedMemory {
 public:
  enum class Access : std::uint8_t { weak, strong };  ///< strong: atomic or volatile

  explicit SharedMemory(bool check_races) : check_races_(check_races) {}

  void begin_block(std::uint32_t bytes, std::uint32_t warps);
  std::uint32_t bytes() const { return bytes_; }

  // Each throws Fault. `thread` is the thread's number in its block.
  const std::byte* read(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                        std::uint32_t alignment, Access access);
  /// The caller then writes `value`: equal bytes written twice are no race.
  void write(std::uint32_t thread, std::uint64_t offset, std::uint32_t alignment,
             std::span<const std::byte> value, Access access);
  std::byte* update(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                    std::uint32_t alignment);
  /// cp.async: from `begin_copy` to `end_copy` nobody may touch the bytes.
  void begin_copy(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes);
  void end_copy(std::uint32_t thread, std::uint64_t offset, std::span<const std::byte> value);

  void synchronise_block();
  /// Some warps of the block; `arrived` ones released what they did, `waited` ones also acquired
  /// it.
  void synchronise_warps(std::span<const std::uint32_t> arrived,
                         std::span<const std::uint32_t> waited);
  void synchronise_lanes(std::uint32_t warp, std::uint32_t lanes, bool all);

 private:
  using Cell = std::uint32_t;  ///< time << kThreadBits | who
  static constexpr std::uint32_t kThreadBits = 11;
  static constexpr std::uint32_t kWho = (1u << kThreadBits) - 1;
  static constexpr std::uint32_t kManyOfWarp = 1024;  ///< + warp
  static constexpr std::uint32_t kMany = 1056, kStrong = 1057, kCopy = 1058;
  static constexpr std::uint32_t kLatest = (1u << (32 - kThreadBits)) - 1;

  std::byte* place(std::uint64_t offset, std::uint32_t bytes, std::uint32_t alignment) {
    if (offset > bytes_ || bytes > bytes_ - offset || (offset & (alignment - 1)) != 0) [[unlikely]]
      refuse(offset, bytes, alignment);
    return data_.data() + offset;
  }
  [[noreturn]] void refuse(std::uint64_t offset, std::uint32_t bytes,
                           std::uint32_t alignment) const;
  Cell cell(std::uint32_t who) const { return time_ << kThreadBits | who; }
  /// Time from which on an access of `who` is not yet ordered before `thread`'s.
  std::uint32_t known(std::uint32_t thread, std::uint32_t who) const;
  bool conflicts(std::uint32_t thread, Cell earlier, Access access) const;
  [[noreturn]] void race(std::uint32_t thread, Cell earlier, std::uint64_t offset, bool writing,
                         bool wrote) const;
  [[noreturn]] void pending(std::uint64_t offset) const;
  void check_read(std::uint32_t thread, std::uint64_t offset, std::uint32_t bytes,
                  Access access) const;
  void note_read(std::uint32_t thread, std::uint64_t offset, Access access);
  void check_write(std::uint32_t thread, std::uint64_t offset, Access access, bool same);
  void advance();

  bool check_races_;
  std::uint32_t copies_ = 0;  ///< cp.async under way
  std::uint32_t bytes_ = 0, warps_ = 0;
  std::uint32_t time_ = 1, block_began_ = 1, block_sync_ = 1;
  std::vector<std::byte> data_;
  std::vector<Cell> writers_, readers_;
  std::vector<std::uint32_t> warp_sync_;    ///< last time all lanes of a warp met
  std::vector<std::uint32_t> lane_clocks_;  ///< warp × lane × lane, empty until needed
  std::vector<std::uint32_t> warp_clocks_;  ///< warp × warp, empty until needed
};

}  // namespace emulator
