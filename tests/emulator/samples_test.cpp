// Kernels as nvcc and LLVM write them, run to the end and compared with the same computation here.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/execute/float16.h"
#include "tests/emulator/machine.h"

namespace emulator::testing {
namespace {

std::size_t kernel_named(const Machine& m, const std::string& name) {
  for (std::size_t i = 0; i < m.module().kernels.size(); ++i)
    if (m.module().kernels[i].name == name) return i;
  ADD_FAILURE() << "no kernel " << name;
  return 0;
}

/// Values in [-2, 2), the same every time.
std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<std::int32_t>(seed)) * 0x1p-30f;
  }
  return values;
}

class Samples : public ::testing::TestWithParam<std::pair<bool, std::uint64_t>> {
 protected:
  Samples() {
    m.options.independent_threads = GetParam().first;
    m.options.seed = GetParam().second;
    m.options.workers = 2;
  }
  void choose(const std::string& name) { m.kernel = kernel_named(m, name); }
  Machine m{read_data("kernels_sm80.ptx")};
};
INSTANTIATE_TEST_SUITE_P(Schedules, Samples,
                         ::testing::Values(std::pair(false, 0), std::pair(true, 0),
                                           std::pair(false, 7), std::pair(true, 12345)));

TEST_P(Samples, Saxpy) {
  choose("saxpy");
  const int n = 1000;
  const auto x = numbers(n, 1), y = numbers(n, 2);
  const auto dx = m.upload(x), dy = m.upload(y);
  m.launch({4}, {256}, n, 1.5f, dx, dy);
  const auto r = m.download<float>(dy, n);
  for (int i = 0; i < n; ++i) ASSERT_EQ(r[i], std::fma(1.5f, x[i], y[i])) << i;
}

TEST_P(Samples, ReductionWithShuffles) {
  choose("sum");
  const int n = 5000;
  const auto x = numbers(n, 3);
  const auto dx = m.upload(x), dr = m.upload(std::vector<float>{0});
  m.launch({5}, {128}, n, dx, dr);
  double exact = 0;
  for (const float v : x) exact += v;
  EXPECT_NEAR(m.download<float>(dr, 1)[0], exact, 1e-3);
}

TEST_P(Samples, Softmax) {
  choose("softmax");
  const int rows = 3, columns = 300;
  const auto x = numbers(rows * columns, 4);
  const auto dx = m.upload(x), dy = m.allocate(x.size() * 4);
  m.launch_shared({rows}, {96}, columns * 4, columns, dx, dy);
  const auto r = m.download<float>(dy, x.size());
  for (int i = 0; i < rows; ++i) {
    double total = 0;
    for (int j = 0; j < columns; ++j) total += std::exp(static_cast<double>(x[i * columns + j]));
    for (int j = 0; j < columns; ++j) {
      const double expected = std::exp(static_cast<double>(x[i * columns + j])) / total;
      ASSERT_NEAR(r[i * columns + j], expected, 1e-5 * expected);
    }
  }
}

TEST_P(Samples, TiledMatmul) {
  choose("matmul_tiled");
  const int n = 48;
  const auto a = numbers(n * n, 5), b = numbers(n * n, 6);
  const auto da = m.upload(a), db = m.upload(b), dc = m.allocate(n * n * 4);
  m.launch({3, 3}, {16, 16}, n, da, db, dc);
  const auto r = m.download<float>(dc, n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum = std::fma(a[i * n + k], b[k * n + j], sum);
      ASSERT_EQ(r[i * n + j], sum) << i << ' ' << j;
    }
}

TEST_P(Samples, TensorCoreMatmul) {
  choose("matmul_tensor");
  const int k = 64;
  const auto a = numbers(16 * k, 7), b = numbers(k * 8, 8);
  std::vector<std::uint16_t> ha, hb;
  for (const float v : a) ha.push_back(to_float16(v));
  for (const float v : b) hb.push_back(to_float16(v));
  const auto da = m.upload(ha), db = m.upload(hb), dc = m.allocate(16 * 8 * 4);
  m.launch({1}, {32}, k, da, db, dc);
  const auto r = m.download<float>(dc, 16 * 8);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int kk = 0; kk < k; ++kk)
        sum += static_cast<double>(from_float16(ha[i * k + kk])) * from_float16(hb[kk * 8 + j]);
      ASSERT_NEAR(r[i * 8 + j], sum, 1e-4) << i << ' ' << j;
    }
}

TEST_P(Samples, CallsAndDivergence) {
  choose("collatz_all");
  const int n = 200;
  const auto dm = m.allocate(n * 4), ds = m.allocate(n * 4);
  m.launch({2}, {128}, n, dm, ds);
  const auto most = m.download<int>(dm, n), steps = m.download<int>(ds, n);
  for (int i = 0; i < n; ++i) {
    int v = i + 1, peak = v, count = 0;
    for (; v != 1; ++count) v = v % 2 ? 3 * v + 1 : v / 2, peak = std::max(peak, v);
    ASSERT_EQ(most[i], peak) << i;
    ASSERT_EQ(steps[i], count) << i;
  }
}

TEST_P(Samples, Mixed) {
  choose("mixed");
  const int n = 100;
  const auto x = numbers(n, 9);
  const auto dx = m.upload(x), dy = m.allocate(n * 4), db = m.allocate(n * 4);
  m.launch({1}, {128}, n, dx, dy, db);
  const auto y = m.download<float>(dy, n);
  const auto bits = m.download<std::uint32_t>(db, n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const float h = from_float16(to_float16(x[i])), g = from_float16(to_float16(x[i] * 0.5f));
    const double expected = std::tanh(x[i]) + 1 / std::sqrt(std::fabs(x[i]) + 1.0) +
                            from_float16(to_float16(h * h + 1)) +
                            from_float16(to_float16(g * g + 1)) + std::sin(x[i]) +
                            std::log(std::fabs(x[i]) + 2.0) + std::floor(x[i]);
    ASSERT_NEAR(y[i], expected, 1e-5) << x[i];
    std::uint32_t reversed = 0;
    for (int b = 0; b < 32; ++b) reversed |= (i >> b & 1) << (31 - b);
    const std::uint32_t shifted =
        static_cast<std::uint32_t>((std::uint64_t{5} << 32 | i) << 3 >> 32);
    const std::uint32_t first = i ? static_cast<std::uint32_t>(std::countr_zero(i)) + 1 : 0;
    const std::uint32_t permuted =
        0x04030201;  // bytes 7, 6, 5, 4 from the lowest on: of 0x01020304
    const std::uint32_t want = static_cast<std::uint32_t>(std::popcount(i)) +
                               static_cast<std::uint32_t>(std::countl_zero(i)) * 3 + reversed +
                               permuted + shifted + first + i / 7 + i % 11;
    ASSERT_EQ(bits[i], want) << i;
  }
}

TEST_P(Samples, LlvmElementwise) {
  Machine llvm(read_data("llvm_kernels_sm80.ptx"));
  llvm.options = m.options;
  llvm.kernel = kernel_named(llvm, "elementwise");
  const std::int64_t n = 90;
  const auto x = numbers(n, 11);
  const auto dx = llvm.upload(x), dy = llvm.allocate(n * 4);
  const std::uint16_t h = to_float16(0.75f);
  struct Three {
    std::uint32_t v[3];
  };
  struct Four {
    float v[4];
  };
  for (const bool flag : {false, true}) {
    llvm.launch({3}, {32}, dy, dx, n, h, std::int8_t{-5}, flag, Three{{1, 100, 3}},
                Four{{1, 2, 3, 4}});
    const auto r = llvm.download<float>(dy, n);
    for (std::uint32_t i = 0; i < n; ++i) {
      const float most = std::fmax(std::floor(std::fma(x[i], x[i], 1.5f)), x[i]);
      const float b = from_bfloat16(to_bfloat16(x[i]));
      const float bf = from_bfloat16(to_bfloat16(b * b + b));  // exact in f32, but for the rounding
      const float half = from_float16(to_float16(0.75f * 0.75f + 0.75f));
      const std::uint32_t swapped = __builtin_bswap32(i), funnel = swapped << 8 | i >> 24;
      const std::uint32_t z = flag ? 10 * (i % 4 + 1) - 5 : std::max(funnel, i) / 7 + 100;
      ASSERT_EQ(r[i], (most + bf + half) * 3.0f + static_cast<float>(z)) << i << ' ' << flag;
    }
  }
}

TEST_P(Samples, LlvmExchange) {
  Machine llvm(read_data("llvm_kernels_sm80.ptx"));
  llvm.options = m.options;
  llvm.kernel = kernel_named(llvm, "exchange");
  const auto x = numbers(64, 12);
  const auto dx = llvm.upload(x);
  llvm.launch({1}, {64}, dx);
  const auto r = llvm.download<float>(dx, 64);
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t j = i ^ 33, warp = j / 32 * 32;
    std::uint32_t total = 0;
    for (std::uint32_t l = 0; l < 32; ++l) total += warp + std::min(l + 1, 31u);
    const float expected = (x[j ^ 16] + 1.0f) + 2.0f * x[j] + static_cast<float>(255 + total);
    ASSERT_EQ(r[i], expected) << i;
  }
}

}  // namespace
}  // namespace emulator::testing
