// Tokens → SyntaxTree, by recursive descent. Start reading at Parser::module.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/syntax.h"

namespace emulator::ptx {
namespace {

constexpr std::uint64_t kMostVariableBytes = std::uint64_t{1} << 34;
constexpr std::uint64_t kMostInitialBytes = std::uint64_t{1} << 28;
constexpr int kDeepest = 64;  ///< nested { }

Space space_named(std::string_view text) {
  if (text == "global") return Space::global;
  if (text == "const") return Space::constant;
  if (text == "shared" || text == "shared::cta") return Space::shared;
  if (text == "local") return Space::local;
  if (text == "param" || text == "param::entry" || text == "param::func") return Space::param;
  if (text == "reg") return Space::reg;
  return Space::generic;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokenise(text)) {}

  SyntaxTree module() {
    while (peek().kind != TokenKind::end) {
      if (peek().kind != TokenKind::dot_word) fail("expected a directive");
      const std::string_view word = peek().text;
      if (word == "version") {
        next();
        version();
      } else if (word == "target") {
        next();
        tree_.target = std::string(expect_word());
        while (accept(",")) expect_word();
      } else if (word == "address_size") {
        next();
        if (expect_integer() != 64) fail("only .address_size 64 is supported");
      } else if (word == "file") {
        next();
        expect_integer();
        if (next().kind != TokenKind::string) fail("expected the file's name");
        while (accept(",")) expect_integer();
      } else if (word == "section") {
        section();
      } else if (word == "pragma" || word == "alias") {
        while (!accept(";")) next_not_end();
      } else {
        definition();
      }
    }
    if (tree_.version_major == 0) throw SyntaxError(1, "a module begins with .version");
    return std::move(tree_);
  }

 private:
  // --- tokens
  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  const Token& next_not_end() {
    if (peek().kind == TokenKind::end) fail("unexpected end of the text");
    return next();
  }
  bool is(std::string_view punctuation) const {
    return peek().kind == TokenKind::punctuation && peek().text == punctuation;
  }
  bool accept(std::string_view punctuation) {
    if (!is(punctuation)) return false;
    next();
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    const Token& token = peek();
    throw SyntaxError(token.line,
                      what + (token.kind == TokenKind::end
                                  ? ", found the end of the text"
                                  : ", found '" + std::string(token.text.substr(0, 60)) + "'"));
  }
  void expect(std::string_view punctuation) {
    if (!accept(punctuation)) fail("expected '" + std::string(punctuation) + "'");
  }
  std::string_view expect_word() {
    if (peek().kind != TokenKind::word) fail("expected a name");
    return next().text;
  }
  std::string_view expect_dot_word() {
    if (peek().kind != TokenKind::dot_word) fail("expected a suffix");
    return next().text;
  }
  std::uint64_t expect_integer() {
    if (peek().kind != TokenKind::integer) fail("expected an integer");
    return next().value;
  }
  bool accept_dot(std::string_view word) {
    if (peek().kind != TokenKind::dot_word || peek().text != word) return false;
    next();
    return true;
  }

  // --- module scope
  void version() {
    // "7.8" is one token to the lexer where nothing but digits follows.
    const Token& token = next_not_end();
    const std::string text(token.text);
    const std::size_t dot = text.find('.');
    if (token.kind == TokenKind::real64 && dot != std::string::npos && dot < 4 && text.size() < 8) {
      tree_.version_major = std::atoi(text.c_str());
      tree_.version_minor = std::atoi(text.c_str() + dot + 1);
    } else if (token.kind == TokenKind::integer && peek().kind == TokenKind::dot_word) {
      tree_.version_major = static_cast<int>(std::min<std::uint64_t>(token.value, 99));
      tree_.version_minor = std::atoi(std::string(next().text.substr(0, 3)).c_str());
    } else {
      fail("expected .version MAJOR.MINOR");
    }
  }

  void section() {
    next();
    if (peek().kind != TokenKind::dot_word && peek().kind != TokenKind::word)
      fail("expected the section's name");
    next();
    expect("{");
    for (int depth = 1; depth > 0;) {
      const Token& token = next_not_end();
      if (token.kind != TokenKind::punctuation) continue;
      if (token.text == "{") ++depth;
      if (token.text == "}") --depth;
    }
  }

  void definition() {
    bool external = false;
    for (;;) {
      if (accept_dot("visible") || accept_dot("weak") || accept_dot("common")) continue;
      if (accept_dot("extern")) {
        external = true;
        continue;
      }
      break;
    }
    if (peek().kind != TokenKind::dot_word) fail("expected a directive");
    if (peek().text == "entry" || peek().text == "func") {
      function();
      return;
    }
    const Space space = space_named(peek().text);
    if (space != Space::global && space != Space::constant && space != Space::shared)
      fail("unknown directive");
    variable(external, nullptr);
  }

  /// .shared .align 4 .b8 name[16], other = {1, 2};
  void variable(bool external, Function* function) {
    const int line = peek().line;
    const Space space = space_named(next().text);
    std::uint32_t alignment = 0;
    Type type = Type::none;
    std::uint64_t vector = 1;
    while (peek().kind == TokenKind::dot_word) {
      const std::string_view word = next().text;
      if (word == "align") {
        alignment = power_of_two(expect_integer());
      } else if (word == "v2" || word == "v4") {
        vector = word == "v2" ? 2 : 4;
      } else if (word == "attribute") {
        expect("(");
        while (!accept(")")) next_not_end();
      } else if (type = type_named(word); type == Type::none || size_of(type) == 0) {
        throw SyntaxError(line, "no variable has type ." + std::string(word));
      }
    }
    if (type == Type::none) fail("expected the variable's type");
    do {
      auto symbol = std::make_unique<Symbol>();
      symbol->kind = Symbol::Kind::variable;
      symbol->space = space;
      symbol->type = type;
      symbol->name = std::string(expect_word());
      symbol->alignment =
          std::max<std::uint32_t>(alignment, static_cast<std::uint32_t>(size_of(type) * vector));
      std::uint64_t count = vector;
      bool open = false;
      while (accept("[")) {
        if (accept("]")) {
          open = true;
          continue;
        }
        const std::uint64_t extent = expect_integer();
        expect("]");
        if (extent != 0 && count > kMostVariableBytes / extent) fail("variable is too large");
        count *= extent;
      }
      symbol->bytes = count * size_of(type);
      if (symbol->bytes > kMostVariableBytes) fail("variable is too large");
      symbol->external = external && space == Space::shared;
      std::vector<std::byte> initial;
      if (accept("=")) {
        if (space != Space::global && space != Space::constant)
          fail("only .global and .const variables have initialisers");
        initialiser(type, initial);
        if (open) symbol->bytes = initial.size();
        if (initial.size() > symbol->bytes) fail("more initialisers than elements");
        if (symbol->bytes > kMostInitialBytes) fail("initialised variable is too large");
        initial.resize(symbol->bytes);
      } else if (open && !symbol->external) {
        if (!external) fail("an array without a size needs an initialiser");
      } else if (open) {
        symbol->bytes = 0;
      }
      if (space == Space::constant && initial.empty() && !external)
        initial.resize(std::min(symbol->bytes, kMostInitialBytes));  // .const starts as zero
      if (space == Space::global || space == Space::constant) {
        for (const Variable& other : tree_.variables)
          if (other.name == symbol->name) fail("variable " + symbol->name + " is already defined");
        tree_.variables.push_back(
            {symbol->name, symbol->bytes, symbol->alignment, std::move(initial)});
      }
      declare(std::move(symbol), function);
    } while (accept(","));
    expect(";");
  }

  void declare(std::unique_ptr<Symbol> symbol, Function* function) {
    Symbol* raw = symbol.get();
    auto& names = function ? function->scopes[scopes_.back()].symbols : names_;
    if (!names.emplace(raw->name, raw).second) {
      if (!raw->external && raw->kind != Symbol::Kind::variable)
        fail("'" + raw->name + "' is already declared in this scope");
      if (!raw->external) fail("variable " + raw->name + " is already defined");
      return;
    }
    (function ? function->symbols : tree_.symbols).push_back(std::move(symbol));
  }

  std::uint32_t power_of_two(std::uint64_t value) {
    if (value == 0 || (value & (value - 1)) != 0 || value > 4096)
      fail("alignment is not a power of two up to 4096");
    return static_cast<std::uint32_t>(value);
  }

  void initialiser(Type type, std::vector<std::byte>& bytes, int depth = 0) {
    if (depth > kDeepest) fail("initialiser is nested too deeply");
    if (accept("{")) {
      if (accept("}")) return;
      do initialiser(type, bytes, depth + 1);
      while (accept(","));
      expect("}");
      return;
    }
    const Operand value = constant();
    std::uint64_t bits = value.bits;
    if (type == Type::f32 && value.kind == Operand::Kind::real64)
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    else if (type == Type::f64 && value.kind == Operand::Kind::real32)
      bits = std::bit_cast<std::uint64_t>(
          static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    const std::size_t at = bytes.size(), size = size_of(type);
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, &bits, std::min<std::size_t>(size, 8));
  }

  /// A number with its sign.
  Operand constant() {
    Operand operand;
    bool minus = false, inverted = false;
    for (;;) {
      if (accept("-"))
        minus = !minus;
      else if (accept("~"))
        inverted = true;
      else if (!accept("+"))
        break;
    }
    const Token& token = next_not_end();
    operand.bits = token.value;
    if (token.kind == TokenKind::integer) {
      operand.kind = Operand::Kind::integer;
      if (inverted) operand.bits = ~operand.bits;
      if (minus) operand.bits = ~operand.bits + 1;
    } else if (token.kind == TokenKind::real32) {
      operand.kind = Operand::Kind::real32;
      if (minus) operand.bits ^= 0x80000000u;
    } else if (token.kind == TokenKind::real64) {
      operand.kind = Operand::Kind::real64;
      if (minus) operand.bits ^= std::uint64_t{1} << 63;
    } else {
      throw SyntaxError(token.line,
                        "expected a number, found '" + std::string(token.text.substr(0, 60)) + "'");
    }
    return operand;
  }

  // --- functions
  void function() {
    auto owned = std::make_unique<Function>();
    Function& f = *owned;
    f.line = peek().line;
    f.kernel = next().text == "entry";
    f.scopes.emplace_back();
    scopes_.assign(1, 0);
    if (!f.kernel && is("(")) parameters(f, f.results);
    f.name = std::string(expect_word());
    if (is("(")) parameters(f, f.parameters);
    for (;;) {
      if (peek().kind != TokenKind::dot_word) break;
      const std::string_view word = next().text;
      if (word == "maxntid" || word == "reqntid") {
        std::uint64_t extents[3] = {1, 1, 1};
        std::size_t count = 0;
        do {
          if (count == 3) fail("more than three extents");
          extents[count] = expect_integer();
          if (extents[count] == 0 || extents[count] > 1024)
            fail("extent of a block outside 1 to 1024");
          ++count;
        } while (accept(","));
        f.max_threads = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(extents[0] * extents[1] * extents[2], 1024));
        if (word == "reqntid")
          for (int i = 0; i < 3; ++i)
            f.required_threads[i] = static_cast<std::uint32_t>(extents[i]);
      } else if (word == "minnctapersm" || word == "maxnctapersm" || word == "maxnreg" ||
                 word == "maxclusterrank") {
        expect_integer();
      } else if (word == "pragma") {
        while (!accept(";")) next_not_end();
      } else if (word != "noreturn" && word != "explicitcluster") {
        throw SyntaxError(f.line, "unknown directive ." + std::string(word) + " of " + f.name);
      }
    }
    if (!accept(";")) {
      expect("{");
      f.defined = true;
      block(f, 0);
    }
    for (auto& other : tree_.functions) {
      if (other->name != f.name) continue;
      if (other->defined && f.defined) throw SyntaxError(f.line, f.name + " is defined twice");
      if (f.defined) other = std::move(owned);
      return;
    }
    tree_.functions.push_back(std::move(owned));
  }

  void parameters(Function& f, std::vector<Symbol*>& list) {
    expect("(");
    if (accept(")")) return;
    do {
      if (peek().kind != TokenKind::dot_word) fail("expected .param or .reg");
      list.push_back(parameter(f));
    } while (accept(","));
    expect(")");
  }

  Symbol* parameter(Function& f) {
    const Space space = space_named(next().text);
    if (space != Space::param && space != Space::reg) fail("expected .param or .reg");
    auto symbol = std::make_unique<Symbol>();
    symbol->kind = space == Space::reg ? Symbol::Kind::reg : Symbol::Kind::parameter;
    symbol->space = space;
    std::uint32_t alignment = 0;
    while (peek().kind == TokenKind::dot_word) {
      const std::string_view word = next().text;
      if (word == "align") {
        alignment = power_of_two(expect_integer());
      } else if (word == "ptr" || space_named(word) != Space::generic) {
        // .ptr .global .align 4: an annotation of the pointer, not of the parameter
        if (word != "ptr") continue;
        while (peek().kind == TokenKind::dot_word) {
          if (space_named(peek().text) != Space::generic)
            next();
          else if (accept_dot("align"))
            expect_integer();
          else
            break;
        }
      } else if (symbol->type = type_named(word); symbol->type == Type::none) {
        fail("unknown type ." + std::string(word));
      }
    }
    if (symbol->type == Type::none || (space == Space::param && size_of(symbol->type) == 0))
      fail("expected the parameter's type");
    symbol->name = std::string(expect_word());
    symbol->bytes = size_of(symbol->type);
    symbol->alignment = std::max(alignment, size_of(symbol->type));
    if (accept("[")) {
      std::uint64_t count = 0;
      if (!is("]")) count = expect_integer();
      expect("]");
      if (count > 32764) fail("parameter is too large");
      symbol->bytes *= count;
    }
    Symbol* raw = symbol.get();
    declare(std::move(symbol), &f);
    return raw;
  }

  /// After its "{".
  void block(Function& f, int depth) {
    if (depth > kDeepest) fail("blocks are nested too deeply");
    while (!accept("}")) {
      const Token& token = peek();
      if (token.kind == TokenKind::punctuation && token.text == "{") {
        next();
        Scope inner;
        inner.parent = scopes_.back();
        f.scopes.push_back(std::move(inner));
        scopes_.push_back(static_cast<std::uint32_t>(f.scopes.size() - 1));
        block(f, depth + 1);
        scopes_.pop_back();
      } else if (token.kind == TokenKind::dot_word) {
        directive(f);
      } else if (token.kind == TokenKind::word && peek(1).kind == TokenKind::punctuation &&
                 peek(1).text == ":") {
        const std::string label(next().text);
        next();
        if (peek().kind == TokenKind::dot_word && peek().text == "branchtargets") {
          branch_targets(f, label);
          continue;
        }
        if (peek().kind == TokenKind::dot_word && peek().text == "callprototype")
          throw SyntaxError(token.line,
                            "calls through a pointer (.callprototype) are not supported");
        if (!f.scopes[scopes_.back()]
                 .labels.emplace(label, static_cast<std::uint32_t>(f.body.size()))
                 .second)
          throw SyntaxError(token.line, "label " + label + " is already defined");
      } else if (token.kind == TokenKind::word || is("@")) {
        statement(f);
      } else {
        fail("expected an instruction");
      }
    }
  }

  void directive(Function& f) {
    const std::string_view word = peek().text;
    if (word == "reg") {
      registers(f);
    } else if (word == "shared" || word == "local" || word == "global" || word == "const") {
      variable(false, &f);
    } else if (word == "extern") {
      next();
      variable(true, &f);
    } else if (word == "param") {
      parameter(f);
      expect(";");
    } else if (word == "loc") {
      // .loc 1 2 3 [, function_name $L__info, inlined_at 1 2 3]: has no end mark of its own
      next();
      for (int i = 0; i < 3; ++i) expect_integer();
      while (accept(",")) {
        expect_word();
        if (peek().kind == TokenKind::word) {
          next();
          if (accept("+")) expect_integer();
        } else {
          for (int i = 0; i < 3; ++i) expect_integer();
        }
      }
    } else if (word == "file") {
      next();
      expect_integer();
      next_not_end();
      while (accept(",")) expect_integer();
    } else if (word == "pragma") {
      while (!accept(";")) next_not_end();
    } else {
      fail("unknown directive");
    }
  }

  void branch_targets(Function& f, const std::string& label) {
    next();
    auto symbol = std::make_unique<Symbol>();
    symbol->kind = Symbol::Kind::table;
    symbol->name = label;
    do symbol->targets.emplace_back(expect_word());
    while (accept(","));
    expect(";");
    declare(std::move(symbol), &f);
  }

  void registers(Function& f) {
    next();
    const Type type = type_named(expect_dot_word());
    if (type == Type::none) fail("unknown register type");
    do {
      const std::string name(expect_word());
      std::uint64_t count = 1;
      if (accept("<")) {
        count = expect_integer();
        expect(">");
        f.scopes[scopes_.back()].ranges[name] = {type, count};
      } else {
        make_register(f, scopes_.back(), name, type);
      }
      count = std::min<std::uint64_t>(count, 1u << 24);
      f.registers = std::min<std::uint64_t>(
          f.registers +
              (type == Type::pred ? 0 : count * std::max<std::uint32_t>(1, size_of(type) / 4)),
          1u << 30);
    } while (accept(","));
    expect(";");
  }

  Symbol* make_register(Function& f, std::uint32_t scope, const std::string& name, Type type) {
    auto symbol = std::make_unique<Symbol>();
    symbol->type = type;
    symbol->name = name;
    Symbol* raw = symbol.get();
    if (!f.scopes[scope].symbols.emplace(name, raw).second)
      fail("'" + name + "' is already declared in this scope");
    f.symbols.push_back(std::move(symbol));
    return raw;
  }

  /// Innermost scope first; null: no such symbol.
  Symbol* find(Function& f, std::string_view name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    for (std::size_t i = scopes_.size(); i-- > 0;) {
      Scope& scope = f.scopes[scopes_[i]];
      if (const auto found = scope.symbols.find(name); found != scope.symbols.end())
        return found->second;
      if (digits == name.size() || name.size() - digits > 9) continue;
      // "%r1<5>" names %r10 to %r14: the prefix may end in digits.
      for (std::size_t cut = digits; cut < name.size(); ++cut) {
        if (name[cut] == '0' && cut + 1 < name.size()) continue;
        const auto range = scope.ranges.find(name.substr(0, cut));
        if (range == scope.ranges.end()) continue;
        if (std::strtoull(std::string(name.substr(cut)).c_str(), nullptr, 10) <
            range->second.second)
          return make_register(f, scopes_[i], std::string(name), range->second.first);
      }
    }
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : found->second;
  }

  void statement(Function& f) {
    Statement s;
    s.line = peek().line;
    s.scope = scopes_.back();
    if (accept("@")) {
      s.guard_negated = accept("!");
      const std::string name(expect_word());
      s.guard = find(f, name);
      if (!s.guard || s.guard->type != Type::pred)
        throw SyntaxError(s.line, "guard " + name + " is not a predicate register");
    }
    s.opcode = std::string(expect_word());
    while (peek().kind == TokenKind::dot_word && !peek().spaced)
      s.suffixes.emplace_back(next().text);
    if (!accept(";")) {
      do s.operands.push_back(operand(f, 0));
      while (accept(",") || (s.opcode == "call" && is("(")));
      expect(";");
    }
    f.body.push_back(std::move(s));
    if (f.body.size() > (1u << 20)) fail("function is too long");
  }

  Operand operand(Function& f, int depth) {
    if (depth > 4) fail("operand is nested too deeply");
    Operand result;
    if (accept("{")) {
      result.kind = Operand::Kind::vector;
      elements(f, result, "}", depth);
      return result;
    }
    if (accept("(")) {
      result.kind = Operand::Kind::list;
      elements(f, result, ")", depth);
      return result;
    }
    if (accept("[")) {
      result.kind = Operand::Kind::address;
      result.elements.push_back(operand(f, depth + 1));
      if (result.elements[0].kind == Operand::Kind::symbol) {
        result.bits = result.elements[0].bits;
        result.elements[0].bits = 0;
      }
      if (is("+") || is("-")) {
        const Operand offset = constant();
        if (offset.kind != Operand::Kind::integer) fail("an address takes an integer offset");
        result.bits += offset.bits;
      }
      expect("]");
      return result;
    }
    if (accept("!")) {
      result.kind = Operand::Kind::negated;
      result.elements.push_back(operand(f, depth + 1));
      return result;
    }
    if (peek().kind != TokenKind::word) return constant();
    result = named(f);
    if (is("|")) {
      next();
      Operand pair;
      pair.kind = Operand::Kind::pair;
      pair.elements.push_back(std::move(result));
      pair.elements.push_back(named(f));
      return pair;
    }
    return result;
  }

  void elements(Function& f, Operand& into, std::string_view close, int depth) {
    if (accept(close)) return;
    do {
      if (into.elements.size() > 4096) fail("too many operands");
      into.elements.push_back(operand(f, depth + 1));
    } while (accept(","));
    expect(close);
  }

  Operand named(Function& f) {
    Operand result;
    std::string name(expect_word());
    if (name == "_") return result;
    if (peek().kind == TokenKind::dot_word && !peek().spaced && name[0] == '%')
      name += "." + std::string(next().text);
    if (Symbol* symbol = find(f, name)) {
      result.kind = symbol->kind == Symbol::Kind::reg ? Operand::Kind::reg : Operand::Kind::symbol;
      result.symbol = symbol;
      if (result.kind == Operand::Kind::symbol && (is("+") || is("-"))) {
        const Operand offset = constant();
        if (offset.kind != Operand::Kind::integer) fail("an address takes an integer offset");
        result.bits = offset.bits;
      }
      return result;
    }
    result.special = special_named(name);
    if (result.special != Special::none) {
      result.kind = Operand::Kind::special;
      return result;
    }
    if (name[0] == '%') fail("register " + name + " is not declared");
    result.kind = Operand::Kind::name;
    result.text = std::move(name);
    return result;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  SyntaxTree tree_;
  std::map<std::string, Symbol*, std::less<>> names_;  ///< of module scope
  std::vector<std::uint32_t> scopes_;
};

}  // namespace

std::uint32_t Function::find_label(std::string_view label, std::uint32_t scope) const {
  for (;;) {
    const auto found = scopes[scope].labels.find(label);
    if (found != scopes[scope].labels.end()) return found->second;
    if (scope == 0) return ~0u;
    scope = scopes[scope].parent;
  }
}

SyntaxTree parse_syntax(std::string_view text) { return Parser(text).module(); }

}  // namespace emulator::ptx
