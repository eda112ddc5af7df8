// Start reading at NcclCommunicator::enqueue.
#include "runtime/collectives/nccl/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/collectives/nccl/watchdog.h"

namespace riffle::runtime {
namespace nccl {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), watchdog_(std::in_place, connection_) {}
  ~NcclCommunicator() override {
    watchdog_.reset();
    connection_->close();
  }

  std::string_view name() const noexcept override { return "nccl"; }
  int rank() const noexcept override { return connection_->rank(); }
  int size() const noexcept override { return connection_->size(); }

  void enqueue(Stream& stream, std::span<const CollectiveCall> group,
               const Command* command) override;
  void settle(Stream& stream) override {
    stream.host_call([connection = connection_] { connection->throw_if_failed(); }, nullptr);
  }
  void abort(std::string reason) noexcept override {
    connection_->fail(CommError({.what = std::move(reason), .where = connection_->place()}));
    watchdog_->wake();
  }
  std::exception_ptr failure() const noexcept override { return connection_->failure(); }

 private:
  void* barrier_memory(Stream& stream, std::span<const CollectiveCall> group);

  const std::shared_ptr<Connection> connection_;
  std::optional<Watchdog> watchdog_;  // ends before the connection is closed
  std::unique_ptr<Buffer> barrier_;
  std::uint64_t groups_ = 0;
};

void NcclCommunicator::enqueue(Stream& stream, std::span<const CollectiveCall> calls,
                               const Command* command) {
  check_calls(calls, size());
  connection_->throw_if_failed();
  if (calls.empty()) return;
  const std::shared_ptr<Group> group = watchdog_->fresh_group();
  group->calls.assign(calls.begin(), calls.end());
  group->number = ++groups_;
  void* const barrier = barrier_memory(stream, calls);
  stream.record(*group->begin);
  stream.enqueue_native([connection = connection_, group,
                         barrier](void* native) { connection->issue(*group, barrier, native); },
                        command);
  stream.record(*group->end);
  watchdog_->watch(group);
  if (connection_->options().check_each) settle(stream);
}

void* NcclCommunicator::barrier_memory(Stream& stream, std::span<const CollectiveCall> group) {
  bool needed = false;
  for (const CollectiveCall& call : group) needed |= call.kind == CollectiveCall::Kind::barrier;
  if (!needed) return nullptr;
  if (!barrier_) barrier_ = connection_->device().device->allocate(sizeof(int), "nccl barrier");
  stream.fill(barrier_->address(), 0, sizeof(int), nullptr);
  return barrier_->address();
}

std::shared_ptr<const Library> load(const NcclDevice& device, const NcclOptions& options) {
  return Library::load(options.library.empty() ? device.library : options.library);
}

}  // namespace
}  // namespace nccl

NcclId make_nccl_id(const NcclDevice& device, const NcclOptions& options) {
  const auto library = nccl::load(device, options);
  nccl::UniqueId unique{};
  if (const nccl::Result code = library->api().GetUniqueId(&unique); code != nccl::kSuccess)
    throw nccl::make_error(library->api(), nullptr, code, "ncclGetUniqueId", library->path());
  NcclId id;
  std::memcpy(id.data(), &unique, sizeof(unique));
  return id;
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclDevice& device, const NcclId& id,
                                                     int rank, int size,
                                                     const NcclOptions& options) {
  if (size < 1 || rank < 0 || rank >= size)
    throw UsageError({.what = fmt::format("there is no rank {} of {}", rank, size),
                      .hint = "ranks count from 0"});
  return std::make_unique<nccl::NcclCommunicator>(std::make_shared<nccl::Connection>(
      device, options, nccl::load(device, options), id, rank, size));
}

std::unique_ptr<Communicator> adopt_nccl_communicator(const NcclDevice& device, void* comm,
                                                      const NcclOptions& options) {
  if (!comm) throw UsageError({.what = "there is no ncclComm_t to work on"});
  return std::make_unique<nccl::NcclCommunicator>(std::make_shared<nccl::Connection>(
      device, options, nccl::load(device, options), static_cast<nccl::CommHandle>(comm)));
}

int nccl_version(const NcclDevice& device, const NcclOptions& options) {
  return nccl::load(device, options)->version();
}

}  // namespace riffle::runtime
