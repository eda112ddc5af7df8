#include "emulator/nccl/exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>

#include "emulator/nccl/reduce.h"

namespace emulator::nccl {
namespace {

// A waiter looks this often whether those it waits for are still alive.
constexpr long kLookNanoseconds = 20'000'000;

/// Gone, or only waiting for its parent to notice.
bool is_dead(int pid) {
  if (pid == ::getpid()) return false;
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  char path[32], text[256] = {};
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t bytes = ::read(file, text, sizeof text - 1);
  ::close(file);
  const char* after_name = bytes > 0 ? std::strrchr(text, ')') : nullptr;
  return after_name && (after_name[2] == 'Z' || after_name[2] == 'X');
}

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "ncclAllReduce";
    case Operation::reduce_scatter:
      return "ncclReduceScatter";
    case Operation::all_gather:
      return "ncclAllGather";
    case Operation::broadcast:
      return "ncclBroadcast";
  }
  return "an unknown collective";
}

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

}  // namespace

// Fresh shared memory is zero, which is the right beginning for all of it.
struct alignas(64) Exchange::Rank {
  std::atomic<State> state;
  std::atomic<int> pid, device;
  std::atomic<std::uint64_t> posted, consumed;  // the last round put up, and read
};
struct Exchange::Header {
  std::atomic<std::uint32_t> pulse;  // futex: changes whenever anything else here does
  std::atomic<int> size, joined;
  Rank ranks[kMostRanks];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::string describe(const Descriptor& d) {
  std::string text = std::string(name_of(d.operation)) + "(count " + std::to_string(d.count) +
                     ", " + nccl::name_of(d.type);
  if (reduces(d.operation)) text += std::string(", ") + name_of_op(d.op);
  if (d.operation == Operation::broadcast) text += ", root " + std::to_string(d.root);
  return text + ")";
}

std::size_t bytes_in(const Descriptor& d, int size) {
  return d.count * size_of(d.type) * (d.operation == Operation::reduce_scatter ? size : 1);
}
std::size_t bytes_out(const Descriptor& d, int size) {
  return d.count * size_of(d.type) * (d.operation == Operation::all_gather ? size : 1);
}

std::string Exchange::new_name() {
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "/riffle-nccl-%d-%08x%08x", ::getpid(), random(), random());
  return name;
}

Exchange::Exchange(const std::string& name, int rank, int size, int device)
    : name_(name), rank_(rank), size_(size) {
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size)
    throw Problem{ncclInvalidArgument, rank_text(rank) + " of " + std::to_string(size) +
                                           " ranks cannot be; the emulator has at most " +
                                           std::to_string(kMostRanks)};
  const auto system_error = [&](const char* call) {
    const int code = errno;
    return Problem{ncclSystemError, std::string(call) + " of " + name + ": " + std::strerror(code)};
  };
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) throw system_error("shm_open");
  // Of the most that any number of ranks needs, so that all agree; untouched pages cost nothing.
  mapped_ = sizeof(Header) + kMostRanks * 2 * kSlotBytes;
  if (::ftruncate(file, static_cast<off_t>(mapped_)) != 0) {
    const Problem problem = system_error("ftruncate");
    ::close(file);
    throw problem;
  }
  void* memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw system_error("mmap");
  header_ = static_cast<Header*>(memory);
  slots_ = static_cast<std::byte*>(memory) + sizeof(Header);

  int agreed = 0;
  State absent = State::absent;
  std::string refused;
  if (!header_->size.compare_exchange_strong(agreed, size) && agreed != size)
    refused = rank_text(rank) + " joins " + std::to_string(size) + " ranks, another joined " +
              std::to_string(agreed);
  else if (!header_->ranks[rank].state.compare_exchange_strong(absent, State::joined))
    refused = rank_text(rank) + " has joined already";
  if (!refused.empty()) {
    ::munmap(memory, mapped_);
    throw Problem{ncclInvalidArgument, refused};
  }
  header_->ranks[rank].pid = ::getpid();
  header_->ranks[rank].device = device;
  // Whoever comes last takes the name away: the memory then ends with its last user.
  if (++header_->joined == size) ::shm_unlink(name.c_str());
  pulse();
}

Exchange::~Exchange() {
  leave(State::left);
  if (header_->joined < size_) ::shm_unlink(name_.c_str());
  ::munmap(header_, mapped_);
}

void Exchange::leave(State state) noexcept {
  State joined = State::joined;
  if (header_->ranks[rank_].state.compare_exchange_strong(joined, state)) pulse();
}

void Exchange::pulse() noexcept {
  ++header_->pulse;
  ::syscall(SYS_futex, &header_->pulse, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Exchange::wait_pulse(std::uint32_t seen) const noexcept {
  const timespec timeout{0, kLookNanoseconds};
  ::syscall(SYS_futex, &header_->pulse, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void Exchange::require_alive(int rank) const {
  const Rank& other = header_->ranks[rank];
  const auto gone = [&](const char* how) {
    throw Problem{ncclRemoteError,
                  rank_text(rank) + " " + how + " while " + rank_text(rank_) + " waits for it"};
  };
  switch (other.state.load()) {
    case State::left:
      return gone("has left the communicator");
    case State::aborted:
      return gone("has aborted the communicator");
    case State::dead:
      return gone("is dead");
    case State::absent:
      return;
    case State::joined:
      if (is_dead(other.pid)) gone("is dead: its process has ended");
  }
}

bool Exchange::complete() {
  if (header_->joined < size_) {
    for (int r = 0; r < size_; ++r) require_alive(r);
    return false;
  }
  for (int a = 0; a < size_; ++a)
    for (int b = 0; b < a; ++b)
      if (header_->ranks[a].pid == header_->ranks[b].pid &&
          header_->ranks[a].device == header_->ranks[b].device)
        throw Problem{ncclInvalidUsage, "ranks " + std::to_string(b) + " and " + std::to_string(a) +
                                            " are both on device " +
                                            std::to_string(header_->ranks[a].device)};
  return true;
}

bool Exchange::wait_complete(const std::atomic<bool>& stop) {
  for (;;) {
    const std::uint32_t seen = header_->pulse;
    if (complete()) return true;
    if (stop) return false;
    wait_pulse(seen);
  }
}

std::byte* Exchange::slot(int rank, std::uint64_t round) const noexcept {
  return slots_ + (static_cast<std::size_t>(rank) * 2 + round % 2) * kSlotBytes;
}

bool Exchange::wait_all(std::atomic<std::uint64_t> Rank::* counter, std::uint64_t target,
                        const std::atomic<bool>& stop) {
  for (;;) {
    const std::uint32_t seen = header_->pulse;
    bool all = true;
    for (int r = 0; r < size_; ++r) {
      if ((header_->ranks[r].*counter).load() >= target) continue;
      all = false;
      require_alive(r);
    }
    if (all) return true;
    if (stop) return false;
    wait_pulse(seen);
  }
}

bool Exchange::round(std::span<const std::byte> mine, const std::atomic<bool>& stop,
                     const Peek& peek) {
  const std::uint64_t now = ++round_;
  // The slot was last used two rounds ago.
  if (now > 2 && !wait_all(&Rank::consumed, now - 2, stop)) return false;
  if (!mine.empty()) std::memcpy(slot(rank_, now), mine.data(), mine.size());
  header_->ranks[rank_].posted = now;
  pulse();
  if (!wait_all(&Rank::posted, now, stop)) return false;
  for (int r = 0; r < size_; ++r) peek(r, slot(r, now));
  header_->ranks[rank_].consumed = now;
  pulse();
  return true;
}

bool Exchange::collective(const Descriptor& mine, std::byte* data, const std::atomic<bool>& stop) {
  std::vector<Descriptor> all(size_);
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(&mine), sizeof mine};
  if (!round(bytes, stop,
             [&](int r, const std::byte* at) { std::memcpy(&all[r], at, sizeof mine); }))
    return false;
  for (int r = 1; r < size_; ++r)
    if (all[r] != all[0])
      throw Problem{ncclInvalidUsage, "the ranks' collectives differ: rank 0 is at number " +
                                          std::to_string(all[0].number) + ", " + describe(all[0]) +
                                          ", " + rank_text(r) + " at number " +
                                          std::to_string(all[r].number) + ", " + describe(all[r])};

  const std::size_t element = size_of(mine.type);
  const std::size_t piece = kSlotBytes / element;
  std::vector<const std::byte*> from(size_);
  const Peek note = [&](int r, const std::byte* at) { from[r] = at; };
  switch (mine.operation) {
    case Operation::all_reduce:
      for (std::size_t i = 0; i < mine.count; i += piece) {
        const std::size_t n = std::min(piece, mine.count - i);
        std::byte* const at = data + i * element;
        // Reduced while the slots are still this round's: the last rank's turn to be shown.
        if (!round({at, n * element}, stop, [&](int r, const std::byte* bytes_of) {
              note(r, bytes_of);
              if (r == size_ - 1) reduce(from, at, n, mine.type, mine.op);
            }))
          return false;
      }
      return true;
    case Operation::reduce_scatter: {
      std::vector<std::byte> result(bytes_out(mine, size_));
      for (int block = 0; block < size_; ++block)
        for (std::size_t i = 0; i < mine.count; i += piece) {
          const std::size_t n = std::min(piece, mine.count - i);
          const std::byte* const at = data + (block * mine.count + i) * element;
          if (!round({at, n * element}, stop, [&](int r, const std::byte* bytes_of) {
                note(r, bytes_of);
                if (r == size_ - 1 && block == rank_)
                  reduce(from, result.data() + i * element, n, mine.type, mine.op);
              }))
            return false;
        }
      if (!result.empty()) std::memcpy(data, result.data(), result.size());
      return true;
    }
    case Operation::all_gather: {
      const std::vector<std::byte> given(data, data + bytes_in(mine, size_));
      for (std::size_t i = 0; i < mine.count; i += piece) {
        const std::size_t n = std::min(piece, mine.count - i);
        if (!round({given.data() + i * element, n * element}, stop,
                   [&](int r, const std::byte* bytes_of) {
                     std::memcpy(data + (r * mine.count + i) * element, bytes_of, n * element);
                   }))
          return false;
      }
      return true;
    }
    case Operation::broadcast:
      for (std::size_t i = 0; i < mine.count; i += piece) {
        const std::size_t n = std::min(piece, mine.count - i);
        std::byte* const at = data + i * element;
        std::span<const std::byte> put;
        if (rank_ == mine.root) put = {at, n * element};
        if (!round(put, stop, [&](int r, const std::byte* bytes_of) {
              if (r == mine.root && rank_ != mine.root) std::memcpy(at, bytes_of, n * element);
            }))
          return false;
      }
      return true;
  }
  return true;
}

}  // namespace emulator::nccl
