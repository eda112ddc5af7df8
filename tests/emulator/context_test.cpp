// Contexts, devices, initialisation, what a call needs, lost devices, several devices.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "driver_test.h"

namespace emulator {
namespace {

class ContextTest : public DriverTest {};

TEST_F(ContextTest, CallsNeedInitialisationAndAContext) {
  riffle_emulator_reset();
  int count = 0;
  CUdeviceptr address = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_TRUE(reported({"misuse: cuDeviceGetCount", "cuInit was not called"}));
  EXPECT_CU(cuInit(0));
  EXPECT_EQ(cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(reported({"misuse: cuMemAlloc", "no current context"}));
}

TEST_F(ContextTest, EachThreadHasItsOwnCurrentContext) {
  CUresult result = CUDA_SUCCESS;
  std::thread([&] { result = cuCtxSynchronize(); }).join();
  EXPECT_EQ(result, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxSynchronize());
}

TEST_F(ContextTest, PushAndPopNest) {
  CUcontext other = nullptr, current = nullptr, popped = nullptr;
  EXPECT_CU(cuCtxCreate_v2(&other, 0, 0));
  EXPECT_CU(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, other);
  EXPECT_CU(cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(popped, other);
  EXPECT_CU(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  EXPECT_CU(cuCtxPushCurrent_v2(other));
  EXPECT_CU(cuCtxDestroy_v2(other));
  EXPECT_CU(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cuCtxPushCurrent_v2(other), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(reported({"a destroyed context"}));
}

TEST_F(ContextTest, AReleasedContextTakesEverythingAndSaysWhatWasLeft) {
  allocate();
  const CUstream s = stream();
  EXPECT_CU(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_TRUE(reported({"leak: cuDevicePrimaryCtxRelease", "1 allocations", "1 streams"}));
  EXPECT_EQ(riffle_emulator_live("allocations"), 0u);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, LeaksAreCounted) {
  const CUdeviceptr a = allocate(4096);
  event();
  riffle_emulator_report_leaks();
  EXPECT_TRUE(reported({"leak: 1 allocations of device memory, 4096 bytes", "cuMemAlloc"}));
  EXPECT_TRUE(reported({"leak: 1 events"}));
  EXPECT_EQ(riffle_emulator_live("events"), 1u);
  EXPECT_CU(cuMemFree_v2(a));
  EXPECT_EQ(riffle_emulator_live("allocations"), 0u);
}

TEST_F(ContextTest, FreesAreChecked) {
  const CUdeviceptr a = allocate();
  EXPECT_EQ(cuMemFree_v2(a + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"misuse: cuMemFree", "byte 4 of allocation"}));
  EXPECT_CU(cuMemFree_v2(a));
  EXPECT_EQ(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"misuse: cuMemFree", "was freed by cuMemFree before"}));
}

TEST_F(ContextTest, UseAfterFreeSticksToTheContext) {
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  EXPECT_CU(cuMemFree_v2(a));
  EXPECT_CU(launch("fill", s, a, 1));
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(reported({"fault: kernel fill (operation #", "freed memory", "4-byte write",
                        "byte 0 of allocation", "freed by cuMemFree"}));
  CUdeviceptr b = 0;
  EXPECT_EQ(cuMemAlloc_v2(&b, 4), CUDA_ERROR_ILLEGAL_ADDRESS) << "the error sticks";
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext other = nullptr;
  EXPECT_CU(cuCtxCreate_v4(&other, nullptr, 0, 0));
  EXPECT_CU(cuMemAlloc_v2(&b, 4)) << "to the context, not to the device";
}

TEST_F(ContextTest, FaultsMapToTheirErrors) {
  const CUdeviceptr a = allocate();
  EXPECT_CU(launch("fill", nullptr, a + 2, 1));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
  start();
  EXPECT_CU(launch("fill", nullptr, allocate() + 4, 1));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(reported({"0 bytes past the end of allocation", "1024 bytes"}));
  start();
  EXPECT_CU(launch("peek", nullptr, allocate()));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(reported({"uninitialised memory"}));
}

TEST_F(ContextTest, MemoryRunsOut) {
  start({{"memory", "10000"}});
  CUdeviceptr a = 0;
  EXPECT_CU(cuMemAlloc_v2(&a, 6000));
  EXPECT_EQ(cuMemAlloc_v2(&a, 6000), CUDA_ERROR_OUT_OF_MEMORY);
  std::size_t available = 0, total = 0;
  EXPECT_CU(cuMemGetInfo_v2(&available, &total));
  EXPECT_EQ(total, 10000u);
  EXPECT_EQ(available, 4000u);
}

TEST_F(ContextTest, FailuresAreInjected) {
  CUdeviceptr a = 0;
  EXPECT_EQ(riffle_emulator_set("fail_allocation", "2"), 1);
  EXPECT_CU(cuMemAlloc_v2(&a, 64));
  EXPECT_EQ(cuMemAlloc_v2(&a, 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuMemAlloc_v2(&a, 64));
  EXPECT_EQ(riffle_emulator_set("fail", "cuStreamCreate:2:304,cuEventCreate:1:999"), 1);
  CUstream s = nullptr;
  CUevent e = nullptr;
  EXPECT_CU(cuStreamCreate(&s, 0));
  EXPECT_EQ(cuStreamCreate(&s, 0), CUDA_ERROR_OPERATING_SYSTEM);
  EXPECT_EQ(cuEventCreate(&e, 0), CUDA_ERROR_UNKNOWN);
  EXPECT_CU(cuEventCreate(&e, 0));
  EXPECT_EQ(riffle_emulator_set("fail_launch", "1:702"), 1);
  EXPECT_CU(launch("fill", s, a, 1));
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST_F(ContextTest, DevicesCanBeAbsentOrLost) {
  riffle_emulator_reset();
  riffle_emulator_set("devices", "0");
  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
  start();
  const CUstream s = stream();
  EXPECT_EQ(riffle_emulator_lose_device(0, 46), 1);
  EXPECT_EQ(riffle_emulator_lose_device(1, 46), 0);
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

TEST_F(ContextTest, NothingWorksOnceTheDriverIsDeinitialised) {
  riffle_emulator_deinitialize();
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_DEINITIALIZED);
}

TEST_F(ContextTest, PeersReachEachOtherOnceAllowed) {
  start({{"devices", "2"}});
  const CUdeviceptr mine = allocate();
  CUcontext other = nullptr;
  EXPECT_CU(cuDevicePrimaryCtxRetain(&other, 1));
  EXPECT_CU(cuCtxPushCurrent_v2(other));
  const CUdeviceptr theirs = allocate();
  EXPECT_CU(cuMemsetD32_v2(theirs, 9, kCount));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_CU(cuCtxPopCurrent_v2(nullptr));
  EXPECT_EQ(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_CU(cuCtxEnablePeerAccess(other, 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_CU(launch("add", nullptr, mine, theirs));
  EXPECT_EQ(download(mine)[0], 10);
  EXPECT_CU(cuMemcpyPeer(mine, context_, theirs, other, kBytes));
  EXPECT_EQ(download(mine)[0], 9);
  EXPECT_CU(cuCtxDisablePeerAccess(other));
  EXPECT_CU(launch("peek", nullptr, theirs));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(reported({"memory of device 1", "without peer access"}));
}

TEST_F(ContextTest, DevicesTellWhatTheyAre) {
  start({{"sm", "90"}, {"multiprocessors", "7"}});
  int value = 0;
  EXPECT_CU(cuDeviceGetAttribute(&value, 75, 0));
  EXPECT_EQ(value, 9);
  EXPECT_CU(cuDeviceGetAttribute(&value, 16, 0));
  EXPECT_EQ(value, 7);
  EXPECT_CU(cuDeviceGetAttribute(&value, 97, 0));
  EXPECT_EQ(value, 227 * 1024);
  EXPECT_EQ(cuDeviceGetAttribute(&value, 9999, 0), CUDA_ERROR_INVALID_VALUE);
  CUdevice device = 0;
  EXPECT_EQ(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  char name[64];
  EXPECT_CU(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "riffle emulated GPU sm_90");
}

TEST_F(ContextTest, AForkedChildMayNotUseTheDriver) {
  const pid_t child = fork();
  if (child == 0) _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ContextTest, StatisticsCountLaunches) {
  const CUdeviceptr a = allocate();
  for (int i = 0; i < 3; ++i) EXPECT_CU(launch("fill", nullptr, a, i));
  EXPECT_CU(cuCtxSynchronize());
  riffle_emulator_statistics statistics{};
  riffle_emulator_get_statistics(&statistics);
  EXPECT_EQ(statistics.launches, 3u);
  EXPECT_EQ(statistics.thread_instructions, 3000u);
  EXPECT_GT(statistics.instructions_per_second, 1e6);
}

TEST(Settings, AreReadOrRefused) {
  Settings settings;
  EXPECT_TRUE(set(settings, "seed", "18446744073709551615"));
  EXPECT_EQ(settings.seed, ~std::uint64_t{0});
  EXPECT_FALSE(set(settings, "sm", "70"));
  EXPECT_FALSE(set(settings, "eager", "yes"));
  EXPECT_FALSE(set(settings, "colour", "1"));
  EXPECT_FALSE(set(settings, "fail", "cuInit"));
  EXPECT_TRUE(set(settings, "fail", ""));
  EXPECT_TRUE(set(settings, "fail_launch", "3"));
  EXPECT_EQ(settings.fail_launch.code, 719);
}

}  // namespace
}  // namespace emulator
