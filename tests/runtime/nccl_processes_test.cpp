// The NCCL communicator between processes: this program, started again for one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/collectives/nccl/communicator.h"
#include "runtime/cuda/device.h"

namespace riffle::runtime {
namespace {

using namespace std::chrono_literals;

constexpr char kChildId[] = "RIFFLE_NCCL_TEST_ID", kChildRank[] = "RIFFLE_NCCL_TEST_RANK",
               kVictimPipe[] = "RIFFLE_NCCL_TEST_VICTIM_PIPE";

/// What a child does: nothing, unless NcclProcesses started it with these variables.
TEST(NcclProcess, Rank) {
  const char* hex = std::getenv(kChildId);
  const char* number = std::getenv(kChildRank);
  const char* victim = std::getenv(kVictimPipe);
  if (!hex || !number) return;
  NcclId id{};
  for (std::size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<std::byte>(std::stoi(std::string(hex + 2 * i, 2), nullptr, 16));
  const int rank = std::atoi(number);
  const auto device = make_cuda_device({}, {.emulated = true});
  const auto data = device->allocate(64, "data");
  const auto stream = device->create_stream({"communication", false, 1});
  const auto communicator =
      make_nccl_communicator(nccl_device(*device), id, rank, 2, {.timeout = 20s});
  for (int round = 0; round < 3; ++round) {
    stream->fill(data->address(), static_cast<std::uint8_t>(rank + 1), 64, nullptr);
    communicator->all_reduce(*stream, data->address(), 16, DType::i32, ReduceOp::sum);
    stream->synchronize();
    std::vector<std::byte> sums(64);
    data->read(0, sums);
    EXPECT_EQ(sums, std::vector<std::byte>(64, std::byte{3}));
  }
  if (victim && rank == 1) {  // is killed here
    ASSERT_EQ(::write(std::atoi(victim), "x", 1), 1);
    for (;;) ::pause();
  }
  communicator->barrier(*stream);
  const Failure failure = stream->drain(nullptr);
  if (!victim) {
    if (failure) std::rethrow_exception(failure.error);
    return;
  }
  ASSERT_TRUE(failure);
  try {
    std::rethrow_exception(failure.error);
  } catch (const CommError& error) {
    EXPECT_NE(std::string_view(error.what()).find("rank 1 is dead"), std::string_view::npos)
        << error.what();
  }
}

class NcclProcesses : public testing::Test {
 protected:
  /// Starts rank `rank`; its process.
  static pid_t start(const NcclId& id, int rank, int victim_pipe = -1) {
    std::string hex;
    for (const std::byte byte : id) hex += fmt::format("{:02x}", static_cast<int>(byte));
    std::vector<std::string> environment = {std::string(kChildId) + "=" + hex,
                                            std::string(kChildRank) + "=" + std::to_string(rank)};
    if (victim_pipe >= 0)
      environment.push_back(std::string(kVictimPipe) + "=" + std::to_string(victim_pipe));
    std::vector<char*> variables;
    for (char** one = environ; *one; ++one) variables.push_back(*one);
    for (std::string& one : environment) variables.push_back(one.data());
    variables.push_back(nullptr);
    std::vector<std::string> arguments = {"riffle_runtime_test", "--gtest_filter=NcclProcess.Rank",
                                          "--gtest_brief=1"};
    std::vector<char*> pointers;
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    pid_t child = 0;
    EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers.data(),
                            variables.data()),
              0);
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  static NcclId new_id() { return make_nccl_id({}, {.library = RIFFLE_EMULATED_NCCL}); }
};

TEST_F(NcclProcesses, TwoOfThemSum) {
  const NcclId id = new_id();
  const pid_t children[] = {start(id, 0), start(id, 1)};
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

TEST_F(NcclProcesses, AKilledOneIsNamedByTheOther) {
  const NcclId id = new_id();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t first = start(id, 0, ends[1]), victim = start(id, 1, ends[1]);
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "the victim ended before its time";
  ::close(ends[0]);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(wait_for(victim)));
  EXPECT_EQ(wait_for(first), 0);
}

}  // namespace
}  // namespace riffle::runtime
