// Tokens → SyntaxTree, by recursive descent: modules, variables, the heads of functions. Bodies are
// in parser_body.cpp. Start reading at Parser::module.
#include "emulator/ptx/parser.h"

#include <bit>
#include <cstring>

namespace emulator::ptx {
namespace {

constexpr std::uint64_t kMostVariableBytes = std::uint64_t{1} << 34;
constexpr std::uint64_t kMostInitialBytes = std::uint64_t{1} << 28;

Space space_named(std::string_view text) {
  if (text == "global") return Space::global;
  if (text == "const") return Space::constant;
  if (text == "shared" || text == "shared::cta") return Space::shared;
  if (text == "local") return Space::local;
  if (text == "param" || text == "param::entry" || text == "param::func") return Space::param;
  if (text == "reg") return Space::reg;
  return Space::generic;
}

}  // namespace

SyntaxTree Parser::module() {
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

void Parser::version() {
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

void Parser::section() {
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

void Parser::definition() {
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

void Parser::variable(bool external, Function* function) {
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

void Parser::declare(std::unique_ptr<Symbol> symbol, Function* function) {
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

std::uint32_t Parser::power_of_two(std::uint64_t value) {
  if (value == 0 || (value & (value - 1)) != 0 || value > 4096)
    fail("alignment is not a power of two up to 4096");
  return static_cast<std::uint32_t>(value);
}

void Parser::initialiser(Type type, std::vector<std::byte>& bytes, int depth) {
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

Operand Parser::constant() {
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

void Parser::function() {
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
        for (int i = 0; i < 3; ++i) f.required_threads[i] = static_cast<std::uint32_t>(extents[i]);
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

void Parser::parameters(Function& f, std::vector<Symbol*>& list) {
  expect("(");
  if (accept(")")) return;
  do {
    if (peek().kind != TokenKind::dot_word) fail("expected .param or .reg");
    list.push_back(parameter(f));
  } while (accept(","));
  expect(")");
}

Symbol* Parser::parameter(Function& f) {
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
