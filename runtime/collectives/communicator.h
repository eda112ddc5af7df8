// Communicator: what ranks that train together need of each other. nccl/ is one; an embedder may
// bring its own by deriving from it: everything that it must do is `enqueue`.
//
// A rank is one member of the group, with one device. All ranks enqueue the same groups of calls in
// the same order; what they pass differs only in its bytes. Every call works in place. Sums are of
// the dtype: each addition rounds to it. The order of a sum is the communicator's (it says so); an
// average is the sum divided by the number of ranks.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "riffle/types.h"
#include "runtime/device.h"

namespace riffle::runtime {

enum class ReduceOp : std::uint8_t { sum, average, min, max };
std::string_view name_of(ReduceOp op) noexcept;

/// One collective. `data` are dense elements on the communicator's device (nullptr where there are
/// none), aligned to their size; it stays the caller's, and nothing else may touch it until the
/// stream is past the call.
struct CollectiveCall {
  enum class Kind : std::uint8_t {
    all_reduce,      ///< data[count]: every rank ends with the reduction of all ranks' data
    reduce_scatter,  ///< data[size × count]: rank r's block [r × count, (r+1) × count) ends with
                     ///< its reduction, the other blocks with anything
    all_gather,      ///< data[size × count]: every rank ends with all ranks' blocks
    broadcast,       ///< data[count]: every rank ends with root's
    barrier,         ///< no data: complete once every rank has come to it
  };
  Kind kind = Kind::all_reduce;
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::f32;  ///< not boolean
  ReduceOp op = ReduceOp::sum;
  int root = 0;
};
std::string_view name_of(CollectiveCall::Kind kind) noexcept;
/// "all_reduce(average, f32[1024])": what ranks must agree on.
std::string describe(const CollectiveCall& call);
/// Several, joined.
std::string describe(std::span<const CollectiveCall> group);

/// Used by one thread at a time, except for `abort` and `failure`.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual std::string_view name() const noexcept = 0;  ///< "nccl", …
  virtual int rank() const noexcept = 0;               ///< 0 … size() - 1
  virtual int size() const noexcept = 0;

  /// Enqueues the calls as one group: none of them is waited for before all have begun. Does not
  /// wait for compute; may wait for other ranks the first time, while connections are made. Of a
  /// communicator's streams the groups run in the order in which they were enqueued.
  ///
  /// A call that fails, on this rank or by what another does or does not do in bounded time, fails
  /// `stream` with a CommError: what was enqueued behind it, or waits for an event recorded behind
  /// it, does not run. After the first failure every call fails; make a new communicator. Throws
  /// UsageError for calls that cannot be (see check_calls), CommError once failed.
  virtual void enqueue(Stream& stream, std::span<const CollectiveCall> group,
                       const Command* command = nullptr) = 0;
  /// What is enqueued on `stream` from here on runs only if every group enqueued so far went well.
  /// Nothing to do where `enqueue` itself sees to that.
  virtual void settle(Stream& stream) { static_cast<void>(stream); }

  /// Ends what is in flight, here; its streams fail with `reason`, and later calls too. The other
  /// ranks find out by themselves. Any thread; does not wait.
  virtual void abort(std::string reason) noexcept = 0;
  /// The first failure, or nullptr. Any thread.
  virtual std::exception_ptr failure() const noexcept = 0;

  void all_reduce(Stream& stream, void* data, std::int64_t count, DType dtype, ReduceOp op,
                  const Command* command = nullptr);
  void reduce_scatter(Stream& stream, void* data, std::int64_t count, DType dtype, ReduceOp op,
                      const Command* command = nullptr);
  void all_gather(Stream& stream, void* data, std::int64_t count, DType dtype,
                  const Command* command = nullptr);
  void broadcast(Stream& stream, void* data, std::int64_t count, DType dtype, int root,
                 const Command* command = nullptr);
  void barrier(Stream& stream, const Command* command = nullptr);
};

/// For implementations: throws UsageError for a negative count, no data, a boolean dtype, a root
/// that is no rank.
void check_calls(std::span<const CollectiveCall> group, int size);

}  // namespace riffle::runtime
