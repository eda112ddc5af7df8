// How the ranks of the emulated NCCL meet, on host memory alone: ranks as threads and as processes.
#include "emulator/nccl/exchange.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>

#include "emulator/nccl/reduce.h"
#include "emulator/nccl/settings.h"

namespace emulator::nccl {
namespace {

const std::atomic<bool> kNever{false};

std::vector<std::byte> floats(std::initializer_list<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}
std::vector<float> as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Runs `body(rank, exchange)` as ranks in threads; what each threw.
template <typename Body>
std::vector<Problem> run(int size, Body body) {
  const std::string name = Exchange::new_name();
  std::vector<Problem> problems(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Exchange exchange(name, rank, size, rank);
        exchange.wait_complete(kNever);
        body(rank, exchange);
      } catch (const Problem& problem) {
        problems[rank] = problem;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

void expect_none(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) EXPECT_EQ(problem.code, ncclSuccess) << problem.text;
}

TEST(NcclExchange, SumsInRankOrder) {
  // (1e8 + 3) - 1e8 is 0 or 8 in f32, 3 in any wider sum; in another order it is 3.
  const std::vector<float> given = {1e8F, 3.0F, -1e8F};
  expect_none(run(3, [&](int rank, Exchange& exchange) {
    auto data = floats({given[rank]});
    ASSERT_TRUE(
        exchange.collective({.number = 1, .count = 1, .type = ncclFloat32}, data.data(), kNever));
    volatile float expected = given[0];
    expected = expected + given[1];
    expected = expected + given[2];
    EXPECT_EQ(as_floats(data)[0], expected);
  }));
}

TEST(NcclExchange, ManyRoundsInARow) {
  expect_none(run(4, [&](int rank, Exchange& exchange) {
    for (int i = 1; i <= 200; ++i) {
      auto data = floats({static_cast<float>(rank + i), 1.0F});
      ASSERT_TRUE(exchange.collective(
          {.number = static_cast<std::uint64_t>(i), .count = 2, .type = ncclFloat32}, data.data(),
          kNever));
      EXPECT_EQ(as_floats(data), (std::vector<float>{4.0F * i + 6, 4.0F}));
    }
  }));
}

TEST(NcclExchange, DifferencesNameTheRanksAndWhatTheyDo) {
  const Descriptor base{.number = 3, .count = 8, .type = ncclFloat32, .op = ncclSum};
  struct Case {
    Descriptor other;
    const char* words;
  };
  const std::vector<Case> cases = {
      {{.number = 4, .count = 8, .type = ncclFloat32}, "rank 1 at number 4"},
      {{.number = 3, .count = 9, .type = ncclFloat32}, "count 9"},
      {{.number = 3, .count = 8, .type = ncclFloat64}, "float64"},
      {{.number = 3, .count = 8, .type = ncclFloat32, .op = ncclMax}, "float32, max"},
      {{.number = 3, .count = 8, .operation = Operation::all_gather, .type = ncclFloat32},
       "ncclAllGather(count 8, float32)"},
      {{.number = 3, .count = 8, .operation = Operation::broadcast, .type = ncclFloat32, .root = 1},
       "ncclBroadcast(count 8, float32, root 1)"}};
  for (const Case& one : cases) {
    const auto problems = run(2, [&](int rank, Exchange& exchange) {
      std::vector<std::byte> data(256);
      exchange.collective(rank == 0 ? base : one.other, data.data(), kNever);
    });
    for (const Problem& problem : problems) {
      EXPECT_EQ(problem.code, ncclInvalidUsage);
      EXPECT_NE(problem.text.find("ncclAllReduce(count 8, float32, sum)"), std::string::npos)
          << problem.text;
      EXPECT_NE(problem.text.find(one.words), std::string::npos) << problem.text;
    }
  }
}

TEST(NcclExchange, ARankThatLeavesOrAbortsIsNamed) {
  for (const auto& [state, words] : {std::pair{Exchange::State::left, "rank 1 has left"},
                                     std::pair{Exchange::State::aborted, "rank 1 has aborted"},
                                     std::pair{Exchange::State::dead, "rank 1 is dead"}}) {
    const auto problems = run(2, [&](int rank, Exchange& exchange) {
      if (rank == 1) return exchange.leave(state);
      auto data = floats({1});
      exchange.collective({.number = 1, .count = 1, .type = ncclFloat32}, data.data(), kNever);
    });
    EXPECT_EQ(problems[0].code, ncclRemoteError);
    EXPECT_NE(problems[0].text.find(words), std::string::npos) << problems[0].text;
  }
}

TEST(NcclExchange, StopEndsTheWait) {
  std::atomic<bool> stop{false};
  const std::string name = Exchange::new_name();
  Exchange first(name, 0, 2, 0), second(name, 1, 2, 1);
  std::thread stopper([&] { stop = true; });
  auto data = floats({1});
  EXPECT_FALSE(first.collective({.number = 1, .count = 1, .type = ncclFloat32}, data.data(), stop));
  stopper.join();
}

TEST(NcclExchange, RanksThatCannotGoTogether) {
  const auto text = [](auto make) {
    try {
      make();
    } catch (const Problem& problem) {
      return problem.text;
    }
    return std::string("nothing");
  };
  const std::string name = Exchange::new_name();
  Exchange first(name, 0, 3, 5);
  EXPECT_EQ(text([&] { Exchange(name, 0, 3, 1); }), "rank 0 has joined already");
  EXPECT_EQ(text([&] { Exchange(name, 1, 2, 1); }), "rank 1 joins 2 ranks, another joined 3");
  EXPECT_NE(text([&] { Exchange(name, 3, 3, 1); }).find("cannot be"), std::string::npos);
  EXPECT_FALSE(first.complete());
  Exchange second(name, 1, 3, 2), third(name, 2, 3, 5);
  EXPECT_EQ(text([&] { first.complete(); }), "ranks 0 and 2 are both on device 5");
}

TEST(NcclExchange, NothingIsLeftBehind) {
  const std::string name = Exchange::new_name();
  const auto exists = [&] {
    const int file = ::shm_open(name.c_str(), O_RDWR, 0600);
    if (file >= 0) ::close(file);
    return file >= 0;
  };
  {
    Exchange alone(name, 0, 2, 0);
    EXPECT_TRUE(exists());
  }
  EXPECT_FALSE(exists());
  Exchange first(name, 0, 2, 0), second(name, 1, 2, 1);
  EXPECT_FALSE(exists());
}

/// Runs `body` in a forked child, which must do nothing with threads.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  bool good = false;
  try {
    good = body();
  } catch (const Problem&) {
  }
  ::_exit(good ? 0 : 1);
}

TEST(NcclExchange, ProcessesMeet) {
  const std::string name = Exchange::new_name();
  const auto rank = [&](int r) {
    Exchange exchange(name, r, 3, 0);  // a process has its own devices
    exchange.wait_complete(kNever);
    std::vector<std::byte> data = floats({0, 0, 0});
    const float own = static_cast<float>(10 + r);
    std::memcpy(data.data(), &own, sizeof own);
    exchange.collective(
        {.number = 1, .count = 1, .operation = Operation::all_gather, .type = ncclFloat32},
        data.data(), kNever);
    return as_floats(data) == std::vector<float>{10, 11, 12};
  };
  const pid_t first = in_child([&] { return rank(0); });
  const pid_t second = in_child([&] { return rank(1); });
  EXPECT_TRUE(rank(2));
  for (const pid_t child : {first, second}) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(NcclExchange, AKilledProcessIsNoticed) {
  const std::string name = Exchange::new_name();
  const pid_t child = in_child([&] {
    Exchange exchange(name, 1, 2, 0);
    for (;;) ::pause();
    return true;
  });
  Exchange exchange(name, 0, 2, 0);
  exchange.wait_complete(kNever);
  ASSERT_EQ(::kill(child, SIGKILL), 0);  // and left a zombie while the exchange looks
  auto data = floats({1});
  try {
    exchange.collective({.number = 1, .count = 1, .type = ncclFloat32}, data.data(), kNever);
    ADD_FAILURE() << "a dead rank took part";
  } catch (const Problem& problem) {
    EXPECT_EQ(problem.code, ncclRemoteError);
    EXPECT_NE(problem.text.find("rank 1 is dead"), std::string::npos) << problem.text;
  }
  ::waitpid(child, nullptr, 0);
}

// ---- Arithmetic, worked out by hand

template <typename T>
T reduce_two(T a, T b, ncclDataType_t type, ncclRedOp_t op) {
  T result{};
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(&a),
                                 reinterpret_cast<const std::byte*>(&b)};
  reduce(in, reinterpret_cast<std::byte*>(&result), 1, type, op);
  return result;
}

TEST(NcclReduce, EachTypeRoundsAndWrapsAsItself) {
  EXPECT_EQ(reduce_two<std::int8_t>(127, 1, ncclInt8, ncclSum), -128);
  EXPECT_EQ(reduce_two<std::uint8_t>(16, 17, ncclUint8, ncclProd), 16);
  EXPECT_EQ(reduce_two<std::int32_t>(-7, 2, ncclInt32, ncclAvg), -2);
  EXPECT_EQ(reduce_two<std::uint32_t>(1, 0xffffffff, ncclUint32, ncclMin), 1U);
  EXPECT_EQ(
      reduce_two<std::int64_t>(std::numeric_limits<std::int64_t>::max(), 1, ncclInt64, ncclSum),
      std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reduce_two<double>(1, 0x1p-60, ncclFloat64, ncclSum), 1);
  // 1 + 2^-8 in bf16 is a tie, to even: 1. 256 + 1 likewise; 256 + 3 is a tie upwards: 260.
  EXPECT_EQ(reduce_two<std::uint16_t>(0x3f80, 0x3b80, ncclBfloat16, ncclSum), 0x3f80);
  EXPECT_EQ(reduce_two<std::uint16_t>(0x4380, 0x4040, ncclBfloat16, ncclSum), 0x4382);
  // In f16: 2048 + 1 is a tie, to even; 65504 + 16 a tie to infinity; denormals are kept.
  EXPECT_EQ(reduce_two<std::uint16_t>(0x6800, 0x3c00, ncclFloat16, ncclSum), 0x6800);
  EXPECT_EQ(reduce_two<std::uint16_t>(0x7bff, 0x4c00, ncclFloat16, ncclSum), 0x7c00);
  EXPECT_EQ(reduce_two<std::uint16_t>(0x0001, 0x0001, ncclFloat16, ncclSum), 0x0002);
  EXPECT_EQ(reduce_two<std::uint16_t>(0x0400, 0x8001, ncclFloat16, ncclSum), 0x03ff);
  EXPECT_EQ(reduce_two<std::uint16_t>(0x0001, 0x0000, ncclFloat16, ncclAvg), 0x0000);
  EXPECT_EQ(reduce_two<std::uint16_t>(0xfc00, 0x3c00, ncclFloat16, ncclMax), 0x3c00);
}

TEST(NcclReduce, ANaNOfAnyRankStays) {
  for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg}) {
    EXPECT_TRUE(std::isnan(reduce_two<float>(NAN, 1, ncclFloat32, op))) << name_of_op(op);
    EXPECT_TRUE(std::isnan(reduce_two<float>(1, NAN, ncclFloat32, op))) << name_of_op(op);
  }
}

TEST(NcclSettings, AreReadOrRefused) {
  Settings settings;
  EXPECT_TRUE(set(settings, "hang", "3@1"));
  EXPECT_TRUE(settings.hang.hits(3, 1));
  EXPECT_FALSE(settings.hang.hits(3, 0));
  EXPECT_FALSE(settings.hang.hits(2, 1));
  EXPECT_TRUE(set(settings, "fail_collective", "2:5"));
  EXPECT_EQ(settings.fail_collective.code, 5);
  EXPECT_TRUE(settings.fail_collective.hits(2, 7));
  EXPECT_TRUE(set(settings, "fail_collective", "2"));
  EXPECT_EQ(settings.fail_collective.code, ncclSystemError);
  for (const char* bad : {"", "x", "1:", "1@", "1@x", "1@-2", "1:0"})
    EXPECT_FALSE(set(settings, "fail_collective", bad)) << bad;
  EXPECT_FALSE(set(settings, "no_such_setting", "1"));
}

}  // namespace
}  // namespace emulator::nccl
