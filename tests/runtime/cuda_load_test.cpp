// What stands between a program and its first CUDA device, each with its own message.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "runtime/cuda/device.h"
#include "runtime/cuda/driver.h"

namespace riffle::runtime {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() {
    if (had_)
      ::setenv(name_, before_.c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

std::string fake(const std::string& kind) {
  return std::string(RIFFLE_FAKE_DRIVERS) + "/libfake_cuda_" + kind + ".so";
}

/// The error of loading `library`.
DeviceError failure(const std::string& library) {
  try {
    make_cuda_device({}, {.library_path = library});
  } catch (const DeviceError& error) {
    return error;
  }
  ADD_FAILURE() << library << " was loaded";
  return DeviceError(ErrorText{.what = ""});
}

bool says(const DeviceError& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

TEST(CudaLoad, ADriverThatIsNotThereNamesThePathsTried) {
  const DeviceError error = failure("/nowhere/libcuda.so.1");
  EXPECT_TRUE(says(error, "was not found")) << error.what();
  EXPECT_TRUE(says(error, "/nowhere/libcuda.so.1")) << error.what();
  EXPECT_FALSE(error.hint().empty());
}

TEST(CudaLoad, TheEnvironmentNamesTheDriver) {
  const Variable driver("RIFFLE_CUDA_DRIVER", "/elsewhere/libcuda.so.1");
  const Variable visible("CUDA_VISIBLE_DEVICES", "0");
  const DeviceError error = failure("");
  EXPECT_TRUE(says(error, "was not found")) << error.what();
  EXPECT_TRUE(says(error, "/elsewhere/libcuda.so.1")) << error.what();
}

TEST(CudaLoad, TheStubOfAToolkitIsNoDriver) {
  const DeviceError error = failure(fake("stub"));
  EXPECT_TRUE(says(error, "stub")) << error.what();
  EXPECT_EQ(error.foreign(), "CUDA_ERROR_STUB_LIBRARY");
}

TEST(CudaLoad, AnOldDriverIsNamedWithBothVersions) {
  const DeviceError error = failure(fake("old"));
  EXPECT_TRUE(says(error, "too old")) << error.what();
  EXPECT_TRUE(says(error, "11.4")) << error.what();
  EXPECT_TRUE(says(error, "12.0")) << error.what();
}

TEST(CudaLoad, AMissingFunctionIsNamed) {
  const DeviceError error = failure(fake("incomplete"));
  EXPECT_TRUE(says(error, "too old")) << error.what();
  EXPECT_TRUE(says(error, "cuLaunchKernel")) << error.what();
}

TEST(CudaLoad, ADriverWithoutADevice) {
  for (const char* kind : {"no_device", "no_count"}) {
    const DeviceError error = failure(fake(kind));
    EXPECT_TRUE(says(error, "finds no device")) << error.what();
  }
}

TEST(CudaLoad, DisabledByEitherVariable) {
  {
    const Variable driver("RIFFLE_CUDA_DRIVER", "none");
    const DeviceError error = failure("");
    EXPECT_TRUE(says(error, "disabled")) << error.what();
    EXPECT_TRUE(says(error, "RIFFLE_CUDA_DRIVER")) << error.what();
  }
  const Variable visible("CUDA_VISIBLE_DEVICES", "");
  const DeviceError error = failure("");
  EXPECT_TRUE(says(error, "disabled")) << error.what();
  EXPECT_TRUE(says(error, "CUDA_VISIBLE_DEVICES")) << error.what();
}

TEST(CudaLoad, TheFiveMessagesDiffer) {
  std::set<std::string> messages;
  for (const std::string& library :
       {std::string("/nowhere/libcuda.so.1"), fake("stub"), fake("old"), fake("no_device")})
    messages.insert(std::string(failure(library).hint()));
  const Variable driver("RIFFLE_CUDA_DRIVER", "none");
  messages.insert(std::string(failure("").hint()));
  EXPECT_EQ(messages.size(), 5U);
}

TEST(CudaLoad, WhatFailsToInitialiseSaysTheDriversReason) {
  const DeviceError error = failure(fake("broken"));
  EXPECT_TRUE(says(error, "the versions differ")) << error.what();
  EXPECT_EQ(error.where(), "cuInit");
  EXPECT_EQ(error.foreign(), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
}

TEST(CudaLoad, ALibraryThatIsNoDriver) {
  EXPECT_TRUE(says(failure(fake("unrelated")), "is not a CUDA driver"));
}

TEST(CudaLoad, AnEmulatorThatIsNotThereNamesThePathsTried) {
  const Variable emulator("RIFFLE_EMULATOR", "/nowhere");
  try {
    make_cuda_device({}, {.emulated = true});
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_TRUE(says(error, "emulator")) << error.what();
    EXPECT_TRUE(says(error, "/nowhere/libcuda.so.1")) << error.what();
    EXPECT_TRUE(says(error, "RIFFLE_EMULATOR")) << error.what();
  }
}

TEST(CudaLoad, TheEmulatorOnceLoadedIsNotTakenForTheSystemsDriver) {
  const auto emulator = cuda::Driver::load(cuda::find_emulator());
  void* system = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(!system || !::dlsym(system, "riffle_emulator_set"));
}

TEST(CudaLoad, VersionsAreWrittenAsPeopleDo) {
  EXPECT_EQ(cuda::version_text(12040), "12.4");
  EXPECT_EQ(cuda::version_text(13000), "13.0");
}

}  // namespace
}  // namespace riffle::runtime
