// Loading NCCL: the messages of its absence, and the table against the libraries there are.
#include "runtime/collectives/nccl/library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>

#include "runtime/collectives/nccl/communicator.h"

namespace riffle::runtime {
namespace {

std::string fake(const std::string& kind) {
  return std::string(RIFFLE_FAKE_NCCLS) + "/libfake_nccl_" + kind + ".so";
}

CommError failure(const std::string& library) {
  try {
    nccl::Library::load(library);
  } catch (const CommError& error) {
    return error;
  }
  ADD_FAILURE() << library << " was loaded";
  return CommError(ErrorText{.what = ""});
}

bool says(const CommError& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

TEST(NcclLibrary, OneThatIsNotThereNamesThePathsTried) {
  const CommError error = failure("/nowhere/libnccl.so.2");
  EXPECT_TRUE(says(error, "not found")) << error.what();
  EXPECT_TRUE(says(error, "/nowhere/libnccl.so.2")) << error.what();
}

TEST(NcclLibrary, TheEnvironmentNamesTheLibrary) {
  ::setenv("RIFFLE_NCCL", "/elsewhere/libnccl.so.2", 1);
  const CommError error = failure("");
  ::unsetenv("RIFFLE_NCCL");
  EXPECT_TRUE(says(error, "/elsewhere/libnccl.so.2")) << error.what();
}

TEST(NcclLibrary, AnOldOneIsNamedWithBothVersions) {
  const CommError error = failure(fake("old"));
  EXPECT_TRUE(says(error, "too old")) << error.what();
  EXPECT_TRUE(says(error, "2.7.8")) << error.what();
  EXPECT_TRUE(says(error, "2.14.0")) << error.what();
}

TEST(NcclLibrary, AMissingFunctionIsNamed) {
  const CommError error = failure(fake("incomplete"));
  EXPECT_TRUE(says(error, "ncclCommInitRankConfig")) << error.what();
  EXPECT_TRUE(says(error, "2.28.9")) << error.what();
}

TEST(NcclLibrary, AVersionThatIsRefusedOrNotThere) {
  EXPECT_TRUE(says(failure(fake("mute")), "does not say its version"));
  EXPECT_TRUE(says(failure(fake("unrelated")), "no ncclGetVersion"));
}

TEST(NcclLibrary, TheMessagesDiffer) {
  std::set<std::string> messages;
  for (const std::string& library : {std::string("/nowhere/libnccl.so.2"), fake("old"),
                                     fake("incomplete"), fake("mute"), fake("unrelated")}) {
    const CommError error = failure(library);
    EXPECT_FALSE(error.hint().empty()) << error.what();
    messages.insert(std::string(error.message()));
  }
  EXPECT_EQ(messages.size(), 5U);
}

TEST(NcclLibrary, VersionsAreWrittenAsPeopleDo) {
  EXPECT_EQ(nccl::version_text(22809), "2.28.9");
  EXPECT_EQ(nccl::version_text(21400), "2.14.0");
  EXPECT_EQ(nccl::version_text(2708), "2.7.8");
}

void expect_every_row(const std::string& path) {
  const auto library = nccl::Library::load(path);
  EXPECT_GE(library->version(), nccl::kOldestLibrary);
#define NCCL_FUNCTION(kind, version, Type, Name, parameters) \
  EXPECT_NE(library->api().Name, nullptr) << "nccl" #Name << " of " << path;
#include "runtime/collectives/nccl/nccl_api.def"
}

TEST(NcclLibrary, TheEmulatedOneHasEveryFunction) { expect_every_row(RIFFLE_EMULATED_NCCL); }

class RealNccl : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* place :
         {"/usr/local/cuda/lib/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
          "/usr/lib/x86_64-linux-gnu/libnccl.so.2"})
      if (::access(place, R_OK) == 0) {
        path_ = place;
        return;
      }
    GTEST_SKIP() << "no libnccl.so.2 is installed on this machine";
  }
  std::string path_;
};

TEST_F(RealNccl, HasEveryFunction) { expect_every_row(path_); }

TEST_F(RealNccl, MakesIdsThatDiffer) {
  const NcclOptions options{.library = path_};
  const NcclId first = make_nccl_id({}, options), second = make_nccl_id({}, options);
  EXPECT_NE(first, second);
  EXPECT_NE(first, NcclId{});
  EXPECT_GE(nccl_version({}, options), nccl::kOldestLibrary);
}

TEST_F(RealNccl, WithoutADriverACommunicatorIsATypedError) {
  if (::access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const auto cpu = make_cpu_device({.threads = 1});
  const NcclDevice device{.device = cpu.get(),
                          .with_context = [](const std::function<void()>& call) { call(); }};
  const NcclOptions options{.library = path_, .join_timeout = std::chrono::seconds(20)};
  const NcclId id = make_nccl_id(device, options);
  try {
    make_nccl_communicator(device, id, 0, 1, options);
    FAIL() << "a communicator was made without a driver";
  } catch (const CommError& error) {
    EXPECT_EQ(error.where(), "nccl rank 0 of 1");
    EXPECT_TRUE(error.foreign().starts_with("nccl")) << error.what();
    EXPECT_FALSE(error.hint().empty()) << error.what();
  }
}

}  // namespace
}  // namespace riffle::runtime
