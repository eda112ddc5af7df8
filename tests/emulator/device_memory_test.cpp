#include "emulator/memory/device_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace emulator {
namespace {

FaultKind kind_of(const std::function<void()>& access, const std::string& text) {
  try {
    access();
  } catch (const Fault& fault) {
    EXPECT_NE(std::string(fault.what()).find(text), std::string::npos) << fault.what();
    return fault.kind();
  }
  ADD_FAILURE() << "no fault, expected one with: " << text;
  return FaultKind::stuck;
}

void store(LaunchMemory& view, std::uint64_t address, float value) {
  std::memcpy(view.write(address, 4, 4), &value, 4);
}

TEST(DeviceMemory, HandsBackWhatWasWritten) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(4096, "test");
  LaunchMemory view(memory);
  store(view, a->begin + 8, 2.5f);
  float value = 0;
  std::memcpy(&value, view.read(a->begin + 8, 4, 4), 4);
  EXPECT_EQ(value, 2.5f);
}

TEST(DeviceMemory, NamesTheAllocationOfAnAccessPastItsEnd) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(4096, "cuMemAlloc");
  LaunchMemory view(memory);
  EXPECT_EQ(kind_of([&] { view.write(a->begin + 4096, 4, 4); },
                    "0 bytes past the end of " + a->describe()),
            FaultKind::illegal_address);
  EXPECT_EQ(kind_of([&] { view.write(a->begin + 4088, 16, 8); }, "ends 8 bytes past the end of"),
            FaultKind::illegal_address);
  EXPECT_EQ(kind_of([&] { view.write(a->begin - 8, 4, 4); }, "before every allocation"),
            FaultKind::illegal_address);
  EXPECT_EQ(kind_of([&] { view.read(8, 4, 4); }, "a null pointer"), FaultKind::illegal_address);
  int on_host = 0;
  EXPECT_EQ(
      kind_of([&] { view.read(reinterpret_cast<std::uint64_t>(&on_host), 4, 4); }, "host memory"),
      FaultKind::illegal_address);
}

TEST(DeviceMemory, StopsReadsOfBytesNobodyWrote) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(4096, "test");
  LaunchMemory view(memory);
  view.write(a->begin, 4, 4);
  EXPECT_NO_THROW(view.read(a->begin, 4, 4));
  EXPECT_EQ(kind_of([&] { view.read(a->begin, 8, 8); }, "byte 4 of"),
            FaultKind::uninitialised_memory);
  EXPECT_EQ(kind_of([&] { view.update(a->begin + 16, 4, 4); }, "never written"),
            FaultKind::uninitialised_memory);
}

TEST(DeviceMemory, StopsMisalignedAccesses) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(4096, "test");
  LaunchMemory view(memory);
  EXPECT_EQ(kind_of([&] { view.write(a->begin + 4, 16, 16); }, "not a multiple of 16"),
            FaultKind::misaligned_address);
  EXPECT_NE(a->begin % 512, 0u) << "more alignment than promised hides mistakes";
}

TEST(DeviceMemory, NeverHandsOutAnAddressAgain) {
  DeviceMemory memory("device 0", 4096);
  const auto a = memory.allocate(4096, "cuMemAlloc");
  const std::uint64_t address = a->begin;
  EXPECT_EQ(memory.allocate(1, "test"), nullptr) << "beyond the capacity";
  EXPECT_TRUE(memory.release(address, "cuMemFree"));
  EXPECT_FALSE(memory.release(address, "cuMemFree")) << "freed twice";
  const auto b = memory.allocate(4096, "test");
  EXPECT_NE(address, b->begin);
  LaunchMemory view(memory);
  EXPECT_EQ(kind_of([&] { view.write(address + 12, 4, 4); }, "freed by cuMemFree"),
            FaultKind::freed_memory);
}

TEST(DeviceMemoryDeathTest, HostCannotDereferenceAnAddress) {
  DeviceMemory memory("device 0", 4096);
  const auto a = memory.allocate(4096, "test");
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(a->begin) = 1, "");
}

TEST(DeviceMemory, ReportsWhatWasTouchedAsMergedRanges) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(3 * kPageBytes, "test");
  std::memset(a->shadow, 1, a->bytes);
  LaunchMemory first(memory), second(memory);
  for (std::uint64_t at = 0; at < 3 * kPageBytes; at += 16) first.read(a->begin + at, 16, 16);
  first.write(a->begin + 1, 1, 1);
  second.write(a->begin + 4, 8, 4);
  second.write(a->begin + 1024, 4, 4);
  second.write(a->begin + kPageBytes - 256 - 2, 4, 2);  // across two pages
  Footprint both = first.footprint();
  merge(both, second.footprint());
  const std::uint64_t p = a->begin;
  EXPECT_EQ(both.reads, (std::vector<ByteRange>{{p, p + 3 * kPageBytes}}));
  EXPECT_EQ(both.writes,
            (std::vector<ByteRange>{
                {p, p + 12}, {p + 1024, p + 1028}, {p + kPageBytes - 260, p + kPageBytes - 252}}));
}

TEST(DeviceMemory, ConstantReadsForbidWritesOfTheSameBytes) {
  DeviceMemory memory("device 0", 1 << 20);
  const auto a = memory.allocate(4096, "test");
  std::memset(a->shadow, 1, a->bytes);
  LaunchMemory view(memory);
  view.read_constant(a->begin, 4, 4);
  view.write(a->begin + 4, 4, 4);
  EXPECT_EQ(kind_of([&] { view.write(a->begin, 4, 4); }, "ld.global.nc"),
            FaultKind::read_only_violation);
  EXPECT_EQ(kind_of([&] { view.read_constant(a->begin + 4, 4, 4); }, "ld.global.nc"),
            FaultKind::read_only_violation);
  LaunchMemory other(memory);
  other.write(a->begin, 4, 4);
  Footprint both = view.footprint();
  merge(both, other.footprint());
  EXPECT_FALSE(intersect(both.constants, both.writes).empty());
}

TEST(DeviceMemory, HostMemoryAndPeersAreReachedOnlyOnceAllowed) {
  DeviceMemory memory("device 0", 1 << 20), peer("device 1", 1 << 20);
  memory.set_known(&peer);
  const auto theirs = peer.allocate(64, "cuMemAlloc");
  {
    LaunchMemory view(memory);
    EXPECT_EQ(kind_of([&] { view.write(theirs->begin, 4, 4); }, "without peer access"),
              FaultKind::illegal_address);
  }
  memory.set_reachable(&peer, true);
  LaunchMemory view(memory);
  EXPECT_NO_THROW(view.write(theirs->begin, 4, 4));
  float host[4] = {1, 2, 3, 4};
  const auto mapped = memory.map_host(host, sizeof host, false, "cuMemHostRegister");
  store(view, mapped->begin + 4, 7.0f);
  EXPECT_EQ(host[1], 7.0f);
}

TEST(DeviceMemory, CopiesCarryTheShadowAndPoisonTheRest) {
  std::byte from[8] = {}, to[8] = {};
  const std::uint8_t from_shadow[8] = {1, 1, 0, 1, 0, 0, 1, 1};
  std::uint8_t to_shadow[8] = {};
  EXPECT_EQ(copy_bytes(to, to_shadow, from, from_shadow, 8), 3u);
  EXPECT_EQ(std::memcmp(to_shadow, from_shadow, 8), 0);
  EXPECT_EQ(to[2], std::byte{kPoison});
  EXPECT_EQ(to[3], std::byte{0});
}

}  // namespace
}  // namespace emulator
