// The library as programs load it: what it exports, what cuGetProcAddress finds, a kernel from PTX.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "emulator/driver/abi.h"
#include "emulator/driver/entry_points.h"
#include "emulator/driver/settings.h"

namespace emulator {
namespace {

using namespace abi;  // NOLINT: as in driver_test.h

class LibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(RIFFLE_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    symbol<void()>("riffle_emulator_reset")();
  }
  template <class Function>
  Function* symbol(const char* name) {
    auto* found = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  /// What cuGetProcAddress finds; null: nothing.
  void* find(const char* name, int version, CUdriverProcAddressQueryResult* status = nullptr) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult unwanted{};
    const auto get =
        symbol<CUresult(const char*, void**, int, std::uint64_t, CUdriverProcAddressQueryResult*)>(
            "cuGetProcAddress_v2");
    EXPECT_EQ(get(name, &address, version, 0, status ? status : &unwanted), CUDA_SUCCESS);
    return address;
  }
  int set(const char* name, const char* value) {
    return symbol<int(const char*, const char*)>("riffle_emulator_set")(name, value);
  }
  void* library_ = nullptr;
};

TEST_F(LibraryTest, EveryEntryPointIsExportedAndFoundByItsVersion) {
  std::ifstream rows(RIFFLE_SOURCE_DIR "/emulator/driver/entry_points.def");
  int count = 0;
  for (std::string line; std::getline(rows, line);) {
    if (line.rfind("ROW(", 0) != 0) continue;
    std::istringstream words(line.substr(4));
    std::string name, since, name_of_symbol;
    std::getline(words, name, ',');
    std::getline(words >> std::ws, since, ',');
    std::getline(words >> std::ws, name_of_symbol, ')');
    void* address = dlsym(library_, name_of_symbol.c_str());
    ASSERT_NE(address, nullptr) << name_of_symbol;
    EXPECT_EQ(find(name.c_str(), std::stoi(since)), address) << line;
    ++count;
  }
  EXPECT_GT(count, 150);
}

TEST_F(LibraryTest, VersionsAreToldApart) {
  CUdriverProcAddressQueryResult status{};
  EXPECT_NE(find("cuEventElapsedTime", 2000), find("cuEventElapsedTime", 13000));
  EXPECT_EQ(find("cuMemAllocAsync", 11010, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(find("cuNoSuchThing", 13000, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(set("driver_version", "11000"), 1);
  EXPECT_EQ(find("cuMemAllocAsync", 13000, &status), nullptr) << "this driver is too old for it";
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_F(LibraryTest, HasWhatRiffleAsksOf) {
  struct Row {
    const char* name;
    int version;
  };
#define CUDA_FUNCTION(kind, version, name, parameters) {"cu" #name, version},
  constexpr Row kRows[] = {
#include "runtime/cuda/driver_api.def"
  };
  for (const Row& row : kRows) EXPECT_NE(find(row.name, row.version), nullptr) << row.name;
}

TEST_F(LibraryTest, RunsAKernelFromPtx) {
  constexpr char kPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.s32 %r3, %r2, %r2;
  st.global.u32 [%rd3], %r3;
  ret;
}
)";
  CUcontext context = nullptr;
  ASSERT_EQ(symbol<CUresult(unsigned)>("cuInit")(0), CUDA_SUCCESS);
  ASSERT_EQ((symbol<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0)),
            CUDA_SUCCESS);
  ASSERT_EQ(symbol<CUresult(CUcontext)>("cuCtxSetCurrent")(context), CUDA_SUCCESS);
  CUmodule module = nullptr;
  CUfunction twice = nullptr;
  ASSERT_EQ((symbol<CUresult(CUmodule*, const void*)>("cuModuleLoadData")(&module, kPtx)),
            CUDA_SUCCESS);
  ASSERT_EQ((symbol<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction")(
                &twice, module, "twice")),
            CUDA_SUCCESS);
  std::vector<int> values(64);
  for (int i = 0; i < 64; ++i) values[static_cast<std::size_t>(i)] = i;
  CUdeviceptr address = 0;
  ASSERT_EQ((symbol<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(&address, 256)),
            CUDA_SUCCESS);
  const auto upload = symbol<CUresult(CUdeviceptr, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  const auto download = symbol<CUresult(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH_v2");
  const auto launch =
      symbol<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, CUstream, void**, void**)>("cuLaunchKernel");
  ASSERT_EQ(upload(address, values.data(), 256), CUDA_SUCCESS);
  void* parameters[] = {&address};
  ASSERT_EQ(launch(twice, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(download(values.data(), address, 256), CUDA_SUCCESS);
  EXPECT_EQ(values[63], 126);
  // One thread too many.
  ASSERT_EQ(launch(twice, 1, 1, 1, 65, 1, 1, 0, nullptr, parameters, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(symbol<CUresult()>("cuCtxSynchronize")(), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::string report(4096, '\0');
  report.resize(
      symbol<std::size_t(char*, std::size_t)>("riffle_emulator_report")(report.data(), 4096));
  for (const char* words : {"kernel twice", "line 14", "thread (64,0,0)", "4-byte read",
                            "0 bytes past the end of allocation", "cuMemAlloc, 256 bytes"}) {
    EXPECT_NE(report.find(words), report.npos) << words << " is not in: " << report;
  }
}

TEST(Readme, ListsEverySetting) {
  std::ifstream file(RIFFLE_SOURCE_DIR "/emulator/README.md");
  std::stringstream readme;
  readme << file.rdbuf();
  std::istringstream settings(describe_settings());
  for (std::string line; std::getline(settings, line);) {
    const std::string name = line.substr(0, line.find(':'));
    const std::string meaning = line.substr(name.size() + 2);
    EXPECT_NE(readme.str().find("| `" + name + "` | " + meaning + " |"), std::string::npos)
        << "| `" << name << "` | " << meaning << " |";
  }
}

}  // namespace
}  // namespace emulator
