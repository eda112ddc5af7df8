// The NCCL communicator on emulated devices: ranks are threads, each with a device of its own.
#include "runtime/collectives/nccl/communicator.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/collectives/gradient_hook.h"
#include "runtime/collectives/nccl/library.h"
#include "runtime/cuda/device.h"
#include "support/float16.h"
#include "tests/runtime/cuda_emulator.h"
#include "tests/runtime/schedule_builder.h"

namespace riffle::runtime {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using Kind = CollectiveCall::Kind;

constexpr std::array kDTypes = {DType::f32, DType::f64, DType::bf16,
                                DType::f16, DType::i64, DType::i32};
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

// ---- Elements by value, and what the emulated NCCL promises to compute

template <typename T>
T load(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void store(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

double get(const Bytes& bytes, std::size_t i, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return load<float>(bytes, i);
    case DType::f64:
      return load<double>(bytes, i);
    case DType::bf16:
      return bf16_to_f32(load<std::uint16_t>(bytes, i));
    case DType::f16:
      return f16_to_f32(load<std::uint16_t>(bytes, i));
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(bytes, i));
    default:
      return load<std::int32_t>(bytes, i);
  }
}
// Rounding a double sum, product or quotient of narrower floats once more is as good as rounding
// the exact one: 53 bits are more than twice 24 and two. Whole numbers here are small.
void put(Bytes& bytes, std::size_t i, DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return store(bytes, i, static_cast<float>(value));
    case DType::f64:
      return store(bytes, i, value);
    case DType::bf16:
      return store(bytes, i, f64_to_bf16(value));
    case DType::f16:
      return store(bytes, i, f64_to_f16(value));
    case DType::i64:
      return store(bytes, i, static_cast<std::int64_t>(value));
    default:
      return store(bytes, i, static_cast<std::int32_t>(value));
  }
}

/// What rank `rank` starts with: no two alike, and sums that must round.
Bytes values(int rank, std::int64_t count, DType dtype) {
  Bytes bytes(static_cast<std::size_t>(count * size_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    const double whole = static_cast<double>((i * 7 + rank * 31) % 97 - 40);
    put(bytes, static_cast<std::size_t>(i), dtype,
        is_integer(dtype) ? whole : whole / 3 + 0.01 * rank);
  }
  return bytes;
}

/// In rank order, rounded at each step.
Bytes reduced(const std::vector<Bytes>& ranks, std::int64_t count, DType dtype, ReduceOp op) {
  Bytes result = ranks[0];
  for (std::int64_t at = 0; at < count; ++at) {
    const auto i = static_cast<std::size_t>(at);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const double a = get(result, i, dtype), b = get(ranks[r], i, dtype);
      put(result, i, dtype,
          op == ReduceOp::min   ? std::min(a, b)
          : op == ReduceOp::max ? std::max(a, b)
                                : a + b);
    }
    if (op == ReduceOp::average)
      put(result, i, dtype, get(result, i, dtype) / static_cast<double>(ranks.size()));
  }
  return result;
}

// ---- Ranks

struct Rank {
  int rank = 0, size = 1;
  Device& device;
  Stream& stream;
  Communicator& communicator;

  std::unique_ptr<Buffer> buffer(const Bytes& bytes) const {
    auto made = device.allocate(static_cast<std::int64_t>(bytes.size()), "test");
    made->write(0, bytes);
    return made;
  }
  static Bytes read(Buffer& buffer) {
    Bytes bytes(static_cast<std::size_t>(buffer.bytes()));
    buffer.read(0, bytes);
    return bytes;
  }
};

/// `times` sums of eight f32. Once the communicator has failed the rest is refused; then, as a
/// failing step does, the test goes on to drain the stream, which says why.
void enqueue_sums(const Rank& self, Buffer& data, int times, ReduceOp op = ReduceOp::sum) {
  try {
    for (int i = 0; i < times; ++i)
      self.communicator.all_reduce(self.stream, data.address(), 8, DType::f32, op);
  } catch (const CommError&) {
  }
}

class NcclCommunicator : public testing::Test {
 protected:
  void SetUp() override {
    emulator_.set("devices", "3");
    for (const char* name : {"fail_init", "fail_collective", "hang", "die"}) set(name, "0");
  }
  void TearDown() override {
    EXPECT_EQ(emulator_.leaks(), "");
    EXPECT_EQ(emulator_.problems(), "");
  }
  static void set(const char* name, const char* value) {
    void* library = ::dlopen(RIFFLE_EMULATED_NCCL, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto set = reinterpret_cast<int (*)(const char*, const char*)>(
        ::dlsym(library, "riffle_emulator_nccl_set"));
    ASSERT_EQ(set(name, value), 1) << name << " " << value;
  }

  /// Runs `body` as ranks 0 … size - 1; returns what each threw.
  std::vector<std::exception_ptr> run(int size, const std::function<void(const Rank&)>& body,
                                      NcclOptions options = {}) {
    NcclId id{};
    {
      const auto device = make_cuda_device({}, {.emulated = true});
      id = make_nccl_id(nccl_device(*device), options);
    }
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const auto device = make_cuda_device({}, {.device_index = rank, .emulated = true});
          const auto stream = device->create_stream({"communication", false, 1});
          const auto communicator =
              make_nccl_communicator(nccl_device(*device), id, rank, size, options);
          body({rank, size, *device, *stream, *communicator});
          stream->drain(nullptr);
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  void expect_no_error(const std::vector<std::exception_ptr>& errors) {
    for (std::size_t r = 0; r < errors.size(); ++r)
      if (errors[r]) ADD_FAILURE() << "rank " << r << ": " << text(errors[r]);
  }
  static std::string text(const std::exception_ptr& error) {
    if (!error) return "";
    try {
      std::rethrow_exception(error);
    } catch (const CommError& comm) {
      return std::string("CommError ") + comm.what();
    } catch (const std::exception& other) {
      return std::string("another error: ") + other.what();
    }
  }
  static bool says(const std::exception_ptr& error, std::string_view words) {
    return text(error).starts_with("CommError") && text(error).find(words) != std::string::npos;
  }

  test::Emulator emulator_;
};

TEST_F(NcclCommunicator, EveryOperationAndTypeOnOneTwoAndThreeRanks) {
  constexpr std::int64_t kCount = 37;
  for (const int size : {1, 2, 3})
    expect_no_error(run(size, [&](const Rank& self) {
      EXPECT_EQ(self.communicator.name(), "nccl");
      EXPECT_EQ(self.communicator.rank(), self.rank);
      EXPECT_EQ(self.communicator.size(), size);
      for (const DType dtype : kDTypes) {
        SCOPED_TRACE(name_of(dtype));
        std::vector<Bytes> short_ones, long_ones;
        for (int r = 0; r < size; ++r) {
          short_ones.push_back(values(r, kCount, dtype));
          long_ones.push_back(values(r, kCount * size, dtype));
        }
        const auto mine = static_cast<std::size_t>(self.rank);
        const std::size_t block = short_ones[0].size();
        for (const ReduceOp op : kOps) {
          SCOPED_TRACE(name_of(op));
          const auto all = self.buffer(short_ones[mine]);
          const auto scattered = self.buffer(long_ones[mine]);
          self.communicator.all_reduce(self.stream, all->address(), kCount, dtype, op);
          self.communicator.reduce_scatter(self.stream, scattered->address(), kCount, dtype, op);
          self.stream.synchronize();
          EXPECT_EQ(Rank::read(*all), reduced(short_ones, kCount, dtype, op));
          const Bytes whole = reduced(long_ones, kCount * size, dtype, op);
          const Bytes got = Rank::read(*scattered);
          EXPECT_EQ(std::memcmp(got.data() + mine * block, whole.data() + mine * block, block), 0);
        }
        Bytes gathered(long_ones[0].size()), expected;
        std::memcpy(gathered.data() + mine * block, short_ones[mine].data(), block);
        for (const Bytes& one : short_ones) expected.insert(expected.end(), one.begin(), one.end());
        const auto all = self.buffer(gathered);
        self.communicator.all_gather(self.stream, all->address(), kCount, dtype);
        const auto sent = self.buffer(short_ones[mine]);
        self.communicator.broadcast(self.stream, sent->address(), kCount, dtype, size - 1);
        self.communicator.barrier(self.stream);
        self.stream.synchronize();
        EXPECT_EQ(Rank::read(*all), expected);
        EXPECT_EQ(Rank::read(*sent), short_ones.back());
      }
    }));
}

TEST_F(NcclCommunicator, LongerThanASlotAndOfNoElements) {
  constexpr std::int64_t kCount = 150'001;  // of f64: several slots, and not whole ones
  expect_no_error(run(2, [&](const Rank& self) {
    const std::vector<Bytes> given = {values(0, kCount, DType::f64), values(1, kCount, DType::f64)};
    const auto data = self.buffer(given[static_cast<std::size_t>(self.rank)]);
    self.communicator.all_reduce(self.stream, data->address(), kCount, DType::f64, ReduceOp::sum);
    self.communicator.all_reduce(self.stream, nullptr, 0, DType::f64, ReduceOp::sum);
    self.stream.synchronize();
    EXPECT_EQ(Rank::read(*data), reduced(given, kCount, DType::f64, ReduceOp::sum));
  }));
}

TEST_F(NcclCommunicator, AGroupIsInOrderWithTheStream) {
  expect_no_error(run(2, [&](const Rank& self) {
    const auto a = self.device.allocate(64, "a"), b = self.device.allocate(64, "b");
    const auto out = self.device.allocate(64, "out");
    // Bytes of 1 are the i32 0x01010101; nothing waits for anything on the host.
    self.stream.fill(a->address(), static_cast<std::uint8_t>(self.rank + 1), 64, nullptr);
    self.stream.fill(b->address(), static_cast<std::uint8_t>(7 * self.rank), 64, nullptr);
    const std::array group = {
        CollectiveCall{.data = a->address(), .count = 16, .dtype = DType::i32},
        CollectiveCall{.kind = Kind::broadcast,
                       .data = b->address(),
                       .count = 16,
                       .dtype = DType::i32,
                       .root = 1},
        CollectiveCall{.kind = Kind::barrier}};
    self.communicator.enqueue(self.stream, group);
    self.stream.copy(out->address(), a->address(), 64, nullptr);
    self.stream.synchronize();
    EXPECT_EQ(Rank::read(*out), Bytes(64, std::byte{3}));
    EXPECT_EQ(Rank::read(*b), Bytes(64, std::byte{7}));
  }));
}

TEST_F(NcclCommunicator, CallsThatCannotBeAreRefusedBeforeAnythingIsEnqueued) {
  expect_no_error(run(1, [&](const Rank& self) {
    const auto data = self.buffer(Bytes(16));
    const auto refused = [&](CollectiveCall call) {
      EXPECT_THROW(self.communicator.enqueue(self.stream, {&call, 1}), UsageError)
          << describe(call);
    };
    refused({.data = data->address(), .count = -1});
    refused({.data = nullptr, .count = 1});
    refused({.data = data->address(), .count = 1, .dtype = DType::boolean});
    refused({.kind = Kind::broadcast, .data = data->address(), .count = 1, .root = 1});
    self.communicator.all_reduce(self.stream, data->address(), 4, DType::f32, ReduceOp::sum);
    self.stream.synchronize();
  }));
  EXPECT_THROW(make_nccl_communicator({}, {}, 2, 2), UsageError);
}

TEST_F(NcclCommunicator, CallsThatDifferAreAnErrorThatNamesBoth) {
  const auto errors = run(2, [&](const Rank& self) {
    const auto data = self.buffer(values(self.rank, 64, DType::f32));
    self.communicator.all_reduce(self.stream, data->address(), self.rank == 0 ? 64 : 32, DType::f32,
                                 ReduceOp::sum);
    self.stream.synchronize();
  });
  for (const auto& error : errors) {
    EXPECT_TRUE(says(error, "rank 0 is at number 1, ncclAllReduce(count 64, float32, sum)"))
        << text(error);
    EXPECT_TRUE(says(error, "rank 1 at number 1, ncclAllReduce(count 32, float32, sum)"))
        << text(error);
  }
}

TEST_F(NcclCommunicator, ATimeoutNamesTheCollectiveAndAnotherCommunicatorWorks) {
  set("hang", "2@1");
  const auto body = [&](const Rank& self) {
    const auto data = self.buffer(values(self.rank, 8, DType::f32));
    const auto after = self.device.allocate(32, "after");
    self.stream.fill(after->address(), 0, 32, nullptr);
    enqueue_sums(self, *data, 3, ReduceOp::average);
    self.stream.fill(after->address(), 1, 32, nullptr);
    const Failure failure = self.stream.drain(nullptr);
    // What is enqueued behind a failed collective does not run, and later calls fail at once.
    EXPECT_EQ(Rank::read(*after)[0], failure ? std::byte{0} : std::byte{1});
    if (!failure) return;
    EXPECT_NE(self.communicator.failure(), nullptr);
    EXPECT_THROW(self.communicator.barrier(self.stream), CommError);
    std::rethrow_exception(failure.error);
  };
  const auto errors = run(2, body, {.timeout = 300ms});
  // Whoever looks first tells the other, by its abort.
  bool timed_out = false;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (says(errors[r], "has not ended")) {
      timed_out = true;
      EXPECT_TRUE(says(errors[r], "nccl rank " + std::to_string(r) +
                                      " of 2: all_reduce(average, f32[8]) (group 2)"))
          << text(errors[r]);
    } else {
      EXPECT_TRUE(says(errors[r], "has aborted")) << text(errors[r]);
    }
  }
  EXPECT_TRUE(timed_out);
  set("hang", "0");
  expect_no_error(run(2, body));
}

TEST_F(NcclCommunicator, AnAsynchronousErrorReachesEveryRank) {
  set("fail_collective", "2:2@0");
  const auto errors = run(2, [&](const Rank& self) {
    const auto data = self.buffer(values(self.rank, 8, DType::f32));
    enqueue_sums(self, *data, 3);
    self.stream.synchronize();
  });
  EXPECT_TRUE(says(errors[0], "ncclSystemError") && says(errors[0], "injected")) << text(errors[0]);
  EXPECT_TRUE(says(errors[1], "ncclRemoteError") && says(errors[1], "rank 0 has aborted"))
      << text(errors[1]);
}

TEST_F(NcclCommunicator, ARankThatDiesIsNamedByTheOthers) {
  set("die", "1@2");
  const auto errors = run(3,
                          [&](const Rank& self) {
                            const auto data = self.buffer(values(self.rank, 8, DType::f32));
                            self.communicator.all_reduce(self.stream, data->address(), 8,
                                                         DType::f32, ReduceOp::sum);
                            self.stream.synchronize();
                          },
                          {.timeout = 300ms});
  // Of the two that live, the later may see the other's abort first.
  EXPECT_TRUE(says(errors[0], "rank 2 is dead") || says(errors[1], "rank 2 is dead"))
      << text(errors[0]) << "\n"
      << text(errors[1]);
  for (const auto& error : errors) EXPECT_TRUE(says(error, "")) << text(error);
}

TEST_F(NcclCommunicator, AbortEndsWhatIsInFlight) {
  set("hang", "1");
  const auto errors = run(2, [&](const Rank& self) {
    const auto data = self.buffer(values(self.rank, 8, DType::f32));
    self.communicator.all_reduce(self.stream, data->address(), 8, DType::f32, ReduceOp::sum);
    std::thread other([&] { self.communicator.abort("the user went home"); });
    other.join();
    self.stream.synchronize();
  });
  for (const auto& error : errors) EXPECT_TRUE(says(error, "the user went home")) << text(error);
}

TEST_F(NcclCommunicator, OneCheckForSeveralGroups) {
  set("fail_collective", "1@1");
  const auto errors = run(2,
                          [&](const Rank& self) {
                            const auto data = self.buffer(values(self.rank, 8, DType::f32));
                            const auto after = self.device.allocate(32, "after");
                            self.stream.fill(after->address(), 0, 32, nullptr);
                            enqueue_sums(self, *data, 3);
                            self.communicator.settle(self.stream);
                            self.stream.fill(after->address(), 1, 32, nullptr);
                            const Failure failure = self.stream.drain(nullptr);
                            EXPECT_EQ(Rank::read(*after)[0], std::byte{0});
                            if (failure) std::rethrow_exception(failure.error);
                          },
                          {.check_each = false});
  for (const auto& error : errors) EXPECT_TRUE(says(error, "")) << text(error);
}

TEST_F(NcclCommunicator, JoiningFailsInBoundedTime) {
  set("fail_init", "1:2@0");
  EXPECT_TRUE(says(run(1, [](const Rank&) {})[0], "ncclCommInitRankConfig"));
  set("fail_init", "0");
  const auto device = make_cuda_device({}, {.emulated = true});
  const NcclDevice access = nccl_device(*device);
  const NcclOptions options{.join_timeout = 100ms};
  try {
    make_nccl_communicator(access, make_nccl_id(access), 0, 2, options);
    FAIL() << "a rank joined alone";
  } catch (const CommError& error) {
    EXPECT_NE(std::string_view(error.what()).find("not all of the 2 ranks"), std::string::npos)
        << error.what();
  }
  try {
    make_nccl_communicator(access, NcclId{}, 0, 1, options);
    FAIL() << "joined with no id";
  } catch (const CommError& error) {
    EXPECT_EQ(error.foreign(), "ncclInvalidArgument") << error.what();
  }
}

TEST_F(NcclCommunicator, TheEmbeddersCommunicatorStaysIts) {
  const auto library = nccl::Library::load(RIFFLE_EMULATED_NCCL);
  const auto device = make_cuda_device({}, {.emulated = true});
  const NcclDevice access = nccl_device(*device);
  nccl::UniqueId id{};
  ASSERT_EQ(library->api().GetUniqueId(&id), nccl::kSuccess);
  nccl::Config config;
  config.blocking = 1;
  nccl::CommHandle comm = nullptr;
  access.with_context([&] {
    ASSERT_EQ(library->api().CommInitRankConfig(&comm, 1, id, 0, &config), nccl::kSuccess);
  });
  const auto stream = device->create_stream({"communication", false, 1});
  const auto data = device->allocate(32, "data");
  stream->fill(data->address(), 1, 32, nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto communicator = adopt_nccl_communicator(access, comm);
    EXPECT_EQ(communicator->size(), 1);
    communicator->all_reduce(*stream, data->address(), 8, DType::i32, ReduceOp::sum);
    stream->synchronize();
  }
  EXPECT_THROW(adopt_nccl_communicator(access, nullptr), UsageError);
  access.with_context([&] { EXPECT_EQ(library->api().CommDestroy(comm), nccl::kSuccess); });
  EXPECT_THROW(adopt_nccl_communicator(access, comm), CommError);  // destroyed
}

TEST_F(NcclCommunicator, OutlivesItsStreamAndItsBuffers) {
  expect_no_error(run(1, [&](const Rank& self) {
    const auto data = self.buffer(Bytes(32));
    const auto stream = self.device.create_stream({"another", false, 1});  // drains when it goes
    self.communicator.all_reduce(*stream, data->address(), 8, DType::f32, ReduceOp::sum);
  }));
}

TEST(NcclDevice, IsACudaDevice) {
  const auto cpu = make_cpu_device({.threads = 1});
  EXPECT_THROW(nccl_device(*cpu), UsageError);
}

/// One step on each of two devices: gradients arrive, are averaged by a hook on the communication
/// stream, and are then used on the compute stream.
TEST_F(NcclCommunicator, AGradientHookAveragesInPlaceBitForBit) {
  constexpr std::int64_t kCount = 1000;
  constexpr auto kBytes = kCount * 4;
  const std::vector<Bytes> given = {values(0, kCount, DType::f32), values(1, kCount, DType::f32)};
  expect_no_error(run(2, [&](const Rank& self) {
    ScheduleBuilder builder;
    builder.schedule.streams = {{"compute", true, 0}, {"communication", false, 1}};
    const BufferId input = builder.buffer("input", kBytes, true);
    const BufferId gradient = builder.buffer("gradient", kBytes, false, true);
    const BufferId parameter = builder.buffer("parameter", kBytes, true, true);
    const EventId ready = builder.event(), done = builder.event();
    builder.add(0, Copy{}, {reads(input, 0, kBytes), writes(gradient, 0, kBytes)});
    builder.record(0, ready);
    builder.wait(1, ready);
    builder.collective(1, "all_reduce", changes(gradient, 0, kBytes), done);
    builder.wait(0, done);
    builder.add(0, Copy{}, {reads(gradient, 0, kBytes), writes(parameter, 0, kBytes)}, "update",
                Phase::optimizer);

    const auto in = self.buffer(given[static_cast<std::size_t>(self.rank)]);
    const auto out = self.device.allocate(kBytes, "gradient");
    const auto updated = self.buffer(Bytes(kBytes));
    const std::shared_ptr<Communicator> communicator(&self.communicator, [](Communicator*) {});
    Executor executor(self.device);
    executor.prepare(std::make_shared<const Schedule>(builder.schedule));
    const Bindings bindings{.buffers = {in.get(), out.get(), updated.get()},
                            .modules = {nullptr},
                            .hooks = {all_reduce_hook(communicator, DType::f32)}};
    for (int step = 0; step < 3; ++step) {
      executor.run(bindings);
      EXPECT_EQ(Rank::read(*updated), reduced(given, kCount, DType::f32, ReduceOp::average));
    }
    // A failing collective fails the step before anything is updated.
    self.communicator.abort("enough");
    updated->write(0, Bytes(kBytes));
    EXPECT_THROW(executor.run(bindings), CommError);
    EXPECT_EQ(Rank::read(*updated), Bytes(kBytes));
  }));
}

}  // namespace
}  // namespace riffle::runtime
