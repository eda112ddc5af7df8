// Generated code against the host evaluator, bit for bit: every operation of ScalarBuilder, every
// dtype, scalars and vectors. And the bounds of the elementary functions on a million points each.
#include "codegen/emit/scalar_llvm.h"

#include <gtest/gtest.h>
#include <llvm/IR/Module.h>

#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "codegen/host/target.h"
#include "ir/math.h"
#include "ir/scalar_eval.h"
#include "jit/compile_partition.h"
#include "tests/support/ulp.h"

namespace riffle::codegen {
namespace {

using ir::Compare;
using ir::EvalScalarBuilder;
using ir::Scalar;
using ir::ScalarBuilder;

/// A function of some operands, elementwise.
struct Case {
  std::string name;
  std::vector<DType> operands;
  DType result{};
  std::function<Scalar(ScalarBuilder&, const std::vector<Scalar>&)> emit;
};

/// void f(void** operands, i64 begin, i64 end, …): the loop over vectors of `width` elements.
void emit_case(llvm::Module& module, const std::string& symbol, const Case& c, int width) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                       {pointer, i64, i64, pointer, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* body = llvm::BasicBlock::Create(context, "body", function);
  auto* exit = llvm::BasicBlock::Create(context, "exit", function);
  llvm::IRBuilder<> ir(entry);
  std::vector<llvm::Value*> arrays;
  for (std::size_t k = 0; k <= c.operands.size(); ++k)
    arrays.push_back(
        ir.CreateLoad(pointer, ir.CreateConstGEP1_64(pointer, function->getArg(0), k)));
  ir.CreateBr(body);

  ir.SetInsertPoint(body);
  auto* index = ir.CreatePHI(i64, 2);
  index->addIncoming(function->getArg(1), entry);
  LlvmScalarBuilder b(ir, width);
  std::vector<Scalar> operands;
  for (std::size_t k = 0; k < c.operands.size(); ++k) {
    const DType d = c.operands[k];
    llvm::Value* address = ir.CreateGEP(memory_type(context, d), arrays[k], index);
    operands.push_back(
        b.from_memory(ir.CreateAlignedLoad(b.memory_type(d), address, llvm::Align(1)), d));
  }
  const Scalar result = c.emit(b, operands);
  ASSERT_EQ(result.dtype, c.result) << c.name;
  ir.CreateAlignedStore(b.to_memory(result),
                        ir.CreateGEP(memory_type(context, c.result), arrays.back(), index),
                        llvm::Align(1));
  llvm::Value* next = ir.CreateAdd(index, ir.getInt64(static_cast<std::uint64_t>(width)));
  index->addIncoming(next, body);
  ir.CreateCondBr(ir.CreateICmpSLT(next, function->getArg(2)), body, exit);
  ir.SetInsertPoint(exit);
  ir.CreateRetVoid();
}

/// The cases compiled for the host in one module.
class Kernels {
 public:
  Kernels(const std::vector<Case>& cases, int width, HostTarget target = detect_host()) {
    HostObject object;
    for (std::size_t k = 0; k < cases.size(); ++k)
      object.entries.push_back({.symbol = "case_" + std::to_string(k), .geometry = {}});
    object.object =
        compile_module(code_target(target), "scalar_llvm_test", {}, [&](llvm::Module& module) {
          for (std::size_t k = 0; k < cases.size(); ++k)
            emit_case(module, object.entries[k].symbol, cases[k], width);
        }).object;
    linked_ = linker_.link(object, "scalar_llvm_test");
  }
  /// `count` is a multiple of the width.
  void run(std::size_t k, std::vector<void*> operands, std::size_t count) const {
    runtime::KernelStatus status;
    linked_.functions[k](operands.data(), 0, static_cast<std::int64_t>(count), nullptr, &status);
  }

 private:
  jit::Linker linker_;
  jit::Linker::Linked linked_;
};

// ---- every operation, bit for bit --------------------------------------------------------------

std::uint64_t load_bits(const std::byte* at, DType d) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(size_of(d)));
  return bits;
}

/// Random bits, small numbers, and the values at which something may go wrong.
std::vector<std::byte> inputs(DType d, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(size_of(d)));
  const double special[] = {0.0,
                            -0.0,
                            1,
                            -1,
                            0.5,
                            -0.5,
                            1.5,
                            2.5,
                            3,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            1e-40,
                            -1e-40,
                            6e-8,
                            65504,
                            65520,
                            3.4e38,
                            2147483648.0,
                            -2147483648.0,
                            2147483647,
                            9.3e18,
                            -9.3e18,
                            1e300,
                            1e-310,
                            1 + 0x1p-8 + 0x1p-40};
  EvalScalarBuilder b;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (d == DType::boolean) bits &= 1;
    // Positions of specials differ with the seed, so that they meet in pairs.
    if (i % 4 == 1) bits = scalar_to_memory(b.constant(d, special[random() % std::size(special)]));
    if (i % 4 == 2)
      bits = scalar_to_memory(b.constant(d, static_cast<double>(random() % 4096) / 64 - 32));
    if (i % 16 == 3 && is_integer(d)) bits = 1ULL << (d == DType::i32 ? 31 : 63);
    std::memcpy(bytes.data() + i * static_cast<std::size_t>(size_of(d)), &bits,
                static_cast<std::size_t>(size_of(d)));
  }
  return bytes;
}

void expect_same_bits(const std::vector<Case>& cases, int width, const HostTarget& target) {
  constexpr std::size_t count = 4096;
  const Kernels kernels(cases, width, target);
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Case& c = cases[k];
    std::vector<std::vector<std::byte>> data;
    std::vector<void*> pointers;
    for (std::size_t j = 0; j < c.operands.size(); ++j)
      data.push_back(inputs(c.operands[j], count, j));
    data.emplace_back(count * static_cast<std::size_t>(size_of(c.result)));
    for (auto& bytes : data) pointers.push_back(bytes.data());
    kernels.run(k, pointers, count);

    EvalScalarBuilder b;
    int failures = 0;
    for (std::size_t i = 0; i < count && failures < 4; ++i) {
      std::vector<Scalar> operands;
      std::string shown;
      for (std::size_t j = 0; j < c.operands.size(); ++j) {
        const DType d = c.operands[j];
        operands.push_back(ir::scalar_from_memory(
            d, load_bits(data[j].data() + i * static_cast<std::size_t>(size_of(d)), d)));
        shown += " " + std::to_string(scalar_value(operands.back()));
      }
      const Scalar expected = c.emit(b, operands);
      const std::uint64_t got =
          load_bits(data.back().data() + i * static_cast<std::size_t>(size_of(c.result)), c.result);
      const double got_value = scalar_value(ir::scalar_from_memory(c.result, got));
      if (std::isnan(got_value) && std::isnan(scalar_value(expected))) continue;
      if (got != scalar_to_memory(expected)) ++failures;
      EXPECT_EQ(got, scalar_to_memory(expected))
          << c.name << " width " << width << " on" << shown << ": " << got_value << ", not "
          << scalar_value(expected);
    }
  }
}

std::vector<Case> operation_cases() {
  std::vector<Case> cases;
  using Binary = Scalar (ScalarBuilder::*)(Scalar, Scalar);
  using Unary = Scalar (ScalarBuilder::*)(Scalar);
  const auto binary = [&](const char* name, DType d, Binary f) {
    cases.push_back(
        {name + (" " + std::string(name_of(d))),
         {d, d},
         d,
         [f](ScalarBuilder& b, const std::vector<Scalar>& x) { return (b.*f)(x[0], x[1]); }});
  };
  const auto unary = [&](const char* name, DType d, Unary f) {
    cases.push_back({name + (" " + std::string(name_of(d))),
                     {d},
                     d,
                     [f](ScalarBuilder& b, const std::vector<Scalar>& x) { return (b.*f)(x[0]); }});
  };
  for (DType d : kAllDTypes) {
    const std::string suffix = " " + std::string(name_of(d));
    binary("add", d, &ScalarBuilder::add);
    binary("mul", d, &ScalarBuilder::mul);
    unary("abs", d, &ScalarBuilder::abs);
    unary("floor", d, &ScalarBuilder::floor);
    unary("round_even", d, &ScalarBuilder::round_even);
    if (d != DType::boolean) {
      binary("sub", d, &ScalarBuilder::sub);
      binary("div", d, &ScalarBuilder::div);
      unary("neg", d, &ScalarBuilder::neg);
    }
    if (is_floating(d)) unary("sqrt", d, &ScalarBuilder::sqrt);
    if (d == DType::f32 || d == DType::f64)
      cases.push_back(
          {"fma" + suffix, {d, d, d}, d, [](ScalarBuilder& b, const std::vector<Scalar>& x) {
             return b.fma(x[0], x[1], x[2]);
           }});
    for (Compare how :
         {Compare::eq, Compare::ne, Compare::lt, Compare::le, Compare::gt, Compare::ge})
      cases.push_back({"compare " + std::to_string(static_cast<int>(how)) + suffix,
                       {d, d},
                       DType::boolean,
                       [how](ScalarBuilder& b, const std::vector<Scalar>& x) {
                         return b.compare(how, x[0], x[1]);
                       }});
    cases.push_back({"select" + suffix,
                     {DType::boolean, d, d},
                     d,
                     [](ScalarBuilder& b, const std::vector<Scalar>& x) {
                       return b.select(x[0], x[1], x[2]);
                     }});
    if (!is_floating(d)) {
      binary("bit_and", d, &ScalarBuilder::bit_and);
      binary("bit_or", d, &ScalarBuilder::bit_or);
      binary("bit_xor", d, &ScalarBuilder::bit_xor);
    }
    if (is_integer(d))
      for (int bits : {0, 1, 7, 31}) {
        const std::string tail = " by " + std::to_string(bits) + suffix;
        cases.push_back(
            {"shift_left" + tail, {d}, d, [bits](ScalarBuilder& b, const std::vector<Scalar>& x) {
               return b.shift_left(x[0], bits);
             }});
        cases.push_back(
            {"shift_right" + tail, {d}, d, [bits](ScalarBuilder& b, const std::vector<Scalar>& x) {
               return b.shift_right(x[0], bits);
             }});
        cases.push_back({"shift_right_arithmetic" + tail,
                         {d},
                         d,
                         [bits](ScalarBuilder& b, const std::vector<Scalar>& x) {
                           return b.shift_right_arithmetic(x[0], bits);
                         }});
      }
    for (DType to : kAllDTypes)
      cases.push_back(
          {"cast" + suffix + " to " + std::string(name_of(to)),
           {d},
           to,
           [to](ScalarBuilder& b, const std::vector<Scalar>& x) { return b.cast(x[0], to); }});
    for (double value : {0.0, -1.0, 0.1, 1e10, -1e30, 70000.0})
      cases.push_back({"constant " + std::to_string(value) + suffix,
                       {d},
                       d,
                       [d, value](ScalarBuilder& b, const std::vector<Scalar>& x) {
                         return b.select(b.compare(Compare::eq, x[0], x[0]), b.constant(d, value),
                                         x[0]);
                       }});
  }
  const auto bitcast = [&](DType from, DType to) {
    cases.push_back(
        {"bitcast to " + std::string(name_of(to)),
         {from},
         to,
         [to](ScalarBuilder& b, const std::vector<Scalar>& x) { return b.bitcast(x[0], to); }});
  };
  bitcast(DType::f32, DType::i32);
  bitcast(DType::i32, DType::f32);
  bitcast(DType::f64, DType::i64);
  bitcast(DType::i64, DType::f64);
  return cases;
}

std::vector<Case> function_cases(const std::vector<DType>& dtypes) {
  std::vector<Case> cases;
  for (DType d : dtypes) {
    for (const test::UnaryFunction& f : test::kUnaryFunctions)
      cases.push_back(
          {f.name + (" " + std::string(name_of(d))),
           {d},
           d,
           [&f](ScalarBuilder& b, const std::vector<Scalar>& x) { return f.emit(b, x[0]); }});
    cases.push_back(
        {"pow " + std::string(name_of(d)),
         {d, d},
         d,
         [](ScalarBuilder& b, const std::vector<Scalar>& x) { return math_pow(b, x[0], x[1]); }});
  }
  return cases;
}

const std::vector<DType> kFloating = {DType::f32, DType::f64, DType::bf16, DType::f16};

TEST(ScalarLlvm, OperationsHaveTheEvaluatorsBits) {
  for (int width : {1, 16}) expect_same_bits(operation_cases(), width, detect_host());
}

TEST(ScalarLlvm, FunctionsHaveTheEvaluatorsBits) {
  for (int width : {1, 16}) expect_same_bits(function_cases(kFloating), width, detect_host());
}

TEST(ScalarLlvm, ALesserCpuGivesTheSameBits) {
  HostTarget target = detect_host();
  if (!target.triple.starts_with("x86_64")) GTEST_SKIP() << "not an x86-64 machine";
  target.cpu = "x86-64-v3";
  target.features.clear();
  expect_same_bits(operation_cases(), 8, target);
  expect_same_bits(function_cases(kFloating), 8, target);
}

TEST(ScalarLlvm, UndefinedOperationsAreErrors) {
  llvm::LLVMContext context;
  llvm::IRBuilder<> ir(context);
  LlvmScalarBuilder b(ir, 1);
  const Scalar yes = b.constant(DType::boolean, 1), half = b.constant(DType::bf16, 1);
  EXPECT_THROW(b.sub(yes, yes), CompileError);
  EXPECT_THROW(b.div(yes, yes), CompileError);
  EXPECT_THROW(b.neg(yes), CompileError);
  EXPECT_THROW(b.fma(half, half, half), CompileError);
  EXPECT_THROW(b.bit_and(half, half), CompileError);
  EXPECT_THROW(b.shift_left(half, 1), CompileError);
  EXPECT_THROW(b.bitcast(half, DType::i32), CompileError);
  EXPECT_THROW(b.sqrt(b.constant(DType::i32, 4)), CompileError);
}

// ---- bounds ------------------------------------------------------------------------------------

/// `per_exponent` random numbers of each sign and exponent in [low, high].
template <class Float, class Bits>
void append_strata(std::vector<Float>& points, int fraction_bits, int low, int high,
                   int per_exponent, std::mt19937_64& random) {
  const int sign_shift = sizeof(Float) * 8 - 1;
  for (int exponent = low; exponent <= high; ++exponent)
    for (int i = 0; i < per_exponent; ++i) {
      const Bits fraction = static_cast<Bits>(random()) & ((Bits{1} << fraction_bits) - 1);
      const Bits sign = static_cast<Bits>(i & 1) << sign_shift;
      points.push_back(std::bit_cast<Float>(
          static_cast<Bits>(sign | (static_cast<Bits>(exponent) << fraction_bits) | fraction)));
    }
}

template <class Float, class Distance>
void expect_bounds(DType d, std::vector<Float> points, double test::UnaryFunction::* bound,
                   Distance distance) {
  const int width = 64 / static_cast<int>(sizeof(Float));
  while (points.size() % static_cast<std::size_t>(width) != 0) points.push_back(0);
  const Kernels kernels(function_cases({d}), width);
  std::vector<Float> results(points.size());
  std::size_t k = 0;
  for (const test::UnaryFunction& f : test::kUnaryFunctions) {
    kernels.run(k++, {points.data(), results.data()}, points.size());
    double worst = 0;
    Float at = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double error = distance(results[i], f.exact(points[i]));
      if (error > worst) worst = error, at = points[i];
    }
    EXPECT_LE(worst, f.*bound) << f.name << " at " << at;
    testing::Test::RecordProperty(std::string(f.name) + "_ulp", std::to_string(worst));
  }
}

TEST(MathBounds, F32OnAMillionPoints) {
  std::mt19937_64 random(1);
  std::vector<float> points;
  append_strata<float, std::uint32_t>(points, 23, 0, 254, 1500, random);
  // Where the functions do not saturate.
  append_strata<float, std::uint32_t>(points, 23, 127 - 26, 127 + 8, 20000, random);
  expect_bounds(DType::f32, std::move(points), &test::UnaryFunction::bound_f32,
                test::ulp_distance_f32);
}

TEST(MathBounds, F64OnAMillionPoints) {
  std::mt19937_64 random(2);
  std::vector<double> points;
  append_strata<double, std::uint64_t>(points, 52, 0, 2046, 150, random);
  append_strata<double, std::uint64_t>(points, 52, 1023 - 54, 1023 + 11, 12000, random);
  expect_bounds(DType::f64, std::move(points), &test::UnaryFunction::bound_f64,
                test::ulp_distance_f64);
}

}  // namespace
}  // namespace riffle::codegen
