// Streams, events, copies, pinned memory, host functions.
#include <atomic>
#include <thread>

#include "driver_test.h"

namespace emulator {
namespace {

class StreamTest : public DriverTest {};

TEST_F(StreamTest, WorkOfOneStreamRunsInOrder) {
  for (int seed = 1; seed < 10; ++seed) {
    start({{"seed", std::to_string(seed)}});
    const CUdeviceptr a = allocate();
    const CUstream s = stream();
    EXPECT_CU(launch("fill", s, a, 1));
    for (int i = 0; i < 5; ++i) EXPECT_CU(launch("add", s, a, a));
    EXPECT_CU(cuStreamSynchronize(s));
    EXPECT_EQ(download(a)[3], 6);
  }
}

TEST_F(StreamTest, SeedsOrderUnorderedWorkDifferently) {
  std::set<std::string> orders;
  for (int seed = 1; seed < 30; ++seed) {
    start({{"seed", std::to_string(seed)}, {"delay_us", "1000000"}});
    static std::string order;
    order.clear();
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_CU(cuLaunchHostFunc(
          stream(), [](void* user) { order += static_cast<const char*>(user); },
          const_cast<char*>(name)));
    }
    EXPECT_CU(cuCtxSynchronize());
    EXPECT_EQ(order.size(), 3u);
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 3u);
}

TEST_F(StreamTest, NothingRunsBeforeSomebodyWaits) {
  start({{"delay_us", "10000000"}});
  static std::atomic<int> ran;
  ran = 0;
  const CUstream s = stream();
  EXPECT_CU(cuLaunchHostFunc(s, [](void*) { ++ran; }, nullptr));
  EXPECT_EQ(ran, 0);
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(ran, 1);
}

TEST_F(StreamTest, QueriesMakeProgress) {
  start({{"delay_us", "10000000"}});
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  const CUevent done = event();
  EXPECT_CU(launch("fill", s, a, 1));
  EXPECT_CU(cuEventRecord(done, s));
  CUresult result = cuEventQuery(done);
  EXPECT_EQ(result, CUDA_ERROR_NOT_READY);
  while (result == CUDA_ERROR_NOT_READY) result = cuEventQuery(done);
  EXPECT_CU(result);
  EXPECT_CU(cuStreamQuery(s));
}

TEST_F(StreamTest, AHostThatWaitsByItselfIsNotStuck) {
  static std::atomic<bool> ran;
  ran = false;
  EXPECT_CU(cuLaunchHostFunc(stream(), [](void*) { ran = true; }, nullptr));
  while (!ran) std::this_thread::yield();
}

TEST_F(StreamTest, BlockedHostFunctionsDoNotHoldUpOtherStreams) {
  static std::atomic<bool> go;
  go = false;
  const auto block = [](void*) {
    while (!go) std::this_thread::yield();
  };
  for (int i = 0; i < 3; ++i) EXPECT_CU(cuLaunchHostFunc(stream(), block, nullptr));
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  EXPECT_CU(launch("fill", s, a, 1));
  EXPECT_CU(cuLaunchHostFunc(s, [](void*) { go = true; }, nullptr));
  EXPECT_CU(cuCtxSynchronize());
}

TEST_F(StreamTest, HostFunctionsMayNotCallTheDriver) {
  static std::atomic<int> result;
  const CUstream s = stream();
  EXPECT_CU(cuLaunchHostFunc(s, [](void*) { result = cuCtxSynchronize(); }, nullptr));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_TRUE(reported({"misuse: cuCtxSynchronize", "host function"}));
}

TEST_F(StreamTest, DestroyedHandlesAreToldFromNeverMade) {
  const CUstream s = stream();
  EXPECT_CU(cuStreamDestroy_v2(s));
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(reported({"misuse: cuStreamSynchronize", "a destroyed stream"}));
  EXPECT_EQ(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(reinterpret_cast<CUevent>(s), nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(reported({"misuse: cuEventRecord", "no event"}));
}

TEST_F(StreamTest, DestroyedStreamsFinishTheirWork) {
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  EXPECT_CU(launch("fill", s, a, 4));
  EXPECT_CU(cuStreamDestroy_v2(s));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(download(a)[0], 4);
  EXPECT_TRUE(clean());
}

TEST_F(StreamTest, EventsOfOtherContextsAreRefused) {
  const CUevent mine = event();
  CUcontext other = nullptr;
  EXPECT_CU(cuCtxCreate_v4(&other, nullptr, 0, 0));
  EXPECT_EQ(cuEventRecord(mine, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(launch("peek", nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(reported({"different contexts"}));
  EXPECT_CU(cuCtxDestroy_v2(other));
}

TEST_F(StreamTest, ElapsedTimeNeedsTimingAndRecords) {
  const CUstream s = stream();
  const CUevent first = event(0), second = event(0), untimed = event();
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, first, second), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuEventRecord(first, s));
  EXPECT_CU(cuEventRecord(second, s));
  EXPECT_CU(cuEventRecord(untimed, s));
  EXPECT_CU(cuEventSynchronize(untimed));
  EXPECT_CU(cuEventElapsedTime_v2(&milliseconds, first, second));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, first, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, PinnedCopiesReadTheHostLate) {
  start({{"delay_us", "10000000"}});
  void* memory = nullptr;
  EXPECT_CU(cuMemHostAlloc(&memory, kBytes, 0));
  int* const values = static_cast<int*>(memory);
  values[5] = 1;
  const CUdeviceptr a = allocate();
  const CUstream s = stream();
  EXPECT_CU(cuMemcpyHtoDAsync_v2(a, values, kBytes, s));
  values[5] = 2;  // the mistake: nobody waited
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(download(a)[5], 2);
}

TEST_F(StreamTest, PageableCopiesMayBeLateOrNot) {
  std::set<int> seen;
  for (int seed = 1; seed < 30; ++seed) {
    start({{"seed", std::to_string(seed)}, {"delay_us", "10000000"}});
    std::vector<int> values(kCount, 1);
    const CUdeviceptr a = allocate();
    const CUstream s = stream();
    EXPECT_CU(cuMemcpyHtoDAsync_v2(a, values.data(), kBytes, s));
    values[5] = 2;
    EXPECT_CU(cuStreamSynchronize(s));
    seen.insert(download(a)[5]);
  }
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}

TEST_F(StreamTest, CopiesToTheHostOfBytesNobodyWroteArePoisonAndReported) {
  const CUdeviceptr a = allocate();
  EXPECT_CU(cuMemsetD32_v2(a, 3, 10));
  const std::vector<int> values = download(a);
  EXPECT_EQ(values[9], 3);
  EXPECT_EQ(values[10], -1);
  EXPECT_TRUE(reported({"uninitialised memory", "984 of 1024 bytes"}));
}

TEST_F(StreamTest, CopiesCheckTheirAddresses) {
  const CUdeviceptr a = allocate();
  std::vector<int> values(2 * kCount);
  EXPECT_EQ(cuMemcpyHtoD_v2(a, values.data(), kBytes + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"the destination", "4 bytes past the end of"}));
  EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), reinterpret_cast<CUdeviceptr>(values.data()), 4),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"not an address of device memory"}));
  EXPECT_EQ(cuMemcpyHtoD_v2(a, reinterpret_cast<void*>(a), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(a + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFree_v2(a));
  EXPECT_EQ(cuMemcpyHtoD_v2(a, values.data(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"freed by cuMemFree"}));
}

TEST_F(StreamTest, KernelsReachPinnedMemory) {
  std::vector<int> values(kCount, 4);
  EXPECT_CU(cuMemHostRegister_v2(values.data(), kBytes, 0));
  EXPECT_EQ(cuMemHostRegister_v2(values.data() + 1, 8, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr address = 0;
  EXPECT_CU(cuMemHostGetDevicePointer_v2(&address, values.data(), 0));
  const CUstream s = stream();
  EXPECT_CU(launch("add", s, address, address));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(values[11], 5);
  EXPECT_CU(cuMemHostUnregister(values.data()));
  EXPECT_EQ(cuMemHostUnregister(values.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_CU(launch("peek", s, address));
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StreamTest, PointersTellWhatTheyAre) {
  const CUdeviceptr a = allocate();
  unsigned type = 0;
  EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 8));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  std::size_t bytes = 0;
  CUdeviceptr begin = 0;
  EXPECT_CU(cuMemGetAddressRange_v2(&begin, &bytes, a + 8));
  EXPECT_EQ(begin, a);
  EXPECT_EQ(bytes, kBytes);
  int on_host = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(&on_host)),
            CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* places[] = {&type};
  EXPECT_CU(cuPointerGetAttributes(1, wanted, places, reinterpret_cast<CUdeviceptr>(&on_host)));
  EXPECT_EQ(type, 0u);
  EXPECT_TRUE(clean());
}

TEST_F(StreamTest, PoolsCountWhatTheyHold) {
  CUmemPoolProps properties{};
  properties.allocType = 1;
  properties.location = {1, 0};
  CUmemoryPool pool = nullptr;
  EXPECT_CU(cuMemPoolCreate(&pool, &properties));
  const CUstream s = stream();
  CUdeviceptr a = 0;
  EXPECT_CU(cuMemAllocFromPoolAsync(&a, 4096, pool, s));
  EXPECT_CU(cuMemFreeAsync(a, s));
  EXPECT_EQ(cuMemFreeAsync(a, s), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(reported({"misuse: cuMemFreeAsync", "before"}));
  std::uint64_t threshold = 1 << 20, held = 0;
  EXPECT_CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
  EXPECT_EQ(held, 4096u);
  EXPECT_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &held));
  EXPECT_EQ(held, 0u);
  EXPECT_CU(cuMemPoolTrimTo(pool, 0));
  EXPECT_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
  EXPECT_EQ(held, 0u);
  EXPECT_CU(cuMemPoolDestroy(pool));
  EXPECT_EQ(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, ThreadsMayUseTheDriverAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_CU(cuCtxSetCurrent(context_));
      for (int i = 0; i < 20; ++i) {
        const CUdeviceptr a = allocate();
        const CUstream s = stream();
        EXPECT_CU(launch("fill", s, a, t));
        EXPECT_CU(launch("add", s, a, a));
        EXPECT_CU(cuStreamSynchronize(s));
        EXPECT_EQ(download(a)[1], t + 1);
        EXPECT_CU(cuMemFree_v2(a));
        EXPECT_CU(cuStreamDestroy_v2(s));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(clean());
  EXPECT_EQ(riffle_emulator_live("allocations"), 0u);
}

}  // namespace
}  // namespace emulator
