// Compiled kernels written by hand as KernelSpecs: addressing, tails, guards, reductions' order.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "codegen/reduction_order.h"
#include "host_run.h"

namespace riffle::codegen {
namespace {

using testing::Compiled;
using testing::Memory;

KernelProgram program_of(std::vector<TensorType> types, KernelSpec kernel) {
  KernelProgram program;
  for (std::size_t k = 0; k < types.size(); ++k)
    program.slots.push_back({types[k], "s" + std::to_string(k)});
  kernel.name = "k0";
  program.kernels.push_back(std::move(kernel));
  return program;
}

std::vector<KernelOperand> operands(std::size_t reads) {
  std::vector<KernelOperand> list;
  for (std::size_t k = 0; k < reads; ++k)
    list.push_back({static_cast<std::int32_t>(k), Access::read});
  list.push_back({static_cast<std::int32_t>(reads), Access::write});
  return list;
}

Expr load(std::int32_t operand, DType dtype, std::vector<std::int64_t> strides,
          std::int64_t offset = 0) {
  Expr e;
  e.kind = Expr::Kind::load;
  e.dtype = dtype;
  e.operand = operand;
  e.address = {offset, std::move(strides)};
  return e;
}

Store store(std::int32_t operand, std::vector<std::int64_t> strides, ExprId value) {
  return {.operand = operand, .address = {0, std::move(strides)}, .value = value};
}

/// Every CPU class that we generate for and this machine can run.
std::vector<HostTarget> targets() {
  std::vector<HostTarget> list = {detect_host()};
  for (int vector_bytes : {32, 16})
    if (vector_bytes < list[0].vector_bytes) {
      list.push_back(list[0]);
      list.back().vector_bytes = vector_bytes;
    }
  return list;
}

void fill_random(std::span<float> values, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> any(-2, 2);
  for (float& v : values) v = any(random);
}

TEST(HostLoop, PermutesOfAnySize) {
  for (const HostTarget& target : targets())
    for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                 {3, 5},
                                 {16, 16},
                                 {37, 130},
                                 {200, 3},
                                 {64, 1024}}) {
      LoopBody body;
      body.space = {columns, rows};
      body.exprs = {load(0, DType::f32, {1, columns})};
      body.stores = {store(1, {rows, 1}, 0)};
      const KernelProgram program =
          program_of({{DType::f32, {rows, columns}}, {DType::f32, {columns, rows}}},
                     {.operands = operands(1), .body = body});
      const auto slots = testing::slots_of(program);
      fill_random(slots[0].as<float>(), 1);
      Compiled(program, target).run(slots);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(slots[1].as<float>()[static_cast<std::size_t>(c * rows + r)],
                    slots[0].as<float>()[static_cast<std::size_t>(r * columns + c)])
              << rows << 'x' << columns << ' ' << target.vector_bytes;
      EXPECT_TRUE(slots[1].intact());
    }
}

template <class T>
void copy_case(DType dtype, const HostTarget& target) {
  for (std::int64_t n : {1, 7, 16, 33, 50000}) {
    LoopBody body;
    body.space = {n};
    body.exprs = {load(0, dtype, {1})};
    body.stores = {store(1, {1}, 0)};
    const KernelProgram program =
        program_of({{dtype, {n}}, {dtype, {n}}}, {.operands = operands(1), .body = body});
    const auto slots = testing::slots_of(program);
    std::mt19937 random(static_cast<unsigned>(n));
    for (T& v : slots[0].as<T>())
      v = static_cast<T>(random() % (dtype == DType::boolean ? 2 : 10000));
    Compiled(program, target).run(slots);
    for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k)
      ASSERT_EQ(slots[1].as<T>()[k], slots[0].as<T>()[k]) << name_of(dtype) << ' ' << n;
    EXPECT_TRUE(slots[1].intact());
  }
}

TEST(HostLoop, CopiesEveryDTypeAndLength) {
  for (const HostTarget& target : targets()) {
    copy_case<float>(DType::f32, target);
    copy_case<double>(DType::f64, target);
    copy_case<std::uint16_t>(DType::bf16, target);
    copy_case<std::uint16_t>(DType::f16, target);
    copy_case<std::int64_t>(DType::i64, target);
    copy_case<std::int32_t>(DType::i32, target);
    copy_case<std::uint8_t>(DType::boolean, target);
  }
}

TEST(HostLoop, GuardsFillOutside) {
  // Padding: out[5, n + 6] = in[3, n] at (1, 4), 7 elsewhere.
  for (const HostTarget& target : targets())
    for (std::int64_t n : {1, 10, 16, 33}) {
      LoopBody body;
      body.space = {5, n + 6};
      Expr e = load(0, DType::f32, {n, 1}, -n - 4);
      e.value = 7;
      e.guards = {{{-1, {1, 0}}, 0, 3}, {{-4, {0, 1}}, 0, n}};
      body.exprs = {e};
      body.stores = {store(1, {n + 6, 1}, 0)};
      const KernelProgram program = program_of({{DType::f32, {3, n}}, {DType::f32, {5, n + 6}}},
                                               {.operands = operands(1), .body = body});
      const auto slots = testing::slots_of(program);
      fill_random(slots[0].as<float>(), 2);
      Compiled(program, target).run(slots);
      for (std::int64_t r = 0; r < 5; ++r)
        for (std::int64_t c = 0; c < n + 6; ++c) {
          const bool inside = r >= 1 && r < 4 && c >= 4 && c < 4 + n;
          const float expected =
              inside ? slots[0].as<float>()[static_cast<std::size_t>((r - 1) * n + c - 4)] : 7;
          ASSERT_EQ(slots[1].as<float>()[static_cast<std::size_t>(r * (n + 6) + c)], expected)
              << r << ',' << c << " n=" << n << " v" << target.vector_bytes;
        }
    }
}

/// out[i, j] = table[index[i or j], …]: rows by a uniform index, elements by an index per lane.
TEST(HostLoop, IndirectLoadsAndTheirReports) {
  for (const HostTarget& target : targets())
    for (bool per_lane : {false, true}) {
      const std::int64_t rows = 9, columns = 35, entries = 6;
      LoopBody body;
      body.space = {rows, columns};
      Expr index =
          load(0, DType::i64,
               per_lane ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{1, 0});
      Expr value = load(1, DType::f32, {0, per_lane ? 0 : 1});
      value.indirect = {{.index = 0, .stride = columns, .size = entries}};
      body.exprs = {index, value};
      body.stores = {store(2, {columns, 1}, 1)};
      const KernelProgram program = program_of({{DType::i64, {per_lane ? columns : rows}},
                                                {DType::f32, {entries, columns}},
                                                {DType::f32, {rows, columns}}},
                                               {.operands = operands(2), .body = body});
      const auto slots = testing::slots_of(program);
      fill_random(slots[1].as<float>(), 3);
      const auto indices = slots[0].as<std::int64_t>();
      for (std::size_t k = 0; k < indices.size(); ++k)
        indices[k] = static_cast<std::int64_t>(k * 5 % 6);
      const Compiled compiled(program, target);
      auto check = [&] {
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            std::int64_t at = indices[static_cast<std::size_t>(per_lane ? j : i)];
            if (at < 0 || at >= entries) at = 0;
            ASSERT_EQ(
                slots[2].as<float>()[static_cast<std::size_t>(i * columns + j)],
                slots[1].as<float>()[static_cast<std::size_t>(at * columns + (per_lane ? 0 : j))]);
          }
      };
      EXPECT_EQ(compiled.run(slots).code, 0);
      check();
      for (std::int64_t bad : {std::int64_t{6}, std::int64_t{-1}, std::int64_t{1} << 40}) {
        indices[7] = bad;
        const runtime::KernelStatus status = compiled.run(slots);
        EXPECT_EQ(status.code, runtime::kIndexOutOfRange);
        EXPECT_EQ(status.value, bad);
        EXPECT_EQ(status.limit, entries);
        check();
      }
    }
}

/// reduction_order.h, written out.
float lanes_sum(std::span<const float> row) {
  if (row.empty()) return 0;
  std::vector<float> lanes;
  for (std::size_t r = 0; r < row.size(); ++r) {
    if (r < kLanes)
      lanes.push_back(row[r]);
    else
      lanes[r % kLanes] += row[r];
  }
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t j = 0; j < width && j + width < lanes.size(); ++j)
      lanes[j] += lanes[j + width];
  return lanes[0];
}

TEST(HostRow, SumsInTheOrderOfTheShape) {
  for (const HostTarget& target : targets())
    for (std::int64_t n : {0, 1, 10, 17, 64, 100, 1000}) {
      const std::int64_t rows = 5;
      RowBody body;
      body.outer = {rows};
      body.inner = {n};
      RowBody::Stage stage;
      stage.exprs = {load(0, DType::f32, {n, 1})};
      stage.reductions = {{ReduceKind::sum, 0, DType::f32}};
      body.stages = {stage};
      Expr carried;
      carried.kind = Expr::Kind::carried;
      carried.carried = 0;
      body.final_exprs = {carried};
      body.final_stores = {store(1, {1, 0}, 0)};
      const KernelProgram program = program_of({{DType::f32, {rows, n}}, {DType::f32, {rows}}},
                                               {.operands = operands(1), .body = body});
      const auto slots = testing::slots_of(program);
      fill_random(slots[0].as<float>(), static_cast<unsigned>(n));
      Compiled(program, target).run(slots);
      for (std::int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(slots[1].as<float>()[static_cast<std::size_t>(r)],
                  lanes_sum(slots[0].as<float>().subspan(static_cast<std::size_t>(r * n),
                                                         static_cast<std::size_t>(n))))
            << n << " v" << target.vector_bytes;
    }
}

TEST(HostRow, KeepsTheSignOfAZeroSum) {
  for (std::int64_t n : {1, 5, 64, 70}) {
    RowBody body;
    body.outer = {};
    body.inner = {n};
    RowBody::Stage stage;
    stage.exprs = {load(0, DType::f32, {1})};
    stage.reductions = {{ReduceKind::sum, 0, DType::f32}, {ReduceKind::argmax, 0, DType::f32}};
    body.stages = {stage};
    Expr sum, largest;
    sum.kind = largest.kind = Expr::Kind::carried;
    sum.carried = 0;
    largest.carried = 1;
    largest.dtype = DType::i64;
    body.final_exprs = {sum, largest};
    body.final_stores = {store(1, {0}, 0), store(2, {0}, 1)};
    const KernelProgram program = program_of(
        {{DType::f32, {n}}, {DType::f32, {}}, {DType::i64, {}}},
        {.operands = {{0, Access::read}, {1, Access::write}, {2, Access::write}}, .body = body});
    const auto slots = testing::slots_of(program);
    const Compiled compiled(program, detect_host());
    std::ranges::fill(slots[0].as<float>(), -0.0F);
    compiled.run(slots);
    EXPECT_TRUE(std::signbit(slots[1].as<float>()[0])) << n;
    EXPECT_EQ(slots[2].as<std::int64_t>()[0], 0) << n;
    // −inf everywhere is an element like others; NaN is the largest.
    std::ranges::fill(slots[0].as<float>(), -INFINITY);
    compiled.run(slots);
    EXPECT_EQ(slots[2].as<std::int64_t>()[0], 0) << n;
    slots[0].as<float>()[static_cast<std::size_t>(n - 1)] = NAN;
    compiled.run(slots);
    EXPECT_EQ(slots[2].as<std::int64_t>()[0], n - 1) << n;
  }
}

TEST(HostRow, FoldsColumnsOneAfterTheOther) {
  for (const HostTarget& target : targets())
    for (std::int64_t columns : {1, 17, 64, 1000})
      for (std::int64_t rows : {1, 2, 33}) {
        RowBody body;
        body.outer = {columns};
        body.inner = {rows};
        body.lanes = false;
        RowBody::Stage stage;
        stage.exprs = {load(0, DType::f32, {1, columns})};
        stage.reductions = {{ReduceKind::sum, 0, DType::f32}};
        body.stages = {stage};
        Expr carried;
        carried.kind = Expr::Kind::carried;
        carried.carried = 0;
        body.final_exprs = {carried};
        body.final_stores = {store(1, {1, 0}, 0)};
        const KernelProgram program =
            program_of({{DType::f32, {rows, columns}}, {DType::f32, {columns}}},
                       {.operands = operands(1), .body = body});
        const auto slots = testing::slots_of(program);
        fill_random(slots[0].as<float>(), static_cast<unsigned>(columns));
        Compiled(program, target).run(slots);
        for (std::int64_t c = 0; c < columns; ++c) {
          float sum = slots[0].as<float>()[static_cast<std::size_t>(c)];
          for (std::int64_t r = 1; r < rows; ++r)
            sum += slots[0].as<float>()[static_cast<std::size_t>(r * columns + c)];
          ASSERT_EQ(slots[1].as<float>()[static_cast<std::size_t>(c)], sum)
              << rows << 'x' << columns << " v" << target.vector_bytes;
        }
        EXPECT_TRUE(slots[1].intact());
      }
}

TEST(HostRow, RowsThatAreNotOneRunOfMemory) {
  // sum over dimensions 0 and 2 of [4, 3, n]: lanes rotate when n is no multiple of 64.
  for (const HostTarget& target : targets())
    for (std::int64_t n : {5, 64, 70}) {
      RowBody body;
      body.outer = {3};
      body.inner = {4, n};
      RowBody::Stage stage;
      stage.exprs = {load(0, DType::f32, {n, 3 * n, 1})};
      stage.reductions = {{ReduceKind::sum, 0, DType::f32}};
      body.stages = {stage};
      Expr carried;
      carried.kind = Expr::Kind::carried;
      carried.carried = 0;
      body.final_exprs = {carried};
      body.final_stores = {store(1, {1, 0, 0}, 0)};
      const KernelProgram program = program_of({{DType::f32, {4, 3, n}}, {DType::f32, {3}}},
                                               {.operands = operands(1), .body = body});
      const auto slots = testing::slots_of(program);
      fill_random(slots[0].as<float>(), 9);
      Compiled(program, target).run(slots);
      for (std::int64_t middle = 0; middle < 3; ++middle) {
        std::vector<float> row;
        for (std::int64_t first = 0; first < 4; ++first)
          for (std::int64_t last = 0; last < n; ++last)
            row.push_back(
                slots[0].as<float>()[static_cast<std::size_t>((first * 3 + middle) * n + last)]);
        ASSERT_EQ(slots[1].as<float>()[static_cast<std::size_t>(middle)], lanes_sum(row)) << n;
      }
    }
}

TEST(HostScatter, AddsInRowMajorOrder) {
  for (const HostTarget& target : targets())
    for (bool with_base : {false, true})
      for (std::int64_t columns : {1, 7, 64, 200}) {
        const std::int64_t entries = 5, tokens = 40;
        ScatterBody body;
        body.space = {tokens, columns};
        body.exprs = {load(0, DType::i64, {1, 0}), load(1, DType::f32, {columns, 1})};
        body.index = 0;
        body.source = 1;
        body.address.strides = {0, 1};
        body.index_stride = columns;
        body.index_size = entries;
        body.out = 3;
        body.base = with_base ? 2 : -1;
        body.out_shape = {entries, columns};
        const KernelProgram program = program_of({{DType::i64, {tokens}},
                                                  {DType::f32, {tokens, columns}},
                                                  {DType::f32, {entries, columns}},
                                                  {DType::f32, {entries, columns}}},
                                                 {.operands = operands(3), .body = body});
        const auto slots = testing::slots_of(program);
        fill_random(slots[1].as<float>(), 4);
        fill_random(slots[2].as<float>(), 5);
        for (std::size_t k = 0; k < static_cast<std::size_t>(tokens); ++k)
          slots[0].as<std::int64_t>()[k] = static_cast<std::int64_t>(k * 3 % 5);
        const Compiled compiled(program, target);
        EXPECT_EQ(compiled.run(slots).code, 0);
        std::vector<float> expected(static_cast<std::size_t>(entries * columns));
        if (with_base) std::ranges::copy(slots[2].as<float>(), expected.begin());
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t c = 0; c < columns; ++c)
            expected[static_cast<std::size_t>(
                slots[0].as<std::int64_t>()[static_cast<std::size_t>(t)] * columns + c)] +=
                slots[1].as<float>()[static_cast<std::size_t>(t * columns + c)];
        for (std::size_t k = 0; k < expected.size(); ++k)
          ASSERT_EQ(slots[3].as<float>()[k], expected[k]) << columns;
        EXPECT_TRUE(slots[3].intact());
      }
}

}  // namespace
}  // namespace riffle::codegen
