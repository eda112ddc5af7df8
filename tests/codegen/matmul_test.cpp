// Matmul kernels against a chain of std::fma in the order that kernel_spec.h promises: all bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/host/host_codegen.h"
#include "jit/compile_partition.h"
#include "support/float16.h"

namespace riffle::codegen {
namespace {

struct Case {
  std::int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  Shape batch{};
  bool broadcast_b = false;  ///< one b for all batches
  DType dtype = DType::f32;  ///< of the product
  DType a_dtype = DType::f32, b_dtype = DType::f32;
  bool bias_relu = false;         ///< epilogue: max(c + bias[n], 0), of `dtype`
  bool store_transposed = false;  ///< result laid out [batch, n, m]
};

std::string describe(const Case& c) {
  std::string text = std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k);
  text += c.transpose_a ? " At" : " A";
  text += c.transpose_b ? "·Bt" : "·B";
  text += " " + std::string(name_of(c.a_dtype)) + "·" + std::string(name_of(c.b_dtype)) + "→" +
          std::string(name_of(c.dtype)) + " batch " + riffle::to_string(c.batch);
  if (c.broadcast_b) text += " broadcast b";
  if (c.bias_relu) text += " bias relu";
  if (c.store_transposed) text += " transposed store";
  return text;
}

/// Memory of one operand, 64-byte aligned, with bytes behind it that must not change.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    storage_.assign(bytes_ + 128 + kGuard, std::byte{0xa5});
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = storage_.data() + ((64 - address % 64) % 64);
  }
  std::byte* data() { return begin_; }
  bool guard_intact() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (begin_[bytes_ + i] != std::byte{0xa5}) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* begin_;
};

template <class T>
T get(const std::byte* data, std::int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void put(std::byte* data, std::int64_t i, T value) {
  std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

float get_f32(const std::byte* data, DType dtype, std::int64_t i) {
  if (dtype == DType::bf16) return bf16_to_f32(get<std::uint16_t>(data, i));
  if (dtype == DType::f16) return f16_to_f32(get<std::uint16_t>(data, i));
  return get<float>(data, i);
}
float rounded(float value, DType dtype) {
  if (dtype == DType::bf16) return bf16_to_f32(f32_to_bf16(value));
  if (dtype == DType::f16) return f16_to_f32(f32_to_f16(value));
  return value;
}
void put_f32(std::byte* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::bf16) return put(data, i, f32_to_bf16(value));
  if (dtype == DType::f16) return put(data, i, f32_to_f16(value));
  put(data, i, value);
}

void fill(Memory& memory, DType dtype, std::int64_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::f64:
        put(memory.data(), i, normal(random));
        break;
      case DType::i32:
        put(memory.data(), i, static_cast<std::int32_t>(random()));
        break;
      case DType::i64:
        put(memory.data(), i, static_cast<std::int64_t>(random()));
        break;
      default:
        put_f32(memory.data(), dtype, i, static_cast<float>(normal(random)));
    }
  }
}

struct Built {
  KernelProgram program;
  std::vector<std::int64_t> sizes;  ///< elements of a, b, out, bias
};

Built build(const Case& c) {
  Built built;
  const std::int64_t batches = element_count(c.batch);
  built.sizes = {batches * c.m * c.k, (c.broadcast_b ? 1 : batches) * c.k * c.n,
                 batches * c.m * c.n, c.n};
  const DType dtypes[] = {c.a_dtype, c.b_dtype, c.dtype, c.dtype};
  const char* names[] = {"a", "b", "out", "bias"};
  for (std::size_t i = 0; i < 4; ++i)
    built.program.slots.push_back({{dtypes[i], {built.sizes[i]}}, names[i]});

  MatmulBody body;
  body.dtype = c.dtype;
  body.batch = c.batch;
  body.m = c.m;
  body.n = c.n;
  body.k = c.k;
  Shape outer(c.batch.size(), 1);  // row-major strides, in units of one product
  for (std::size_t d = c.batch.size(); d-- > 1;) outer[d - 1] = outer[d] * c.batch[d];
  auto times = [&](std::int64_t size) {
    Shape strides = outer;
    for (std::int64_t& stride : strides) stride *= size;
    return strides;
  };
  body.a = {.operand = 0,
            .offset = 0,
            .batch_strides = times(c.m * c.k),
            .row_stride = c.transpose_a ? 1 : c.k,
            .column_stride = c.transpose_a ? c.m : 1};
  body.b = {.operand = 1,
            .offset = 0,
            .batch_strides = times(c.broadcast_b ? 0 : c.k * c.n),
            .row_stride = c.transpose_b ? 1 : c.n,
            .column_stride = c.transpose_b ? c.k : 1};
  Affine product_at{0, times(c.m * c.n)};
  product_at.strides.push_back(c.store_transposed ? 1 : c.n);
  product_at.strides.push_back(c.store_transposed ? c.m : 1);
  Expr product;
  product.kind = Expr::Kind::carried;
  product.dtype = c.dtype;
  product.carried = 0;
  body.epilogue.push_back(product);
  ExprId result = 0;
  if (c.bias_relu) {
    Affine bias_at{0, Shape(c.batch.size() + 2, 0)};
    bias_at.strides.back() = 1;
    Expr bias;
    bias.kind = Expr::Kind::load;
    bias.dtype = c.dtype;
    bias.operand = 3;
    bias.address = bias_at;
    body.epilogue.push_back(bias);
    Expr sum;
    sum.kind = Expr::Kind::op;
    sum.dtype = c.dtype;
    sum.op = ir::Op::add;
    sum.arguments = {0, 1};
    body.epilogue.push_back(sum);
    Expr zero;
    zero.kind = Expr::Kind::constant;
    zero.dtype = c.dtype;
    body.epilogue.push_back(zero);
    Expr relu;
    relu.kind = Expr::Kind::op;
    relu.dtype = c.dtype;
    relu.op = ir::Op::maximum;
    relu.arguments = {2, 3};
    body.epilogue.push_back(relu);
    result = 4;
  }
  body.stores.push_back({2, product_at, result});

  KernelSpec spec;
  spec.name = "matmul";
  spec.operands = {{0, Access::read}, {1, Access::read}, {2, Access::write}, {3, Access::read}};
  spec.body = std::move(body);
  built.program.kernels.push_back(std::move(spec));
  built.program.input_slots = {0, 1, 3};
  built.program.output_slots = {2};
  return built;
}

void reference(const Case& c, const std::byte* a, const std::byte* b, const std::byte* bias,
               std::byte* out) {
  const std::int64_t batches = element_count(c.batch);
  for (std::int64_t batch = 0; batch < batches; ++batch)
    for (std::int64_t m = 0; m < c.m; ++m)
      for (std::int64_t n = 0; n < c.n; ++n) {
        const std::int64_t a0 = batch * c.m * c.k, b0 = c.broadcast_b ? 0 : batch * c.k * c.n;
        auto a_at = [&](std::int64_t k) {
          return a0 + (c.transpose_a ? k * c.m + m : m * c.k + k);
        };
        auto b_at = [&](std::int64_t k) {
          return b0 + (c.transpose_b ? n * c.k + k : k * c.n + n);
        };
        const std::int64_t at =
            batch * c.m * c.n + (c.store_transposed ? n * c.m + m : m * c.n + n);
        switch (c.dtype) {
          case DType::f64: {
            double sum = 0;
            for (std::int64_t k = 0; k < c.k; ++k)
              sum = std::fma(get<double>(a, a_at(k)), get<double>(b, b_at(k)), sum);
            put(out, at, sum);
            break;
          }
          case DType::i32: {
            std::uint32_t sum = 0;
            for (std::int64_t k = 0; k < c.k; ++k)
              sum += get<std::uint32_t>(a, a_at(k)) * get<std::uint32_t>(b, b_at(k));
            put(out, at, sum);
            break;
          }
          case DType::i64: {
            std::uint64_t sum = 0;
            for (std::int64_t k = 0; k < c.k; ++k)
              sum += get<std::uint64_t>(a, a_at(k)) * get<std::uint64_t>(b, b_at(k));
            put(out, at, sum);
            break;
          }
          default: {
            float sum = 0;
            for (std::int64_t k = 0; k < c.k; ++k)
              sum = std::fma(get_f32(a, c.a_dtype, a_at(k)), get_f32(b, c.b_dtype, b_at(k)), sum);
            sum = rounded(sum, c.dtype);
            if (c.bias_relu) {
              sum = rounded(sum + get_f32(bias, c.dtype, n), c.dtype);
              sum = sum > 0 ? sum : 0;
            }
            put_f32(out, c.dtype, at, sum);
          }
        }
      }
}

class MatmulTest : public testing::Test {
 protected:
  void check(const Case& c) {
    SCOPED_TRACE(describe(c));
    std::mt19937_64 random(static_cast<std::uint64_t>(c.m * 1000003 + c.n * 1009 + c.k));
    const Built built = build(c);
    const HostObject object = compile_host(built.program, target_, "t_");
    const jit::Linker::Linked linked = linker_.link(object, "matmul");
    const runtime::KernelGeometry geometry = object.entries.at(0).geometry;

    const DType dtypes[] = {c.a_dtype, c.b_dtype, c.dtype, c.dtype};
    std::vector<Memory> memory;
    for (std::size_t i = 0; i < 4; ++i) {
      memory.emplace_back(built.sizes[i] * size_of(dtypes[i]));
      if (i != 2) fill(memory[i], dtypes[i], built.sizes[i], random);
    }
    Memory expected(built.sizes[2] * size_of(c.dtype));
    reference(c, memory[0].data(), memory[1].data(), memory[3].data(), expected.data());

    // In one call; one task a call, backwards; in random pieces.
    for (int division = 0; division < 3; ++division) {
      std::vector<std::pair<std::int64_t, std::int64_t>> calls;
      if (division == 0) calls = {{0, geometry.tasks}};
      if (division == 1)
        for (std::int64_t t = geometry.tasks; t-- > 0;) calls.push_back({t, t + 1});
      if (division == 2)
        for (std::int64_t t = 0; t < geometry.tasks;) {
          const std::int64_t end =
              std::min(geometry.tasks, t + 1 + static_cast<std::int64_t>(random() % 5));
          calls.push_back({t, end});
          t = end;
        }
      Memory out(built.sizes[2] * size_of(c.dtype));
      void* operands[] = {memory[0].data(), memory[1].data(), out.data(), memory[3].data()};
      runtime::KernelStatus status;
      for (const auto& [begin, end] : calls) {
        Memory scratch(geometry.scratch_bytes);  // what is in it must not matter
        linked.functions.at(0)(operands, begin, end, scratch.data(), &status);
        ASSERT_TRUE(scratch.guard_intact()) << "wrote behind its scratch";
      }
      EXPECT_EQ(status.code, 0);
      ASSERT_TRUE(out.guard_intact()) << "wrote behind the result";
      const auto bytes = static_cast<std::size_t>(built.sizes[2] * size_of(c.dtype));
      if (std::memcmp(out.data(), expected.data(), bytes) == 0) continue;
      std::int64_t wrong = 0, first = -1;
      for (std::int64_t i = 0; i < built.sizes[2]; ++i)
        if (std::memcmp(out.data() + i * size_of(c.dtype), expected.data() + i * size_of(c.dtype),
                        static_cast<std::size_t>(size_of(c.dtype))) != 0) {
          ++wrong;
          if (first < 0) first = i;
        }
      FAIL() << wrong << " of " << built.sizes[2] << " elements differ, the first is " << first
             << "; division " << division;
    }
  }

  HostTarget target_ = detect_host();
  jit::Linker linker_;
};

constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 65, 100};

TEST_F(MatmulTest, OddShapesInEveryTransposition) {
  std::mt19937_64 random(1);
  auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
  for (int i = 0; i < 60; ++i)
    check({.m = size(),
           .n = size(),
           .k = size(),
           .transpose_a = (i & 1) != 0,
           .transpose_b = (i & 2) != 0,
           .bias_relu = (i & 4) != 0});
}

TEST_F(MatmulTest, ShapesThatTakeEveryPath) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      check({.m = 64, .n = 200, .k = 130, .transpose_a = ta, .transpose_b = tb});
      check({.m = 200, .n = 64, .k = 130, .transpose_a = ta, .transpose_b = tb});
      check({.m = 131, .n = 137, .k = 67, .transpose_a = ta, .transpose_b = tb, .bias_relu = true});
      check({.m = 70,
             .n = 90,
             .k = 33,
             .transpose_a = ta,
             .transpose_b = tb,
             .store_transposed = true});
      check({.m = 1, .n = 300, .k = 77, .transpose_a = ta, .transpose_b = tb});
      check({.m = 300, .n = 1, .k = 77, .transpose_a = ta, .transpose_b = tb});
    }
}

TEST_F(MatmulTest, SeveralBlocksOfDepthContinueTheSameChain) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      check({.m = 65, .n = 70, .k = 2500, .transpose_a = ta, .transpose_b = tb});
      check({.m = 7, .n = 100, .k = 4099, .transpose_a = ta, .transpose_b = tb, .bias_relu = true});
    }
  target_.l2_bytes = 64 << 10;  // a small cache: many blocks of everything
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      check(
          {.m = 150, .n = 170, .k = 333, .transpose_a = ta, .transpose_b = tb, .bias_relu = true});
}

TEST_F(MatmulTest, BatchesAndBroadcastOperands) {
  check({.m = 17, .n = 33, .k = 20, .batch = {3, 4}});
  check({.m = 17, .n = 33, .k = 20, .transpose_b = true, .batch = {2, 3}, .broadcast_b = true});
  check({.m = 64, .n = 96, .k = 64, .batch = {5}, .bias_relu = true});
  check({.m = 4, .n = 4, .k = 4, .batch = {100}});
  check({.m = 4, .n = 4, .k = 4, .batch = {0}});
  check({.m = 40, .n = 100, .k = 64, .transpose_a = true, .batch = {4}, .broadcast_b = true});
}

TEST_F(MatmulTest, EveryDType) {
  for (const DType dtype : {DType::f64, DType::i32, DType::i64, DType::bf16, DType::f16})
    for (int i = 0; i < 4; ++i) {
      const bool ta = (i & 1) != 0, tb = (i & 2) != 0;
      const bool relu = dtype == DType::bf16 || dtype == DType::f16;
      check({.m = 37,
             .n = 83,
             .k = 51,
             .transpose_a = ta,
             .transpose_b = tb,
             .dtype = dtype,
             .a_dtype = dtype,
             .b_dtype = dtype,
             .bias_relu = relu});
      check({.m = 5,
             .n = 3,
             .k = 19,
             .transpose_a = ta,
             .transpose_b = tb,
             .dtype = dtype,
             .a_dtype = dtype,
             .b_dtype = dtype});
    }
}

TEST_F(MatmulTest, SixteenBitOperandsOfAnF32Product) {
  for (int i = 0; i < 4; ++i) {
    const bool ta = (i & 1) != 0, tb = (i & 2) != 0;
    check({.m = 37,
           .n = 83,
           .k = 51,
           .transpose_a = ta,
           .transpose_b = tb,
           .a_dtype = DType::bf16,
           .b_dtype = DType::f32});
    check({.m = 64,
           .n = 83,
           .k = 64,
           .transpose_a = ta,
           .transpose_b = tb,
           .a_dtype = DType::f32,
           .b_dtype = DType::f16});
  }
}

TEST_F(MatmulTest, NarrowerRegistersGiveTheSameBits) {
  for (const int bytes : {32, 16}) {
    target_.vector_bytes = bytes;
    for (int i = 0; i < 4; ++i) {
      const bool ta = (i & 1) != 0, tb = (i & 2) != 0;
      check({.m = 61, .n = 45, .k = 70, .transpose_a = ta, .transpose_b = tb, .bias_relu = true});
      check({.m = 9,
             .n = 45,
             .k = 7,
             .transpose_a = ta,
             .transpose_b = tb,
             .dtype = DType::bf16,
             .a_dtype = DType::bf16,
             .b_dtype = DType::bf16});
    }
  }
}

TEST_F(MatmulTest, NothingToSumGivesZerosThroughTheEpilogue) {
  check({.m = 5, .n = 20, .k = 0});
  check({.m = 5, .n = 20, .k = 0, .bias_relu = true});
  check({.m = 0, .n = 20, .k = 3});
  check({.m = 5, .n = 0, .k = 3});
}

}  // namespace
}  // namespace riffle::codegen
