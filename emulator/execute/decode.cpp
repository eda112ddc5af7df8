#include "emulator/execute/decode.h"

#include <algorithm>
#include <bit>

namespace emulator {

using ptx::Special;
using ptx::Symbol;
using ptx::SyntaxError;

namespace {

constexpr std::size_t kMostInstructions = 1u << 20;  ///< after inlining
constexpr std::uint32_t kMostFileBytes = 1u << 26;
constexpr std::uint32_t kMostSharedBytes = 1u << 20, kMostLocalBytes = 1u << 19;

bool machine_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("lzcnt");
#else
  return false;
#endif
}

}  // namespace

Handler select_lanes(const LaneForm& form) {
  return machine_has_avx2() ? avx2::select_lanes(form) : base::select_lanes(form);
}
Handler select_compare(Compare compare, ptx::Type type, bool ftz) {
  return machine_has_avx2() ? avx2::select_compare(compare, type, ftz)
                            : base::select_compare(compare, type, ftz);
}

// --- Suffixes

bool Suffixes::take(std::string_view word) {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (!used_[i] && words_[i] == word) return used_[i] = true;
  return false;
}
std::string_view Suffixes::take_any(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (take(word)) return word;
  return "";
}
ptx::Type Suffixes::take_type() {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (used_[i]) continue;
    const ptx::Type type = ptx::type_named(words_[i]);
    if (type == ptx::Type::none) continue;
    used_[i] = true;
    return type;
  }
  return ptx::Type::none;
}
std::string_view Suffixes::left() const {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (!used_[i]) return words_[i];
  return "";
}
std::string_view Suffixes::take_left() {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (!used_[i]) {
      used_[i] = true;
      return words_[i];
    }
  return "";
}
void Suffixes::ignore_hints() {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (words_[i].starts_with("L1::") || words_[i].starts_with("L2::") ||
        words_[i] == "level::eviction_priority")
      used_[i] = true;
}

// --- core

ptx::Kernel decode(const ptx::SyntaxTree& tree, const ptx::Function& kernel,
                   std::vector<std::string>& warnings) {
  return Decoder(tree, kernel, warnings).run();
}

Decoder::Decoder(const ptx::SyntaxTree& tree, const ptx::Function& kernel,
                 std::vector<std::string>& warnings)
    : tree_(tree), kernel_(kernel), warnings_(warnings) {}

ptx::Kernel Decoder::run() {
  for (const Symbol* parameter : kernel_.parameters)
    out_.parameter_bytes = std::max<std::uint32_t>(
        out_.parameter_bytes, parameter->offset + static_cast<std::uint32_t>(parameter->bytes));
  Instance instance;
  instance.function = &kernel_;
  calls_.push_back(&kernel_);
  body(instance);
  // Running off the end is a return.
  Instruction end;
  end.control = Control::exit;
  end.line =
      static_cast<std::uint32_t>(kernel_.body.empty() ? kernel_.line : kernel_.body.back().line);
  out_.code.push_back(end);
  out_.mnemonic_of.push_back(mnemonic_index("exit"));
  const std::uint32_t dynamic = (out_.static_shared_bytes + 15) / 16 * 16;
  if (!dynamic_shared_.empty()) out_.static_shared_bytes = dynamic;
  for (const std::size_t i : dynamic_shared_) out_.fixed[i].bits += dynamic;
  out_.file_bytes = (out_.file_bytes + 63) / 64 * 64;
  out_.local_bytes = (out_.local_bytes + 15) / 16 * 16;
  return std::move(out_);
}

void Decoder::body(Instance& instance) {
  Instance* const outer = instance_;
  const ptx::Statement* const outer_statement = statement_;
  instance_ = &instance;
  for (const ptx::Statement& s : instance.function->body) {
    instance.starts.push_back(static_cast<std::uint32_t>(out_.code.size()));
    statement(s);
  }
  instance.starts.push_back(static_cast<std::uint32_t>(out_.code.size()));
  for (const Instance::Jump& jump : instance.jumps) {
    std::uint32_t target = static_cast<std::uint32_t>(instance.function->body.size());  // of a ret
    if (!jump.label.empty()) target = instance.function->find_label(jump.label, jump.scope);
    if (target == ~0u)
      throw SyntaxError(static_cast<int>(jump.line), "there is no label " + jump.label);
    (jump.table ? out_.targets[jump.code] : out_.code[jump.code].target) = instance.starts[target];
  }
  instance_ = outer;
  statement_ = outer_statement;
}

void Decoder::statement(const ptx::Statement& s) {
  statement_ = &s;
  guard_ = ~0u;
  if (s.guard) {
    const Row r = register_row(s.guard);
    const auto [found, added] = guards_.emplace(std::pair(r.slot, s.guard_negated),
                                                static_cast<std::uint32_t>(out_.guards.size()));
    if (added) out_.guards.push_back({r, s.guard_negated});
    guard_ = found->second;
  }
  const Family f = family(s.opcode);
  if (!f) fail("unknown or unsupported instruction");
  Suffixes suffixes(s.suffixes);
  (this->*f)(suffixes);
  if (!suffixes.left().empty())
    fail("modifier ." + std::string(suffixes.left()) + " is not supported");
}

Decoder::Family Decoder::family(std::string_view opcode) {
  if (const Family f = arithmetic_family(opcode)) return f;
  if (const Family f = logic_family(opcode)) return f;
  if (const Family f = memory_family(opcode)) return f;
  return control_family(opcode);
}

std::string Decoder::mnemonic() const {
  std::string text = statement_->opcode;
  for (const std::string& suffix : statement_->suffixes) text += "." + suffix;
  return text;
}

std::uint32_t Decoder::mnemonic_index(std::string text) {
  const auto [found, added] =
      mnemonics_.emplace(std::move(text), static_cast<std::uint32_t>(out_.mnemonics.size()));
  if (added) out_.mnemonics.push_back(found->first);
  return found->second;
}

void Decoder::fail(const std::string& what) const {
  throw SyntaxError(statement_->line, mnemonic() + ": " + what);
}

void Decoder::emit(Handler handler, Instruction in) {
  if (in.control == Control::plain || in.control == Control::warp_operation)
    if (!handler) fail("no such combination of type and modifiers");
  in.handler = handler;
  in.guard = guard_;
  in.line = static_cast<std::uint32_t>(statement_->line);
  out_.code.push_back(in);
  out_.mnemonic_of.push_back(mnemonic_index(mnemonic()));
  if (out_.code.size() > kMostInstructions) fail("the kernel is too long after inlining");
}

const ptx::Operand& Decoder::operand(std::size_t i) const {
  if (i >= statement_->operands.size()) fail("operand " + std::to_string(i + 1) + " is missing");
  return statement_->operands[i];
}
void Decoder::operands(std::size_t least, std::size_t most) const {
  const std::size_t count = statement_->operands.size();
  if (count < least || count > most)
    fail("takes " + std::to_string(least) + (most > least ? " to " + std::to_string(most) : "") +
         " operands, not " + std::to_string(count));
}

// --- rows

Row Decoder::new_row(std::uint32_t width) {
  const std::uint32_t bytes = width == 0 ? 4 : width * 32,
                      alignment = width == 0 ? 4 : std::min(bytes, 64u);
  Row r;
  r.offset = (out_.file_bytes + alignment - 1) / alignment * alignment;
  r.slot = out_.slots++;
  out_.file_bytes = r.offset + bytes;
  if (out_.file_bytes > kMostFileBytes) fail("the kernel uses too many registers");
  return r;
}

Row Decoder::register_row(const Symbol* symbol) {
  const auto found = instance_->registers.find(symbol);
  if (found != instance_->registers.end()) return found->second;
  if (symbol->type == Type::b128) fail("128-bit registers are not supported");
  const Row r = new_row(size_of(symbol->type));
  instance_->registers.emplace(symbol, r);
  return r;
}

Row Decoder::constant(std::uint32_t width, std::uint64_t bits) {
  if (width == 0)
    bits = bits != 0;
  else if (width < 8)
    bits &= (std::uint64_t{1} << (width * 8)) - 1;
  const auto [found, added] = constants_.emplace(std::pair(width, bits), Row{});
  if (added) {
    found->second = new_row(width);
    FixedRow fixed;
    fixed.width = static_cast<std::uint8_t>(width);
    fixed.row = found->second;
    fixed.bits = bits;
    out_.fixed.push_back(std::move(fixed));
  }
  return found->second;
}

Row Decoder::special(std::uint32_t width, Special which) {
  if (which == Special::clock || which == Special::clock64 || which == Special::globaltimer)
    fail("clocks are read by mov alone");
  if (width < 2) fail("special registers have 16 bits or more");
  const auto [found, added] = specials_.emplace(std::pair(width, which), Row{});
  if (added) {
    found->second = new_row(width);
    FixedRow fixed;
    fixed.kind = FixedRow::Kind::special;
    fixed.width = static_cast<std::uint8_t>(width);
    fixed.row = found->second;
    fixed.special = which;
    out_.fixed.push_back(std::move(fixed));
  }
  return found->second;
}

std::uint32_t Decoder::variable_offset(const Symbol* symbol) {
  const bool shared = symbol->space == Space::shared;
  auto& offsets = shared ? shared_ : instance_->local;
  if (const auto found = offsets.find(symbol); found != offsets.end()) return found->second;
  std::uint32_t& bytes = shared ? out_.static_shared_bytes : out_.local_bytes;
  const std::uint64_t offset =
      (std::uint64_t{bytes} + symbol->alignment - 1) / symbol->alignment * symbol->alignment;
  if (offset + symbol->bytes > (shared ? kMostSharedBytes : kMostLocalBytes))
    fail("variable " + symbol->name + " is too large");
  bytes = static_cast<std::uint32_t>(offset + symbol->bytes);
  offsets.emplace(symbol, static_cast<std::uint32_t>(offset));
  return static_cast<std::uint32_t>(offset);
}

bool Decoder::is_kernel_parameter(const Symbol* symbol) const {
  return instance_->function == &kernel_ &&
         std::find(kernel_.parameters.begin(), kernel_.parameters.end(), symbol) !=
             kernel_.parameters.end();
}

Row Decoder::symbol_address(const Operand& operand, std::uint32_t width) {
  const Symbol* symbol = operand.symbol;
  if (symbol->kind == Symbol::Kind::table) fail(symbol->name + " is not a variable");
  if (width != 4 && width != 8) fail("the address of " + symbol->name + " needs 32 or 64 bits");
  if (symbol->kind == Symbol::Kind::parameter) {
    if (!is_kernel_parameter(symbol)) fail("the address of a function's parameter cannot be taken");
    return constant(width, symbol->offset + operand.bits);
  }
  if (symbol->space == Space::local || (symbol->space == Space::shared && !symbol->external))
    return constant(width, variable_offset(symbol) + operand.bits);
  const bool shared = symbol->space == Space::shared;
  if (!shared && width != 8) fail("the address of " + symbol->name + " needs 64 bits");
  const auto [found, added] =
      variables_.emplace(std::tuple(shared ? "" : symbol->name, operand.bits, width), Row{});
  if (added) {
    found->second = new_row(width);
    FixedRow fixed;
    fixed.kind = shared ? FixedRow::Kind::constant : FixedRow::Kind::variable;
    fixed.width = static_cast<std::uint8_t>(width);
    fixed.row = found->second;
    fixed.bits = operand.bits;
    fixed.variable = shared ? "" : symbol->name;
    out_.fixed.push_back(std::move(fixed));
    if (shared) dynamic_shared_.push_back(out_.fixed.size() - 1);
  }
  return found->second;
}

// --- operands

Row Decoder::source(const Operand& operand, Type type) {
  const std::uint32_t width = size_of(type);
  switch (operand.kind) {
    case Kind::reg:
      if (operand.symbol->type == Type::none || size_of(operand.symbol->type) != width ||
          (operand.symbol->type == Type::pred) != (type == Type::pred))
        fail("register " + operand.symbol->name + " of type ." +
             std::string(name(operand.symbol->type)) + " where ." + std::string(name(type)) +
             " is expected");
      return register_row(operand.symbol);
    case Kind::integer:
      if (type == Type::f32 || type == Type::f64)
        fail("an integer where ." + std::string(name(type)) + " is expected");
      if (width > 8) fail("immediate of 128 bits");
      return constant(width, operand.bits);
    case Kind::real32:
      if (type == Type::f64)
        return constant(8, std::bit_cast<std::uint64_t>(static_cast<double>(
                               std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits)))));
      if (width != 4) fail("a 32-bit real where ." + std::string(name(type)) + " is expected");
      return constant(4, operand.bits);
    case Kind::real64:
      if (type == Type::f32 || (width == 4 && is_float(type)))
        return constant(4, std::bit_cast<std::uint32_t>(
                               static_cast<float>(std::bit_cast<double>(operand.bits))));
      if (width != 8) fail("a 64-bit real where ." + std::string(name(type)) + " is expected");
      return constant(8, operand.bits);
    case Kind::special:
      return special(width, operand.special);
    case Kind::symbol:
      return symbol_address(operand, width);
    case Kind::name:
      fail("'" + operand.text + "' is not declared");
    default:
      fail("operand of the wrong kind");
  }
}

Row Decoder::destination(const Operand& operand, Type type) {
  if (operand.kind == Kind::sink) return new_row(size_of(type));
  if (operand.kind != Kind::reg) fail("the destination must be a register");
  const Type have = operand.symbol->type;
  if (size_of(have) != size_of(type) || (have == Type::pred) != (type == Type::pred))
    fail("register " + operand.symbol->name + " of type ." + std::string(name(have)) + " where ." +
         std::string(name(type)) + " is expected");
  instance_->products.erase(operand.symbol);
  return register_row(operand.symbol);
}

Row Decoder::predicate_source(const Operand& operand, bool& negated) {
  negated = operand.kind == Kind::negated;
  return source(negated ? operand.elements[0] : operand, Type::pred);
}

std::uint32_t Decoder::width_of(const Operand& operand) const {
  return operand.kind == Kind::reg ? size_of(operand.symbol->type) : 0;
}

std::uint64_t Decoder::immediate(std::size_t i) const {
  if (operand(i).kind != Kind::integer)
    fail("operand " + std::to_string(i + 1) + " must be an integer constant");
  return operand(i).bits;
}

std::uint32_t Decoder::extra(const std::vector<Row>& rows) {
  const auto first = static_cast<std::uint32_t>(out_.rows.size());
  out_.rows.insert(out_.rows.end(), rows.begin(), rows.end());
  return first;
}

void Decoder::address(const Operand& operand, Space& space, Row& base, std::int64_t& offset,
                      bool& narrow) {
  if (operand.kind != Kind::address) fail("expected an address in brackets");
  const Operand& at = operand.elements[0];
  offset = static_cast<std::int64_t>(operand.bits);
  narrow = false;
  switch (at.kind) {
    case Kind::reg: {
      const std::uint32_t width = size_of(at.symbol->type);
      if (width != 4 && width != 8) fail("an address has 32 or 64 bits");
      if (width == 4 && space != Space::shared && space != Space::local && space != Space::param &&
          space != Space::constant)
        fail("an address in this space has 64 bits");
      narrow = width == 4;
      base = register_row(at.symbol);
      return;
    }
    case Kind::integer:
      base = constant(8, at.bits);
      return;
    case Kind::symbol: {
      const Symbol* symbol = at.symbol;
      if (symbol->kind == Symbol::Kind::parameter) {
        if (space == Space::generic) space = Space::param;
        if (space != Space::param) fail(symbol->name + " is a parameter");
        if (is_kernel_parameter(symbol)) {
          base = constant(8, symbol->offset);
        } else {
          space = Space::local;  // parameters of inlined functions live there
          base = constant(8, variable_offset(symbol));
        }
        return;
      }
      if (space == Space::generic) space = symbol->space;
      if (symbol->space != space) fail("variable " + symbol->name + " is in another space");
      base = symbol_address(at, 8);
      return;
    }
    default:
      fail("malformed address");
  }
}

void Decoder::address(std::size_t i, Space& space, Instruction& in) {
  bool narrow = false;
  address(operand(i), space, in.a, in.imm, narrow);
  if (narrow) in.flags |= kAddress32;
}

}  // namespace emulator
