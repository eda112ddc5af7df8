// Exchange: how the ranks of one communicator meet, in one process or several: a block of shared
// memory named by the unique id, with a state and two slots of data for each rank, and a futex.
//
// Everything happens in rounds, numbered alike on all ranks. In a round each rank puts some bytes
// into its slot and then reads those of the others; slots alternate, so that a rank may be one
// round ahead. A collective begins with a round in which the ranks exchange what they are about to
// do, and goes on only if that is the same; then its data follow in pieces. Start at collective().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "emulator/nccl/abi.h"

namespace emulator::nccl {

constexpr int kMostRanks = 64;
constexpr std::size_t kSlotBytes = 256 * 1024;

/// What went wrong, for ncclGetLastError.
struct Problem {
  ncclResult_t code = ncclSuccess;
  std::string text;
};

enum class Operation : std::int32_t { all_reduce, reduce_scatter, all_gather, broadcast };

/// One collective, as ranks must agree on it.
struct Descriptor {
  std::uint64_t number = 0;  ///< of the communicator, from 1
  std::uint64_t count = 0;   ///< elements, as the call counts them
  Operation operation = Operation::all_reduce;
  ncclDataType_t type = 0;
  ncclRedOp_t op = 0;     ///< reductions
  std::int32_t root = 0;  ///< broadcasts
  bool operator==(const Descriptor&) const = default;
};
/// "ncclAllReduce(count 8, float32, sum)".
std::string describe(const Descriptor& descriptor);
/// Bytes that a rank gives and gets.
std::size_t bytes_in(const Descriptor& descriptor, int size);
std::size_t bytes_out(const Descriptor& descriptor, int size);

class Exchange {
 public:
  /// Joins as `rank` of `size` on `device`. Does not wait for others. Throws Problem.
  Exchange(const std::string& name, int rank, int size, int device);
  ~Exchange();  ///< leaves
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  static std::string new_name();

  /// Have all ranks joined? Throws Problem when they cannot go together.
  bool complete();
  /// Blocks until then, or until `stop`.
  bool wait_complete(const std::atomic<bool>& stop);

  /// Takes part in the collective; `data` has room for the larger of what is given and what is got:
  /// the one at the beginning, then the other. Blocks. False: `stop` was set. Throws Problem.
  bool collective(const Descriptor& descriptor, std::byte* data, const std::atomic<bool>& stop);

  enum class State : std::uint32_t { absent, joined, left, aborted, dead };
  /// Tells the others what has become of this rank.
  void leave(State state) noexcept;

 private:
  struct Rank;
  struct Header;
  using Peek = std::function<void(int rank, const std::byte* bytes)>;

  std::byte* slot(int rank, std::uint64_t round) const noexcept;
  /// Puts `mine` up, then shows every rank's bytes to `peek`.
  bool round(std::span<const std::byte> mine, const std::atomic<bool>& stop, const Peek& peek);
  bool wait_all(std::atomic<std::uint64_t> Rank::* counter, std::uint64_t target,
                const std::atomic<bool>& stop);
  void require_alive(int rank) const;
  void pulse() noexcept;
  void wait_pulse(std::uint32_t seen) const noexcept;

  const std::string name_;
  const int rank_, size_;
  Header* header_ = nullptr;
  std::byte* slots_ = nullptr;
  std::size_t mapped_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace emulator::nccl
