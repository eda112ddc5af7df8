// What is between a function's braces: registers, labels, instructions and their operands. Start
// reading at Parser::block.
#include "emulator/ptx/parser.h"

namespace emulator::ptx {

void Parser::block(Function& f, int depth) {
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
        throw SyntaxError(token.line, "calls through a pointer (.callprototype) are not supported");
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

void Parser::directive(Function& f) {
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

void Parser::branch_targets(Function& f, const std::string& label) {
  next();
  auto symbol = std::make_unique<Symbol>();
  symbol->kind = Symbol::Kind::table;
  symbol->name = label;
  do symbol->targets.emplace_back(expect_word());
  while (accept(","));
  expect(";");
  declare(std::move(symbol), &f);
}

void Parser::registers(Function& f) {
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

Symbol* Parser::make_register(Function& f, std::uint32_t scope, const std::string& name,
                              Type type) {
  auto symbol = std::make_unique<Symbol>();
  symbol->type = type;
  symbol->name = name;
  Symbol* raw = symbol.get();
  if (!f.scopes[scope].symbols.emplace(name, raw).second)
    fail("'" + name + "' is already declared in this scope");
  f.symbols.push_back(std::move(symbol));
  return raw;
}

Symbol* Parser::find(Function& f, std::string_view name) {
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
      if (std::strtoull(std::string(name.substr(cut)).c_str(), nullptr, 10) < range->second.second)
        return make_register(f, scopes_[i], std::string(name), range->second.first);
    }
  }
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

void Parser::statement(Function& f) {
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
  while (peek().kind == TokenKind::dot_word && !peek().spaced) s.suffixes.emplace_back(next().text);
  if (!accept(";")) {
    do s.operands.push_back(operand(f, 0));
    while (accept(",") || (s.opcode == "call" && is("(")));
    expect(";");
  }
  f.body.push_back(std::move(s));
  if (f.body.size() > (1u << 20)) fail("function is too long");
}

Operand Parser::operand(Function& f, int depth) {
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

void Parser::elements(Function& f, Operand& into, std::string_view close, int depth) {
  if (accept(close)) return;
  do {
    if (into.elements.size() > 4096) fail("too many operands");
    into.elements.push_back(operand(f, depth + 1));
  } while (accept(","));
  expect(close);
}

Operand Parser::named(Function& f) {
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

}  // namespace emulator::ptx
