#include "ir/lexer.h"

#include <fmt/format.h>

#include "ir/literals.h"

namespace riffle::ir {
namespace {

constexpr std::string_view kPunctuation = "()[]{},:=";

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string printable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02x}", byte);
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) return std::string(text);
  std::size_t length = kLongest;  // not within a UTF-8 character
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  return std::string(text.substr(0, length)) + "…";
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the text";
    case Token::Kind::newline:
      return "the end of the line";
    case Token::Kind::value:
      return "%" + excerpt(name_literal(token.text));
    case Token::Kind::graph:
      return "@" + excerpt(name_literal(token.text));
    case Token::Kind::string:
      return excerpt(string_literal(token.text));
    case Token::Kind::word:
    case Token::Kind::number:
    case Token::Kind::punctuation:
      break;
  }
  return "'" + excerpt(token.text) + "'";
}

void Lexer::fail(int line, int column, std::string what, std::string hint) const {
  throw GraphError({std::move(what), to_string(SourceLocation{std::string(file_), line, column}),
                    std::move(hint)});
}

char Lexer::take() noexcept {
  const char c = text_[at_++];
  if (c == '\n') {
    ++line_;
    column_ = 1;
  } else if ((static_cast<unsigned char>(peek()) & 0xc0) != 0x80) {
    ++column_;  // the next byte begins a character
  }
  return c;
}

void Lexer::skip_blanks() noexcept {
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      while (!at_end() && peek() != '\n') take();
    } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && nesting_ > 0)) {
      take();
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  Token token;
  token.line = line_;
  token.column = column_;
  if (at_end()) return token;
  const char c = peek();
  if (c == '\n') {
    token.kind = Token::Kind::newline;
    take();
  } else if (c == '%' || c == '@') {
    token.kind = c == '%' ? Token::Kind::value : Token::Kind::graph;
    take();
    name(token);
  } else if (c == '\'') {
    token.kind = Token::Kind::string;
    string(token);
  } else if (is_digit(c) || c == '-' || c == '.') {
    number(token);
  } else if (starts_name(c)) {
    token.kind = Token::Kind::word;
    while (!at_end() && starts_name(peek())) token.text += take();
  } else if (kPunctuation.find(c) != std::string_view::npos) {
    token.kind = Token::Kind::punctuation;
    token.text = std::string(1, take());
    if (c == '(' || c == '[') ++nesting_;
    if ((c == ')' || c == ']') && nesting_ > 0) --nesting_;
  } else if (c == '"') {
    fail(line_, column_, "strings are written in single quotes", "'text'");
  } else {
    fail(line_, column_, "unexpected " + printable(c));
  }
  return token;
}

void Lexer::name(Token& token) {
  if (peek() == '\'') {
    string(token);
    if (token.text.empty()) fail(token.line, token.column, "a name may not be empty");
    if (token.text.find('\0') != std::string::npos)
      fail(token.line, token.column, "a name may not hold a zero byte");
    return;
  }
  if (at_end() || !starts_name(peek()))
    fail(token.line, token.column,
         fmt::format("expected a name after '{}'", token.kind == Token::Kind::value ? '%' : '@'),
         "letters, digits, '_', '.' and '-', or any text in single quotes");
  while (!at_end() && continues_name(peek())) token.text += take();
}

void Lexer::number(Token& token) {
  token.kind = Token::Kind::number;
  const auto digits = [&] {
    std::size_t count = 0;
    for (; !at_end() && is_digit(peek()); ++count) token.text += take();
    return count;
  };
  if (peek() == '-') token.text += take();
  if (starts_name(peek()) && !is_digit(peek())) {  // -inf
    while (!at_end() && starts_name(peek())) token.text += take();
    if (token.text != "-inf")
      fail(token.line, token.column, fmt::format("malformed number '{}'", excerpt(token.text)));
    return;
  }
  std::size_t count = digits();
  if (peek() == '.') {
    token.text += take();
    count += digits();
  }
  bool good = count > 0;
  if (good && (peek() == 'e' || peek() == 'E')) {
    token.text += take();
    if (peek() == '+' || peek() == '-') token.text += take();
    good = digits() > 0;
  }
  while (!at_end() && (starts_name(peek()) || peek() == '.')) {
    good = false;
    token.text += take();
  }
  if (!good)
    fail(token.line, token.column, fmt::format("malformed number '{}'", excerpt(token.text)));
}

char Lexer::hex_escape() {
  int value = 0;
  for (int i = 0; i < 2; ++i) {
    const char c = peek();
    const int digit = is_digit(c)              ? c - '0'
                      : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                      : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                               : -1;
    if (digit < 0) fail(line_, column_, "expected two hexadecimal digits after '\\x'");
    value = value * 16 + digit;
    take();
  }
  return static_cast<char>(value);
}

void Lexer::string(Token& token) {
  take();  // the quote
  while (true) {
    if (at_end() || peek() == '\n')
      fail(token.line, token.column, "the string does not end on its line",
           "close it with a single quote; write a line break as \\n");
    if (peek() == '\0') fail(line_, column_, "unexpected byte 0x00 in a string", "write \\x00");
    const char c = take();
    if (c == '\'') return;
    if (c != '\\') {
      token.text += c;
      continue;
    }
    const char escaped = at_end() ? '\0' : peek();
    switch (escaped) {
      case '\'':
      case '\\':
        token.text += take();
        break;
      case 'n':
      case 't':
      case 'r':
        take();
        token.text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : '\r';
        break;
      case 'x':
        take();
        token.text += hex_escape();
        break;
      default:
        fail(line_, column_ - 1, "unknown escape in a string", "\\' \\\\ \\n \\t \\r \\xNN");
    }
  }
}

}  // namespace riffle::ir
