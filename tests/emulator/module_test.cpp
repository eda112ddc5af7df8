// Modules, their logs, functions and the limits of launches.
#include "driver_test.h"

namespace emulator {
namespace {

class ModuleTest : public DriverTest {
 protected:
  /// Loads `text`; the compiler's log of errors goes to log_.
  CUresult load(const char* text) {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    char buffer[256] = "untouched";
    void* values[] = {buffer, reinterpret_cast<void*>(sizeof buffer)};
    CUmodule module = nullptr;
    const CUresult result = cuModuleLoadDataEx(&module, text, 2, options, values);
    log_ = buffer;
    EXPECT_EQ(reinterpret_cast<std::size_t>(values[1]), log_.size());
    return result;
  }
  std::string log_;
};

TEST_F(ModuleTest, SyntaxErrorsGoToTheLog) {
  EXPECT_EQ(load("8.0 sm_80 nonsense"), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(log_.find("line 1"), log_.npos) << log_;
  EXPECT_NE(log_.find("found nonsense"), log_.npos) << log_;
  EXPECT_CU(load("8.0 sm_80 k:0"));
  EXPECT_EQ(log_, "");
}

TEST_F(ModuleTest, LogsAreCutToTheirBuffer) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
  char buffer[8] = "";
  void* values[] = {reinterpret_cast<void*>(5), buffer};
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module, "8.0 sm_80 x", 2, options, values), CUDA_ERROR_INVALID_PTX);
  EXPECT_STREQ(buffer, "ptxa");
}

TEST_F(ModuleTest, TheDriversVersionBoundsThePtxVersion) {
  EXPECT_CU(load("9.0 sm_80 k:0"));
  EXPECT_EQ(load("9.1 sm_80 k:0"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_NE(log_.find("Unsupported .version 9.1; current version is '9.0'"), log_.npos) << log_;
  start({{"driver_version", "12020"}});
  EXPECT_CU(load("8.2 sm_80 k:0"));
  EXPECT_EQ(load("8.3 sm_80 k:0"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

TEST_F(ModuleTest, TheDeviceBoundsTheTarget) {
  EXPECT_CU(load("8.0 sm_75 k:0"));
  EXPECT_EQ(load("8.0 sm_90 k:0"), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(log_.find("sm_90"), log_.npos) << log_;
  start({{"sm", "100"}});
  EXPECT_CU(load("8.0 sm_90 k:0"));
  EXPECT_EQ(load("8.0 sm_90a k:0"), CUDA_ERROR_INVALID_PTX) << "for that architecture alone";
  EXPECT_EQ(load("\177ELF"), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(ModuleTest, VariablesLiveWithTheModule) {
  CUmodule module = nullptr;
  EXPECT_CU(cuModuleLoadData(&module, "8.0 sm_80 variable:64 k:0"));
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  EXPECT_CU(cuModuleGetGlobal_v2(&address, &bytes, module, "table"));
  EXPECT_EQ(bytes, 64u);
  int word = 1;
  EXPECT_CU(cuMemcpyDtoH_v2(&word, address, 4));
  EXPECT_EQ(word, 0) << "variables begin as zero";
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "chair"), CUDA_ERROR_NOT_FOUND);
  CUfunction k = nullptr;
  EXPECT_CU(cuModuleGetFunction(&k, module, "k"));
  EXPECT_EQ(cuModuleGetFunction(&k, module, "absent"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CU(cuModuleUnload(module));
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemcpyDtoH_v2(&word, address, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, UnloadingUnderALaunchIsReported) {
  start({{"delay_us", "10000000"}});
  EXPECT_CU(launch("fill", stream(), allocate(), 1));
  EXPECT_CU(cuModuleUnload(module_));
  EXPECT_TRUE(reported({"misuse: cuModuleUnload", "1 launches"}));
}

TEST_F(ModuleTest, LaunchShapesAreChecked) {
  const CUdeviceptr a = allocate();
  const CUfunction fill = function("fill");
  std::uint64_t values[] = {a, 1};
  void* parameters[] = {&values[0], &values[1]};
  const auto shape = [&](unsigned gx, unsigned gy, unsigned bx, unsigned bz) {
    return cuLaunchKernel(fill, gx, gy, 1, bx, 1, bz, 0, nullptr, parameters, nullptr);
  };
  EXPECT_EQ(shape(0, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 65536, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 1, 1025, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 1, 512, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shape(1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"misuse: cuLaunchKernel: kernel fill", "1024 threads"}));
  EXPECT_CU(shape(3, 65535, 1024, 1));
  EXPECT_EQ(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE)
      << "no parameters";
  start();
  std::uint64_t packed[] = {allocate(), 3};
  std::size_t bytes = 8;
  void* extra[] = {kLaunchParamBufferPointer, packed, kLaunchParamBufferSize, &bytes,
                   kLaunchParamEnd};
  EXPECT_EQ(cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"takes 16 bytes of parameters, the buffer has 8"}));
  bytes = 16;
  EXPECT_CU(cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(download(packed[0])[0], 3);
}

TEST_F(ModuleTest, MuchSharedMemoryMustBeAskedFor) {
  const CUfunction fill = function("fill");
  std::uint64_t values[] = {allocate(), 1};
  void* parameters[] = {&values[0], &values[1]};
  const auto with = [&](unsigned bytes) {
    return cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, bytes, nullptr, parameters, nullptr);
  };
  EXPECT_CU(with(48 * 1024));
  EXPECT_EQ(with(64 * 1024), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"cuFuncSetAttribute first"}));
  EXPECT_EQ(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 164 * 1024),
            CUDA_ERROR_INVALID_VALUE)
      << "sm_80 has 163 KiB";
  EXPECT_CU(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * 1024));
  EXPECT_CU(with(64 * 1024));
  int blocks = 0;
  EXPECT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0));
  EXPECT_EQ(blocks, 8);
  EXPECT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 80 * 1024));
  EXPECT_EQ(blocks, 2);
}

TEST_F(ModuleTest, LaunchAttributesThatAreNotEmulatedAreRefused) {
  std::uint64_t values[] = {allocate(), 1};
  void* parameters[] = {&values[0], &values[1]};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {1, 1, 1};
  CUlaunchConfig config{1, 1, 1, 32, 1, 1, 0, nullptr, &attribute, 1};
  EXPECT_CU(cuLaunchKernelEx(&config, function("fill"), parameters, nullptr));
  attribute.value.clusterDim = {2, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function("fill"), parameters, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(reported({"clusters"}));
}

}  // namespace
}  // namespace emulator
