// Checks that a KernelProgram is well formed: whatever an emitter may take for granted.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/fusion_index.h"
#include "codegen/kernel_spec.h"

namespace riffle::codegen {
namespace {

// Beyond so many points, addresses whose guards mix loop dimensions are not enumerated.
constexpr std::int64_t kEnumeratedPoints = 1 << 20;

class KernelVerifier {
 public:
  KernelVerifier(const KernelProgram& program, const KernelSpec& kernel)
      : program_(program), kernel_(kernel) {}

  void run() {
    for (const KernelOperand& operand : kernel_.operands)
      require(in_range(operand.slot, program_.slots.size()), "an operand's slot is out of range");
    for (const auto& [written, read] : kernel_.may_alias)
      require(in_range(written, kernel_.operands.size()) && in_range(read, kernel_.operands.size()),
              "may_alias names an operand out of range");
    std::visit([this](const auto& body) { check(body); }, kernel_.body);
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> text, Args&&... args) const {
    if (condition) return;
    throw CompileError(
        {.what = "malformed kernel: " + fmt::format(text, std::forward<Args>(args)...) +
                 " (a bug of riffle's)",
         .where = kernel_.name,
         .hint = "`set fuse off` may avoid it; please report it"});
  }

  static bool in_range(std::int64_t index, std::size_t size) {
    return index >= 0 && index < static_cast<std::int64_t>(size);
  }

  const TensorType& type(std::int32_t operand, Access access) const {
    require(in_range(operand, kernel_.operands.size()), "operand {} does not exist", operand);
    const KernelOperand& o = kernel_.operands[static_cast<std::size_t>(operand)];
    require((static_cast<int>(o.access) & static_cast<int>(access)) != 0,
            "operand {} is used against its declared access", operand);
    return program_.slots[static_cast<std::size_t>(o.slot)].type;
  }

  /// Smallest and largest value of the address plus `reach` (what indirect indices may add).
  void check_address(const Affine& address, const std::vector<Guard>& guards, std::int64_t reach,
                     std::int64_t elements, const Shape& space) const {
    require(address.strides.size() == space.size(), "an address has {} strides for {} loops",
            address.strides.size(), space.size());
    for (const Guard& guard : guards)
      require(guard.value.strides.size() == space.size(), "a guard has the wrong rank");
    if (element_count(space) == 0) return;
    const auto fits = [&](std::int64_t low, std::int64_t high) {
      return low >= 0 && high + reach < elements;
    };
    if (const auto [low, high] = range_of(address, space); fits(low, high)) return;
    require(!guards.empty(), "address {} … leaves the slot of {} elements", address.offset,
            elements);
    if (fits_in_guarded_box(address, guards, space, fits)) return;
    require(element_count(space) <= kEnumeratedPoints,
            "an address cannot be shown to be in bounds");
    std::vector<std::int64_t> point(space.size(), 0);
    for (std::int64_t n = element_count(space); n-- > 0;) {
      const auto at = [&](const Affine& a) {
        std::int64_t value = a.offset;
        for (std::size_t d = 0; d < point.size(); ++d) value += a.strides[d] * point[d];
        return value;
      };
      const bool loads = std::all_of(guards.begin(), guards.end(), [&](const Guard& g) {
        return at(g.value) >= g.lower && at(g.value) < g.upper;
      });
      require(!loads || fits(at(address), at(address)), "address {} leaves the slot of {} elements",
              at(address), elements);
      for (std::size_t d = space.size(); d > 0; --d) {
        if (++point[d - 1] < space[d - 1]) break;
        point[d - 1] = 0;
      }
    }
  }

  /// Guards over one loop each cut a box out of the space.
  template <class Fits>
  static bool fits_in_guarded_box(const Affine& address, const std::vector<Guard>& guards,
                                  const Shape& space, const Fits& fits) {
    std::vector<std::int64_t> first(space.size(), 0), last(space.size());
    for (std::size_t d = 0; d < space.size(); ++d) last[d] = space[d] - 1;
    for (const Guard& guard : guards) {
      std::size_t used = space.size();
      for (std::size_t d = 0; d < space.size(); ++d) {
        if (guard.value.strides[d] == 0 || space[d] == 1) continue;
        if (used != space.size()) return false;
        used = d;
      }
      if (used == space.size()) continue;
      while (first[used] <= last[used] &&
             guard.value.offset + guard.value.strides[used] * first[used] < guard.lower)
        ++first[used];
      while (last[used] >= first[used] &&
             guard.value.offset + guard.value.strides[used] * last[used] >= guard.upper)
        --last[used];
      if (first[used] > last[used]) return true;  // never loads
    }
    std::int64_t low = address.offset, high = address.offset;
    for (std::size_t d = 0; d < space.size(); ++d) {
      const std::int64_t a = address.strides[d] * first[d], b = address.strides[d] * last[d];
      low += std::min(a, b);
      high += std::max(a, b);
    }
    return fits(low, high);
  }

  void check_exprs(const std::vector<Expr>& exprs, const Shape& space, std::size_t carried) const {
    for (std::size_t i = 0; i < exprs.size(); ++i) {
      const Expr& expr = exprs[i];
      switch (expr.kind) {
        case Expr::Kind::load: {
          const TensorType& loaded = type(expr.operand, Access::read);
          require(loaded.dtype == expr.dtype, "%{} loads {} from a slot of {}", i,
                  name_of(expr.dtype), name_of(loaded.dtype));
          std::int64_t reach = 0;
          for (const Indirect& indirect : expr.indirect) {
            require(in_range(indirect.index, i), "%{} is indexed by a later expression", i);
            require(is_integer(exprs[static_cast<std::size_t>(indirect.index)].dtype),
                    "%{} is indexed by a value that is no integer", i);
            require(indirect.stride >= 0, "%{} has a negative indirect stride", i);
            reach += indirect.stride * std::max<std::int64_t>(indirect.size - 1, 0);
          }
          check_address(expr.address, expr.guards, reach, loaded.elements(), space);
          break;
        }
        case Expr::Kind::index:
          require(expr.address.strides.size() == space.size(), "%{} has the wrong rank", i);
          break;
        case Expr::Kind::constant:
          break;
        case Expr::Kind::carried:
          require(in_range(expr.carried, carried), "%{} reads carried {} of {}", i, expr.carried,
                  carried);
          break;
        case Expr::Kind::op: {
          const ir::OpInfo& info = ir::info(expr.op);
          require(info.family == ir::OpFamily::elementwise, "%{} is not elementwise", i);
          require(expr.arguments.size() >= info.required_operands() &&
                      expr.arguments.size() <= info.maximum_operands(),
                  "%{} has {} arguments", i, expr.arguments.size());
          for (ExprId argument : expr.arguments)
            require(in_range(argument, i), "%{} reads %{} before it is computed", i, argument);
          break;
        }
      }
    }
  }

  void check_stores(const std::vector<Store>& stores, const std::vector<Expr>& exprs,
                    const Shape& space) const {
    for (const Store& store : stores) {
      require(in_range(store.value, exprs.size()), "a store's value does not exist");
      const TensorType& stored = type(store.operand, Access::write);
      require(stored.dtype == exprs[static_cast<std::size_t>(store.value)].dtype,
              "a store of {} into a slot of {}",
              name_of(exprs[static_cast<std::size_t>(store.value)].dtype), name_of(stored.dtype));
      check_address(store.address, {}, 0, stored.elements(), space);
    }
  }

  void check(const LoopBody& body) const {
    require(!body.space.empty(), "a loop without dimensions");
    check_exprs(body.exprs, body.space, 0);
    check_stores(body.stores, body.exprs, body.space);
  }

  void check(const RowBody& body) const {
    require(!body.outer.empty() && !body.inner.empty(), "rows without dimensions");
    Shape space = body.outer;
    space.insert(space.end(), body.inner.begin(), body.inner.end());
    std::size_t carried = 0;
    for (const RowBody::Stage& stage : body.stages) {
      check_exprs(stage.exprs, space, carried);
      check_stores(stage.stores, stage.exprs, space);
      for (const RowBody::Reduction& reduction : stage.reductions) {
        require(in_range(reduction.value, stage.exprs.size()), "a reduction of nothing");
        require(stage.exprs[static_cast<std::size_t>(reduction.value)].dtype == reduction.dtype,
                "a reduction in another dtype than its value's");
      }
      carried += stage.reductions.size();
    }
    std::fill(space.begin() + static_cast<std::ptrdiff_t>(body.outer.size()), space.end(), 1);
    check_exprs(body.final_exprs, space, carried);
    check_stores(body.final_stores, body.final_exprs, space);
  }

  void check(const MatmulBody& body) const {
    const auto side = [&](const MatmulBody::Side& s, std::int64_t rows, std::int64_t columns) {
      Affine address{s.offset, s.batch_strides};
      require(s.batch_strides.size() == body.batch.size(), "a side has the wrong batch rank");
      address.strides.insert(address.strides.end(), {s.row_stride, s.column_stride});
      Shape space = body.batch;
      space.insert(space.end(), {rows, columns});
      check_address(address, {}, 0, type(s.operand, Access::read).elements(), space);
    };
    side(body.a, body.m, body.k);
    side(body.b, body.k, body.n);
    Shape space = body.batch;
    space.insert(space.end(), {body.m, body.n});
    check_exprs(body.epilogue, space, 1);
    check_stores(body.stores, body.epilogue, space);
  }

  void check(const ScatterBody& body) const {
    require(!body.space.empty(), "a scatter without dimensions");
    check_exprs(body.exprs, body.space, 0);
    require(in_range(body.index, body.exprs.size()) && in_range(body.source, body.exprs.size()),
            "a scatter of nothing");
    const TensorType& out = type(body.out, Access::write);
    require(out.shape == body.out_shape, "a scatter into another shape");
    require(body.exprs[static_cast<std::size_t>(body.source)].dtype == out.dtype,
            "a scatter of another dtype");
    if (body.base >= 0)
      require(type(body.base, Access::read).bytes() == out.bytes(), "a scatter on another base");
    check_address(body.address, {},
                  body.index_stride * std::max<std::int64_t>(body.index_size - 1, 0),
                  out.elements(), body.space);
  }

  const KernelProgram& program_;
  const KernelSpec& kernel_;
};

}  // namespace

void verify(const KernelProgram& program) {
  std::vector<bool> written(program.slots.size(), false);
  const auto fail = [&](const std::string& what, const std::string& where) {
    throw CompileError(
        {.what = "malformed kernel program: " + what + " (a bug of riffle's)", .where = where});
  };
  const auto known = [&](const std::vector<std::int32_t>& slots) {
    for (std::int32_t slot : slots)
      if (slot < 0 || slot >= static_cast<std::int32_t>(program.slots.size()))
        fail("a slot out of range", "");
  };
  known(program.input_slots);
  known(program.parameter_slots);
  known(program.output_slots);
  for (std::int32_t slot : program.input_slots) written[static_cast<std::size_t>(slot)] = true;
  for (std::int32_t slot : program.parameter_slots) written[static_cast<std::size_t>(slot)] = true;
  std::vector<bool> given = written;
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    if (program.slots[s].type.elements() == 0) written[s] = true;
  for (const KernelSpec& kernel : program.kernels) {
    KernelVerifier(program, kernel).run();
    for (const KernelOperand& operand : kernel.operands) {
      const auto slot = static_cast<std::size_t>(operand.slot);
      if (operand.access != Access::write && !written[slot])
        fail("%" + program.slots[slot].name + " is read before it is written", kernel.name);
      if (operand.access != Access::read && given[slot])
        fail("%" + program.slots[slot].name + " is an input and written", kernel.name);
    }
    for (const KernelOperand& operand : kernel.operands)
      if (operand.access != Access::read) written[static_cast<std::size_t>(operand.slot)] = true;
  }
  for (std::int32_t slot : program.output_slots)
    if (!written[static_cast<std::size_t>(slot)])
      fail("output %" + program.slots[static_cast<std::size_t>(slot)].name + " is never written",
           "");
}

}  // namespace riffle::codegen
