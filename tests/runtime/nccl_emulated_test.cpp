// The emulated NCCL through its own interface: the rules of calls, groups and handles. What its
// collectives compute is nccl_communicator_test.cpp's.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "runtime/collectives/nccl/communicator.h"
#include "runtime/collectives/nccl/library.h"
#include "runtime/cuda/device.h"
#include "tests/runtime/cuda_emulator.h"

namespace riffle::runtime::nccl {
namespace {

class NcclEmulated : public testing::Test {
 protected:
  void SetUp() override {
    emulator_.set("devices", "2");
    library_ = Library::load(RIFFLE_EMULATED_NCCL);
    for (int rank = 0; rank < 2; ++rank)
      devices_.push_back(make_cuda_device({}, {.device_index = rank, .emulated = true}));
  }
  void TearDown() override {
    devices_.clear();
    EXPECT_EQ(emulator_.leaks(), "");
    EXPECT_EQ(emulator_.problems(), "");
  }
  const NcclApi& api() const { return library_->api(); }
  UniqueId new_id() const {
    UniqueId id{};
    EXPECT_EQ(api().GetUniqueId(&id), kSuccess);
    return id;
  }
  /// Joins with that device current.
  Result join(CommHandle* comm, const UniqueId& id, int rank, int size, int device, int blocking) {
    Config config;
    config.blocking = blocking;
    Result code = kSuccess;
    cuda_with_context(*devices_[static_cast<std::size_t>(device)],
                      [&] { code = api().CommInitRankConfig(comm, size, id, rank, &config); });
    return code;
  }
  CommHandle alone(int blocking = 1) {
    CommHandle comm = nullptr;
    EXPECT_EQ(join(&comm, new_id(), 0, 1, 0, blocking), blocking ? kSuccess : kInProgress);
    return comm;
  }
  std::string last_error(CommHandle comm = nullptr) const { return api().GetLastError(comm); }
  Result state(CommHandle comm) const {
    Result state = kSuccess;
    EXPECT_EQ(api().CommGetAsyncError(comm, &state), kSuccess);
    return state;
  }
  Result settle(CommHandle comm) const {
    Result now = kInProgress;
    while ((now = state(comm)) == kInProgress) {
    }
    return now;
  }

  test::Emulator emulator_;
  std::shared_ptr<const Library> library_;
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_F(NcclEmulated, HandlesThatAreNotAlive) {
  CommHandle comm = alone();
  ASSERT_EQ(api().CommDestroy(comm), kSuccess);
  int size = 0;
  EXPECT_EQ(api().CommCount(comm, &size), kInvalidArgument);
  EXPECT_NE(last_error().find("has been destroyed"), std::string::npos) << last_error();
  EXPECT_EQ(api().CommAbort(comm), kInvalidArgument);
  EXPECT_EQ(api().CommCount(nullptr, &size), kInvalidArgument);
  EXPECT_NE(last_error().find("null"), std::string::npos) << last_error();
  EXPECT_EQ(api().CommCount(reinterpret_cast<CommHandle>(&size), &size), kInvalidArgument);
  EXPECT_NE(last_error().find("no communicator"), std::string::npos) << last_error();
}

TEST_F(NcclEmulated, ArgumentsThatCannotBe) {
  CommHandle comm = alone();
  const auto data = devices_[0]->allocate(64, "data");
  std::byte* const at = data->address();
  const auto refused = [&](Result code, std::string_view words) {
    EXPECT_EQ(code, kInvalidArgument);
    EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
  };
  refused(api().AllReduce(at, at, 4, 99, kSum, comm, nullptr), "type 99");
  refused(api().AllReduce(at, at, 4, kFloat32, 9, comm, nullptr), "operation 9");
  refused(api().AllReduce(nullptr, at, 4, kFloat32, kSum, comm, nullptr), "sendbuff is null");
  refused(api().AllReduce(at, nullptr, 4, kFloat32, kSum, comm, nullptr), "recvbuff is null");
  refused(api().AllReduce(at, at + 4, 4, kFloat32, kSum, comm, nullptr), "overlap");
  refused(api().Broadcast(at, at, 4, kFloat32, 1, comm, nullptr), "root 1 of 1");
  EXPECT_EQ(api().CommDestroy(comm), kSuccess);

  Config wrong;
  wrong.magic = 0;
  cuda_with_context(*devices_[0], [&] {
    EXPECT_EQ(api().CommInitRankConfig(&comm, 1, new_id(), 0, &wrong), kInvalidArgument);
  });
  EXPECT_EQ(join(&comm, UniqueId{}, 0, 1, 0, 1), kInvalidArgument);
}

TEST_F(NcclEmulated, NeedsACurrentContext) {
  CommHandle comm = nullptr;
  Config config;
  EXPECT_EQ(api().CommInitRankConfig(&comm, 1, new_id(), 0, &config), kUnhandledCudaError);
  EXPECT_NE(last_error().find("no CUDA context is current"), std::string::npos) << last_error();
}

TEST_F(NcclEmulated, ACommunicatorThatDoesNotBlockWantsToBeAsked) {
  CommHandle comm = alone(0);
  const auto data = devices_[0]->allocate(64, "data");
  std::byte* const at = data->address();
  const auto stream = devices_[0]->create_stream({"communication", false, 1});
  stream->fill(at, 0, 64, nullptr);
  stream->enqueue_native(
      [&](void* native) {
        EXPECT_EQ(settle(comm), kSuccess);
        EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, native), kInProgress);
        EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, native), kInvalidArgument);
        EXPECT_NE(last_error().find("before its previous call"), std::string::npos) << last_error();
        EXPECT_EQ(state(comm), kInProgress);
        EXPECT_EQ(settle(comm), kSuccess);
        EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, native), kInProgress);
      },
      nullptr);
  stream->synchronize();
  EXPECT_EQ(settle(comm), kSuccess);
  EXPECT_EQ(api().CommFinalize(comm), kInProgress);
  EXPECT_EQ(settle(comm), kSuccess);
  EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, nullptr), kInvalidUsage);
  EXPECT_EQ(api().CommDestroy(comm), kSuccess);
}

TEST_F(NcclEmulated, AGroupLetsOneThreadBeTwoRanks) {
  const UniqueId id = new_id();
  std::array<CommHandle, 2> comms{};
  ASSERT_EQ(api().GroupStart(), kSuccess);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(join(&comms[static_cast<std::size_t>(rank)], id, rank, 2, rank, 1), kSuccess);
  ASSERT_EQ(api().GroupEnd(), kSuccess);

  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    buffers.push_back(devices_[rank]->allocate(16, "data"));
    streams.push_back(devices_[rank]->create_stream({"communication", false, 1}));
    streams[rank]->fill(buffers[rank]->address(), static_cast<std::uint8_t>(rank + 1), 16, nullptr);
  }
  ASSERT_EQ(api().GroupStart(), kSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(api().AllReduce(buffers[rank]->address(), buffers[rank]->address(), 4, kInt32, kSum,
                              comms[rank], streams[rank]->native()),
              kSuccess);
  ASSERT_EQ(api().GroupEnd(), kSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::vector<std::byte> got(16);
    // The stream does not know of what was put on it behind its back: an event would not either.
    streams[rank]->copy(buffers[rank]->address(), buffers[rank]->address(), 16, nullptr);
    streams[rank]->synchronize();
    buffers[rank]->read(0, got);
    EXPECT_EQ(got, std::vector<std::byte>(16, std::byte{3}));
  }
  for (const CommHandle comm : comms) EXPECT_EQ(api().CommDestroy(comm), kSuccess);
}

TEST_F(NcclEmulated, GroupsThatBreakTheRules) {
  EXPECT_EQ(api().GroupEnd(), kInvalidUsage);
  EXPECT_NE(last_error().find("without ncclGroupStart"), std::string::npos) << last_error();

  CommHandle comm = alone(), other = nullptr;
  const auto data = devices_[0]->allocate(64, "data");
  std::byte* const at = data->address();
  ASSERT_EQ(api().GroupStart(), kSuccess);
  EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, nullptr), kSuccess);
  EXPECT_EQ(join(&other, new_id(), 0, 1, 1, 1), kInvalidUsage);
  EXPECT_EQ(api().GroupEnd(), kInvalidUsage);  // and nothing of it was started
  EXPECT_NE(last_error().find("both a collective and an initialisation"), std::string::npos)
      << last_error();
  EXPECT_EQ(other, nullptr);
  ASSERT_EQ(api().GroupStart(), kSuccess);
  EXPECT_EQ(api().AllReduce(at, at, 4, 99, kSum, comm, nullptr), kInvalidArgument);
  EXPECT_EQ(api().AllReduce(at, at, 4, kFloat32, kSum, comm, nullptr), kSuccess);
  EXPECT_EQ(api().GroupEnd(), kInvalidArgument);
  EXPECT_EQ(api().CommDestroy(comm), kSuccess);
}

TEST_F(NcclEmulated, TwoRanksOnOneDevice) {
  const UniqueId id = new_id();
  std::array<CommHandle, 2> comms{};
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(join(&comms[static_cast<std::size_t>(rank)], id, rank, 2, 0, 0), kInProgress);
  EXPECT_EQ(state(comms[0]), kInvalidUsage);
  EXPECT_NE(last_error(comms[0]).find("ranks 0 and 1 are both on device 0"), std::string::npos)
      << last_error(comms[0]);
  for (const CommHandle comm : comms) EXPECT_EQ(api().CommAbort(comm), kSuccess);
}

}  // namespace
}  // namespace riffle::runtime::nccl
