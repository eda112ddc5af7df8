// The parser of PTX, for parser.cpp (module scope, functions' heads) and parser_body.cpp (what is
// between a function's braces) alone; syntax.h has what others call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/syntax.h"

namespace emulator::ptx {

inline constexpr int kDeepest = 64;  ///< nested { }

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokenise(text)) {}
  SyntaxTree module();

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

  // --- module scope: parser.cpp
  void version();
  void section();
  void definition();
  /// .shared .align 4 .b8 name[16], other = {1, 2};
  void variable(bool external, Function* function);
  void declare(std::unique_ptr<Symbol> symbol, Function* function);
  std::uint32_t power_of_two(std::uint64_t value);
  void initialiser(Type type, std::vector<std::byte>& bytes, int depth = 0);
  /// A number with its sign.
  Operand constant();

  // --- functions: parser.cpp
  void function();
  void parameters(Function& f, std::vector<Symbol*>& list);
  Symbol* parameter(Function& f);

  // --- their bodies: parser_body.cpp
  /// After its "{".
  void block(Function& f, int depth);
  void directive(Function& f);
  void branch_targets(Function& f, const std::string& label);
  void registers(Function& f);
  Symbol* make_register(Function& f, std::uint32_t scope, const std::string& name, Type type);
  /// Innermost scope first; null: no such symbol.
  Symbol* find(Function& f, std::string_view name);
  void statement(Function& f);
  Operand operand(Function& f, int depth);
  void elements(Function& f, Operand& into, std::string_view close, int depth);
  Operand named(Function& f);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  SyntaxTree tree_;
  std::map<std::string, Symbol*, std::less<>> names_;  ///< of module scope
  std::vector<std::uint32_t> scopes_;
};

}  // namespace emulator::ptx
