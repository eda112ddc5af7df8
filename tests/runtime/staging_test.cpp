#include "runtime/staging.h"

#include <gtest/gtest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace riffle::runtime {
namespace {

TEST(Staging, BringsOperandsAndWhatWasWrittenBack) {
  const auto device = make_cpu_device({});
  const auto a = device->allocate(16, "a"), b = device->allocate(16, "b");
  const std::vector<std::byte> ones(8, std::byte{1}), twos(16, std::byte{2});
  a->write(8, ones);
  b->write(0, twos);
  Buffer* const buffers[] = {a.get(), b.get()};
  const std::vector<Operand> operands = {{{0, 8, 16}, Access::read}, {{1, 4, 12}, Access::write}};
  with_operands_on_host(operands, buffers, [&](std::span<void* const> at) {
    ASSERT_EQ(at.size(), 2U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at[1]) % 64, 0U);
    auto* from = static_cast<std::byte*>(at[0]);
    auto* to = static_cast<std::byte*>(at[1]);
    to[0] = from[7];
    from[0] = std::byte{9};  // read only: stays here
  });
  std::vector<std::byte> of_a(16), of_b(16);
  a->read(0, of_a);
  b->read(0, of_b);
  EXPECT_EQ(of_a[8], std::byte{1});
  EXPECT_EQ(of_b[4], std::byte{1});
  EXPECT_EQ(of_b[5], std::byte{2}) << "what the code left alone is what it was";
}

#if defined(__SSE__)
// An embedder that flushes denormals on its own threads must not change a partition's bits.
TEST(Staging, HostCodeSeesTheDefaultFloatState) {
  unsigned seen = 0;
  ModuleImage image{.name = "module"};
  image.kernels.push_back(
      {.name = "look", .host_function = [&](void* const*) { seen = _mm_getcsr(); }});
  const auto module = make_staged_module(std::move(image));
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  (*module->host_kernel(0))(nullptr);
  _mm_setcsr(before);
  EXPECT_EQ(seen & ~0x3fU, 0x1f80U);
}
#endif

}  // namespace
}  // namespace riffle::runtime
