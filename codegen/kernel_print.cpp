// Prints kernels as loops over named slots; what `show kernels` shows and golden tests compare.
//
//   kernel k0_matmul_add  [64, 1024] k=1024  f32  reads %x, %w, %b  writes %y
//     %0 = matmul x[1024·m + k], w[1024·n + k]
//     …
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/kernel_spec.h"

namespace riffle::codegen {
namespace {

using Names = std::vector<std::string>;

class Printer {
 public:
  /// `program` may be null: operands are then named by slot number.
  Printer(const KernelSpec& kernel, const KernelProgram* program)
      : kernel_(kernel), program_(program) {}

  std::string text() {
    header();
    std::visit([this](const auto& body) { print_body(body); }, kernel_.body);
    if (!kernel_.may_alias.empty()) {
      out_ += "  in place:";
      for (const auto& [written, read] : kernel_.may_alias)
        out_ += fmt::format(" {} over {}{}", operand(written), operand(read),
                            &kernel_.may_alias.back().second == &read ? "" : ",");
      out_ += "\n";
    }
    return std::move(out_);
  }

 private:
  std::string operand(std::int32_t index) const {
    const std::int32_t slot = kernel_.operands[static_cast<std::size_t>(index)].slot;
    return program_ ? program_->slots[static_cast<std::size_t>(slot)].name
                    : fmt::format("slot{}", slot);
  }

  static std::string term(std::int64_t stride, const std::string& name) {
    return stride == 1 ? name : stride == -1 ? "-" + name : fmt::format("{}·{}", stride, name);
  }

  static std::string affine(const Affine& a, const Names& names) {
    std::string text;
    for (std::size_t d = 0; d < a.strides.size(); ++d)
      if (a.strides[d] != 0) text += (text.empty() ? "" : " + ") + term(a.strides[d], names[d]);
    if (text.empty()) return std::to_string(a.offset);
    return a.offset == 0
               ? text
               : text + fmt::format(" {} {}", a.offset < 0 ? '-' : '+', std::abs(a.offset));
  }

  std::string address(const Expr& expr, const Names& names) const {
    std::string text = affine(expr.address, names);
    for (const Indirect& i : expr.indirect)
      text += " + " + term(i.stride, fmt::format("%{}<{}", i.index, i.size));
    return text;
  }

  void header() {
    out_ += "kernel " + kernel_.name;
    const auto list = [&](std::string_view verb, Access access) {
      std::string names;
      for (std::size_t i = 0; i < kernel_.operands.size(); ++i)
        if ((static_cast<int>(kernel_.operands[i].access) & static_cast<int>(access)) != 0)
          names += (names.empty() ? " %" : ", %") + operand(static_cast<std::int32_t>(i));
      if (!names.empty()) out_ += fmt::format("  {}{}", verb, names);
    };
    list("reads", Access::read);
    list("writes", Access::write);
    out_ += "\n";
  }

  static Names dimension_names(std::string_view prefix, std::size_t count) {
    Names names;
    for (std::size_t d = 0; d < count; ++d)
      names.push_back(count == 1 ? std::string(prefix) : fmt::format("{}{}", prefix, d));
    return names;
  }

  static std::string space(const Names& names, const Shape& shape, std::size_t first = 0) {
    std::string text;
    for (std::size_t d = 0; d < shape.size(); ++d)
      text += fmt::format("{}{} < {}", d ? ", " : "", names[first + d], shape[d]);
    return text;
  }

  void print_exprs(const std::vector<Expr>& exprs, const Names& names, std::string_view indent) {
    for (std::size_t i = 0; i < exprs.size(); ++i) {
      const Expr& expr = exprs[i];
      out_ += fmt::format("{}%{} = ", indent, i);
      switch (expr.kind) {
        case Expr::Kind::load:
          out_ += fmt::format("load {}[{}]", operand(expr.operand), address(expr, names));
          break;
        case Expr::Kind::constant:
          out_ += fmt::format("constant {}", expr.value);
          break;
        case Expr::Kind::index:
          out_ += fmt::format("index {}", address(expr, names));
          break;
        case Expr::Kind::carried:
          out_ += fmt::format("carried {}", expr.carried);
          break;
        case Expr::Kind::op:
          out_ += ir::info(expr.op).text;
          for (std::size_t a = 0; a < expr.arguments.size(); ++a)
            out_ += fmt::format("{}%{}", a ? ", " : " ", expr.arguments[a]);
          break;
      }
      out_ += fmt::format(" : {}", name_of(expr.dtype));
      for (const Guard& guard : expr.guards)
        out_ +=
            fmt::format(" if {} <= {} < {}", guard.lower, affine(guard.value, names), guard.upper);
      if (!expr.guards.empty()) out_ += fmt::format(" else {}", expr.value);
      out_ += "\n";
    }
  }

  void print_stores(const std::vector<Store>& stores, const Names& names, std::string_view indent) {
    for (const Store& store : stores)
      out_ += fmt::format("{}store {}[{}] = %{}\n", indent, operand(store.operand),
                          affine(store.address, names), store.value);
  }

  void print_body(const LoopBody& body) {
    const Names names = dimension_names("i", body.space.size());
    out_ += fmt::format("  for {}\n", space(names, body.space));
    print_exprs(body.exprs, names, "    ");
    print_stores(body.stores, names, "    ");
  }

  void print_body(const RowBody& body) {
    Names names = dimension_names("i", body.outer.size());
    for (std::string& name : dimension_names("r", body.inner.size())) names.push_back(name);
    static constexpr std::string_view kKinds[] = {"sum", "max", "min", "prod", "argmax"};
    out_ += fmt::format("  for {}\n", space(names, body.outer));
    std::size_t carried = 0;
    for (const RowBody::Stage& stage : body.stages) {
      out_ += fmt::format("    for {}{}\n", space(names, body.inner, body.outer.size()),
                          body.lanes ? "  in lanes" : "");
      print_exprs(stage.exprs, names, "      ");
      print_stores(stage.stores, names, "      ");
      for (const RowBody::Reduction& reduction : stage.reductions)
        out_ += fmt::format("      carried {} = {} %{} : {}\n", carried++,
                            kKinds[static_cast<int>(reduction.kind)], reduction.value,
                            name_of(reduction.dtype));
    }
    print_exprs(body.final_exprs, names, "    ");
    print_stores(body.final_stores, names, "    ");
  }

  void print_body(const MatmulBody& body) {
    Names names = dimension_names("b", body.batch.size());
    const std::string batch = body.batch.empty() ? "" : space(names, body.batch) + ", ";
    const auto side = [&](const MatmulBody::Side& s, const char* row, const char* column) {
      Affine a{s.offset, s.batch_strides};
      Names with = names;
      with.insert(with.end(), {row, column});
      a.strides.insert(a.strides.end(), {s.row_stride, s.column_stride});
      return fmt::format("{}[{}]", operand(s.operand), affine(a, with));
    };
    out_ += fmt::format("  for {}m < {}, n < {}\n", batch, body.m, body.n);
    out_ += fmt::format("    carried 0 = Σ {} · {} for k < {} : {}\n", side(body.a, "m", "k"),
                        side(body.b, "k", "n"), body.k, name_of(body.dtype));
    names.insert(names.end(), {"m", "n"});
    print_exprs(body.epilogue, names, "    ");
    print_stores(body.stores, names, "    ");
  }

  void print_body(const ScatterBody& body) {
    const Names names = dimension_names("i", body.space.size());
    out_ += fmt::format("  {} = {}\n", operand(body.out),
                        body.base < 0 ? std::string("0") : operand(body.base));
    out_ += fmt::format("  for {}\n", space(names, body.space));
    print_exprs(body.exprs, names, "    ");
    out_ += fmt::format("    {}[{} + {}] += %{}\n", operand(body.out), affine(body.address, names),
                        term(body.index_stride, fmt::format("%{}<{}", body.index, body.index_size)),
                        body.source);
  }

  const KernelSpec& kernel_;
  const KernelProgram* program_;
  std::string out_;
};

}  // namespace

std::string print(const KernelSpec& kernel) { return Printer(kernel, nullptr).text(); }

std::string print(const KernelProgram& program) {
  std::string text;
  for (const KernelSpec& kernel : program.kernels) text += Printer(kernel, &program).text();
  return text;
}

}  // namespace riffle::codegen
