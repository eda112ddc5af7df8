// Serialises the atomics of one launch's workers, by address.
#pragma once

#include <cstdint>
#include <mutex>

namespace emulator {

class AtomicLocks {
 public:
  class Hold {
   public:
    Hold(AtomicLocks& locks, std::uint64_t address) : lock_(locks.locks_[address / 16 % kLocks]) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };

 private:
  static constexpr std::uint64_t kLocks = 64;
  std::mutex locks_[kLocks];
};

}  // namespace emulator
