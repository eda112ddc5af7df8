// Data parallelism in small: two sessions, each on an emulated device of its own, whose gradients a
// stream hook averages through the emulated NCCL.
#include "jit/gradient_hook.h"

#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <thread>

#include "jit/session.h"
#include "riffle/riffle.h"
#include "runtime/collectives/nccl/communicator.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/support/source_folder.h"

namespace riffle::test {
namespace {

constexpr int kRanks = 2, kSteps = 3;

SessionOptions options(int rank) {
  return {.device = "cuda-emulated:" + std::to_string(rank), .threads = 1, .cache_directory = ""};
}

Executable compiled(Session& session, int rank) {
  const Graph graph = Graph::load(source_folder() + "/examples/graph_break_small.rfl");
  Executable executable = session.compile(graph, {.split = "nodes 3"});
  executable.init(0);
  // The same parameters, another batch.
  HostTensor x = executable.get("x");
  std::vector<float> values(x.as<float>().begin(), x.as<float>().end());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.25F * static_cast<float>(rank);
  executable.set("x", HostTensor::from<float>(x.type, values));
  return executable;
}

std::vector<std::string> with_prefix(const Executable& executable, std::string_view prefix) {
  std::vector<std::string> names = executable.names();
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

using Tensors = std::map<std::string, std::vector<std::byte>>;
Tensors all(const Executable& executable, std::string_view prefix) {
  Tensors tensors;
  for (const std::string& name : with_prefix(executable, prefix))
    tensors[name] = executable.get(name).bytes;
  return tensors;
}

class GradientHook : public testing::Test {
 protected:
  void SetUp() override { emulator_.set("devices", std::to_string(kRanks)); }
  void TearDown() override { EXPECT_EQ(emulator_.problems(), ""); }

  /// Runs `body` as each rank, with a communicator.
  template <typename Body>
  void run(Body body, runtime::NcclOptions options = {}) {
    runtime::NcclId id{};
    {
      Session session(test::options(0));
      id = make_nccl_id(runtime::nccl_device(jit::device(session)));
    }
    std::vector<std::exception_ptr> errors(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Session session(test::options(rank));
          const std::shared_ptr<runtime::Communicator> communicator = make_nccl_communicator(
              runtime::nccl_device(jit::device(session)), id, rank, kRanks, options);
          Executable executable = compiled(session, rank);
          executable.add_hook(jit::all_reduce_hook(communicator));
          body(rank, executable, *communicator);
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

  runtime::test::Emulator emulator_;
};

TEST_F(GradientHook, GradientsAreTheAverageBitForBit) {
  std::vector<Tensors> alone(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    Session session(options(rank));
    Executable executable = compiled(session, rank);
    executable.step();
    alone[static_cast<std::size_t>(rank)] = all(executable, "grad/");
  }
  ASSERT_NE(alone[0], alone[1]) << "the ranks' batches do not differ";

  std::vector<Tensors> together(kRanks), parameters(kRanks);
  run([&](int rank, Executable& executable, runtime::Communicator&) {
    executable.step();
    together[static_cast<std::size_t>(rank)] = all(executable, "grad/");
    for (int step = 1; step < kSteps; ++step) executable.step();
    parameters[static_cast<std::size_t>(rank)] = all(executable, "param/");
  });
  EXPECT_EQ(together[0], together[1]);
  EXPECT_EQ(parameters[0], parameters[1]);
  ASSERT_EQ(together[0].size(), alone[0].size());
  for (const auto& [name, bytes] : together[0]) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float first = 0, second = 0, average = 0;
      std::memcpy(&first, alone[0].at(name).data() + at, sizeof first);
      std::memcpy(&second, alone[1].at(name).data() + at, sizeof second);
      std::memcpy(&average, bytes.data() + at, sizeof average);
      ASSERT_EQ(average, (first + second) / 2) << name << " at byte " << at;
    }
  }
}

TEST_F(GradientHook, AFailedCollectiveUpdatesNothingAndTheSessionGoesOn) {
  run([&](int rank, Executable& executable, runtime::Communicator& communicator) {
    executable.step();
    const Tensors before = all(executable, "param/");
    communicator.abort("enough");
    EXPECT_THROW(executable.step(), CommError) << "rank " << rank;
    EXPECT_EQ(all(executable, "param/"), before);
    executable.remove_all_hooks();
    executable.step();
    EXPECT_NE(all(executable, "param/"), before);
  });
}

}  // namespace
}  // namespace riffle::test
