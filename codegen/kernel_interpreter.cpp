#include "codegen/kernel_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/reduction_order.h"
#include "ir/scalar_eval.h"

namespace riffle::codegen {
namespace {

using ir::Compare;
using ir::Scalar;
using Point = std::vector<std::int64_t>;

std::int64_t at(const Affine& affine, const Point& point) {
  std::int64_t value = affine.offset;
  for (std::size_t d = 0; d < affine.strides.size(); ++d) value += affine.strides[d] * point[d];
  return value;
}

/// Calls body(point) for every point of `space`, row-major, in dimensions first … of `point`.
template <class Body>
void for_each_point(const Shape& space, std::size_t first, Point& point, const Body& body) {
  for (std::size_t d = 0; d < space.size(); ++d) point[first + d] = 0;
  for (std::int64_t n = element_count(space); n-- > 0;) {
    body();
    for (std::size_t d = space.size(); d > 0; --d) {
      if (++point[first + d - 1] < space[d - 1]) break;
      point[first + d - 1] = 0;
    }
  }
}

class Interpreter {
 public:
  Interpreter(const KernelProgram& program, const KernelSpec& kernel,
              std::span<std::byte* const> operands, runtime::KernelStatus& status)
      : program_(program), kernel_(kernel), operands_(operands), status_(status) {}

  void run() {
    std::visit([this](const auto& body) { run(body); }, kernel_.body);
  }

 private:
  DType dtype_of(std::int32_t operand) const {
    const std::int32_t slot = kernel_.operands[static_cast<std::size_t>(operand)].slot;
    return program_.slots[static_cast<std::size_t>(slot)].type.dtype;
  }

  Scalar read(std::int32_t operand, std::int64_t element) const {
    const DType dtype = dtype_of(operand);
    const auto size = static_cast<std::size_t>(size_of(dtype));
    std::uint64_t bits = 0;  // little-endian hosts
    std::memcpy(
        &bits,
        operands_[static_cast<std::size_t>(operand)] + static_cast<std::size_t>(element) * size,
        size);
    return ir::scalar_from_memory(dtype, bits);
  }

  void write(std::int32_t operand, std::int64_t element, Scalar value) const {
    const auto size = static_cast<std::size_t>(size_of(value.dtype));
    const std::uint64_t bits = ir::scalar_to_memory(value);
    std::memcpy(
        operands_[static_cast<std::size_t>(operand)] + static_cast<std::size_t>(element) * size,
        &bits, size);
  }

  std::int64_t integer(Scalar value) {
    return static_cast<std::int64_t>(ir::scalar_to_memory(b_.cast(value, DType::i64)));
  }
  Scalar integer(std::int64_t value) {
    return b_.constant_bits(DType::i64, static_cast<std::uint64_t>(value));
  }

  /// False (and reported) when it is not in [0, size).
  bool check_index(std::int64_t index, std::int64_t size) {
    if (index >= 0 && index < size) return true;
    status_ = {runtime::kIndexOutOfRange, index, size};
    return false;
  }

  Scalar load(const Expr& expr, const std::vector<Scalar>& values, const Point& point) {
    for (const Guard& guard : expr.guards) {
      const std::int64_t value = at(guard.value, point);
      if (value < guard.lower || value >= guard.upper) return b_.constant(expr.dtype, expr.value);
    }
    std::int64_t element = at(expr.address, point);
    for (const Indirect& indirect : expr.indirect) {
      const std::int64_t index = integer(values[static_cast<std::size_t>(indirect.index)]);
      if (check_index(index, indirect.size)) element += indirect.stride * index;
    }
    return read(expr.operand, element);
  }

  std::vector<Scalar> evaluate(const std::vector<Expr>& exprs, const Point& point,
                               const std::vector<Scalar>& carried) {
    std::vector<Scalar> values;
    values.reserve(exprs.size());
    for (const Expr& expr : exprs) {
      switch (expr.kind) {
        case Expr::Kind::load:
          values.push_back(load(expr, values, point));
          break;
        case Expr::Kind::constant:
          values.push_back(b_.constant(expr.dtype, expr.value));
          break;
        case Expr::Kind::index:
          values.push_back(b_.cast(integer(at(expr.address, point)), expr.dtype));
          break;
        case Expr::Kind::carried:
          values.push_back(carried[static_cast<std::size_t>(expr.carried)]);
          break;
        case Expr::Kind::op: {
          std::vector<Scalar> arguments;
          for (ExprId argument : expr.arguments)
            arguments.push_back(values[static_cast<std::size_t>(argument)]);
          const auto emit = ir::info(expr.op).block.emit;
          if (!emit)
            throw CompileError(
                {.what = fmt::format("op '{}' has no scalar function", ir::info(expr.op).text),
                 .where = kernel_.name});
          values.push_back(emit(b_, arguments, expr.attrs));
          break;
        }
      }
    }
    return values;
  }

  void store(const std::vector<Store>& stores, const std::vector<Scalar>& values,
             const Point& point) const {
    for (const Store& s : stores)
      write(s.operand, at(s.address, point), values[static_cast<std::size_t>(s.value)]);
  }

  void run(const LoopBody& body) {
    Point point(body.space.size());
    for_each_point(body.space, 0, point,
                   [&] { store(body.stores, evaluate(body.exprs, point, {}), point); });
  }

  /// One accumulator; `index` is argmax's.
  struct Accumulator {
    Scalar value;
    std::int64_t index = 0;
  };

  static bool is_nan(Scalar x) {
    return is_floating(x.dtype) && ir::scalar_value(x) != ir::scalar_value(x);
  }
  bool holds(Compare how, Scalar a, Scalar b) {
    return ir::scalar_to_memory(b_.compare(how, a, b)) != 0;
  }
  static bool negative(Scalar x) { return std::signbit(ir::scalar_value(x)); }

  Accumulator combine(ReduceKind kind, const Accumulator& a, const Accumulator& b) {
    switch (kind) {
      case ReduceKind::sum:
        return {b_.add(a.value, b.value)};
      case ReduceKind::prod:
        return {b_.mul(a.value, b.value)};
      case ReduceKind::max:
      case ReduceKind::min: {
        if (is_nan(a.value)) return a;
        if (is_nan(b.value)) return b;
        const bool maximum = kind == ReduceKind::max;
        if (holds(Compare::eq, a.value, b.value)) return negative(a.value) == maximum ? b : a;
        return holds(Compare::gt, a.value, b.value) == maximum ? a : b;
      }
      case ReduceKind::argmax:
        break;
    }
    const bool equal = (is_nan(a.value) && is_nan(b.value)) || holds(Compare::eq, a.value, b.value);
    if (equal) return a.index < b.index ? a : b;
    if (is_nan(a.value)) return a;
    return is_nan(b.value) || holds(Compare::gt, b.value, a.value) ? b : a;
  }

  Scalar identity(ReduceKind kind, DType dtype) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (kind) {
      case ReduceKind::sum:
        return b_.constant(dtype, 0);
      case ReduceKind::prod:
        return b_.constant(dtype, 1);
      case ReduceKind::argmax:
        return integer(0);
      case ReduceKind::max:
      case ReduceKind::min:
        break;
    }
    const bool maximum = kind == ReduceKind::max;
    if (is_floating(dtype)) return b_.constant(dtype, maximum ? -kInfinity : kInfinity);
    if (dtype == DType::i64)
      return integer(maximum ? std::numeric_limits<std::int64_t>::min()
                             : std::numeric_limits<std::int64_t>::max());
    if (dtype == DType::i32)
      return b_.constant(dtype, maximum ? std::numeric_limits<std::int32_t>::min()
                                        : std::numeric_limits<std::int32_t>::max());
    return b_.constant(dtype, maximum ? 0 : 1);
  }

  /// codegen/reduction_order.h.
  Scalar finish(const RowBody::Reduction& reduction, std::vector<Accumulator>& lanes) {
    if (lanes.empty()) return identity(reduction.kind, reduction.dtype);
    for (std::size_t width = kLanes / 2; width > 0; width /= 2)
      for (std::size_t j = 0; j < width && j + width < lanes.size(); ++j)
        lanes[j] = combine(reduction.kind, lanes[j], lanes[j + width]);
    if (reduction.kind == ReduceKind::argmax) return integer(lanes[0].index);
    return b_.cast(lanes[0].value, reduction.dtype);
  }

  void run(const RowBody& body) {
    const std::size_t outer = body.outer.size();
    Point point(outer + body.inner.size());
    for_each_point(body.outer, 0, point, [&] {
      std::vector<Scalar> carried;
      for (const RowBody::Stage& stage : body.stages) {
        std::vector<std::vector<Accumulator>> accumulators(stage.reductions.size());
        std::int64_t position = 0;
        for_each_point(body.inner, outer, point, [&] {
          const std::vector<Scalar> values = evaluate(stage.exprs, point, carried);
          for (std::size_t r = 0; r < stage.reductions.size(); ++r) {
            const RowBody::Reduction& reduction = stage.reductions[r];
            const Accumulator x = {b_.cast(values[static_cast<std::size_t>(reduction.value)],
                                           compute_dtype(reduction.dtype)),
                                   position};
            auto& lanes = accumulators[r];
            const std::size_t lane = body.lanes ? static_cast<std::size_t>(position % kLanes) : 0;
            if (lane == lanes.size())
              lanes.push_back(x);
            else
              lanes[lane] = combine(reduction.kind, lanes[lane], x);
          }
          store(stage.stores, values, point);
          ++position;
        });
        for (std::size_t r = 0; r < stage.reductions.size(); ++r)
          carried.push_back(finish(stage.reductions[r], accumulators[r]));
      }
      std::fill(point.begin() + static_cast<std::ptrdiff_t>(outer), point.end(), 0);
      store(body.final_stores, evaluate(body.final_exprs, point, carried), point);
    });
  }

  void run(const MatmulBody& body) {
    Shape space = body.batch;
    space.insert(space.end(), {body.m, body.n});
    Point point(space.size());
    const DType accumulator = compute_dtype(body.dtype);
    const auto base = [&](const MatmulBody::Side& side) {
      std::int64_t offset = side.offset;
      for (std::size_t d = 0; d < body.batch.size(); ++d)
        offset += side.batch_strides[d] * point[d];
      return offset;
    };
    for_each_point(space, 0, point, [&] {
      const std::int64_t a = base(body.a) + body.a.row_stride * point[point.size() - 2];
      const std::int64_t b = base(body.b) + body.b.column_stride * point.back();
      Scalar sum = b_.constant(accumulator, 0);
      for (std::int64_t k = 0; k < body.k; ++k) {
        const Scalar x = b_.cast(read(body.a.operand, a + k * body.a.column_stride), accumulator);
        const Scalar y = b_.cast(read(body.b.operand, b + k * body.b.row_stride), accumulator);
        sum = is_floating(accumulator) ? b_.fma(x, y, sum) : b_.add(b_.mul(x, y), sum);
      }
      store(body.stores, evaluate(body.epilogue, point, {b_.cast(sum, body.dtype)}), point);
    });
  }

  void run(const ScatterBody& body) {
    const DType dtype = dtype_of(body.out);
    for (std::int64_t e = element_count(body.out_shape); e-- > 0;)
      write(body.out, e, body.base < 0 ? b_.constant(dtype, 0) : read(body.base, e));
    Point point(body.space.size());
    for_each_point(body.space, 0, point, [&] {
      const std::vector<Scalar> values = evaluate(body.exprs, point, {});
      std::int64_t index = integer(values[static_cast<std::size_t>(body.index)]);
      if (!check_index(index, body.index_size)) return;
      const std::int64_t element = at(body.address, point) + body.index_stride * index;
      write(body.out, element,
            b_.add(read(body.out, element), values[static_cast<std::size_t>(body.source)]));
    });
  }

  const KernelProgram& program_;
  const KernelSpec& kernel_;
  std::span<std::byte* const> operands_;
  runtime::KernelStatus& status_;
  ir::EvalScalarBuilder b_;
};

}  // namespace

void interpret(const KernelProgram& program, const KernelSpec& kernel,
               std::span<std::byte* const> operands, runtime::KernelStatus& status) {
  Interpreter(program, kernel, operands, status).run();
}

std::vector<std::vector<std::byte>> interpret(
    const KernelProgram& program, std::span<const std::vector<std::byte>> inputs_then_parameters) {
  std::vector<std::vector<std::byte>> memory;
  for (const Slot& slot : program.slots)
    memory.emplace_back(static_cast<std::size_t>(slot.type.bytes()));
  std::vector<std::int32_t> given = program.input_slots;
  given.insert(given.end(), program.parameter_slots.begin(), program.parameter_slots.end());
  if (given.size() != inputs_then_parameters.size())
    throw GraphError({.what = fmt::format("expected {} inputs and parameters, got {}", given.size(),
                                          inputs_then_parameters.size())});
  for (std::size_t i = 0; i < given.size(); ++i) {
    std::vector<std::byte>& slot = memory[static_cast<std::size_t>(given[i])];
    if (slot.size() != inputs_then_parameters[i].size())
      throw GraphError({.what = fmt::format("expected {} bytes, got {}", slot.size(),
                                            inputs_then_parameters[i].size()),
                        .where = "%" + program.slots[static_cast<std::size_t>(given[i])].name});
    slot = inputs_then_parameters[i];
  }
  for (const KernelSpec& kernel : program.kernels) {
    std::vector<std::byte*> operands;
    for (const KernelOperand& operand : kernel.operands)
      operands.push_back(memory[static_cast<std::size_t>(operand.slot)].data());
    runtime::KernelStatus status;
    interpret(program, kernel, operands, status);
    if (status.code == runtime::kIndexOutOfRange)
      throw DeviceError({.what = fmt::format("index {} is out of range: expected 0 … {}",
                                             status.value, status.limit - 1),
                         .where = kernel.name});
  }
  std::vector<std::vector<std::byte>> outputs;
  for (std::int32_t slot : program.output_slots)
    outputs.push_back(memory[static_cast<std::size_t>(slot)]);
  return outputs;
}

}  // namespace riffle::codegen
