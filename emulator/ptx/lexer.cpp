#include "emulator/ptx/lexer.h"

#include <bit>
#include <cstdlib>
#include <string>

#include "emulator/ptx/module.h"

namespace emulator::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool in_word(char c) { return starts_word(c) || is_digit(c); }
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      const bool spaced = skip_space();
      Token token;
      token.line = line_;
      token.spaced = spaced;
      if (at_ < text_.size()) read(token);
      tokens.push_back(token);
      if (token.kind == TokenKind::end) return tokens;
    }
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  bool skip_space() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && peek(1) == '*') {
        const int line = line_;
        at_ += 2;
        while (at_ < text_.size() && !(text_[at_] == '*' && peek(1) == '/')) {
          if (text_[at_] == '\n') ++line_;
          ++at_;
        }
        if (at_ >= text_.size()) throw SyntaxError(line, "comment is never closed");
        at_ += 2;
      } else if (c == '\0' && at_ + 1 == text_.size()) {
        ++at_;  // callers hand over C strings with their terminator
      } else {
        break;
      }
    }
    return at_ != begin;
  }

  void read(Token& token) {
    const std::size_t begin = at_;
    const char c = text_[at_];
    if (starts_word(c)) {
      while (in_word(peek())) ++at_;
      token.kind = TokenKind::word;
      token.text = text_.substr(begin, at_ - begin);
    } else if (c == '.' && in_word(peek(1))) {
      ++at_;
      while (in_word(peek()) || (peek() == ':' && peek(1) == ':' && in_word(peek(2))))
        at_ += peek() == ':' ? 2 : 1;
      token.kind = TokenKind::dot_word;
      token.text = text_.substr(begin + 1, at_ - begin - 1);
    } else if (is_digit(c)) {
      number(token);
    } else if (c == '"') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n')
        at_ += text_[at_] == '\\' && at_ + 1 < text_.size() ? 2 : 1;
      if (at_ >= text_.size() || text_[at_] != '"')
        throw SyntaxError(line_, "string is never closed");
      token.kind = TokenKind::string;
      token.text = text_.substr(begin + 1, at_ - begin - 1);
      ++at_;
    } else if (std::string_view(",;:{}[]()<>+-*/!|@=~&^.").find(c) != std::string_view::npos) {
      ++at_;
      token.kind = TokenKind::punctuation;
      token.text = text_.substr(begin, 1);
    } else {
      throw SyntaxError(line_,
                        "unexpected character " + std::to_string(static_cast<unsigned char>(c)));
    }
  }

  std::uint64_t hexadecimal(int digits) {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      if (digit_value(peek()) > 15)
        throw SyntaxError(
            line_, "a real number's bits need " + std::to_string(digits) + " hexadecimal digits");
      value = value << 4 | static_cast<unsigned>(digit_value(peek()));
    }
    return value;
  }

  void number(Token& token) {
    const std::size_t begin = at_;
    if (peek() == '0' && (peek(1) == 'f' || peek(1) == 'F')) {
      at_ += 2;
      token.kind = TokenKind::real32;
      token.value = hexadecimal(8);
    } else if (peek() == '0' && (peek(1) == 'd' || peek(1) == 'D')) {
      at_ += 2;
      token.kind = TokenKind::real64;
      token.value = hexadecimal(16);
    } else {
      std::size_t end = at_;
      while (end < text_.size() && is_digit(text_[end])) ++end;
      const char after = end < text_.size() ? text_[end] : '\0';
      const char second = end + 1 < text_.size() ? text_[end + 1] : '\0';
      if ((after == '.' && !starts_word(second)) || after == 'e' || after == 'E') {
        const std::string copy(text_.substr(begin, 400));
        char* stop = nullptr;
        token.kind = TokenKind::real64;
        token.value = std::bit_cast<std::uint64_t>(std::strtod(copy.c_str(), &stop));
        at_ += static_cast<std::size_t>(stop - copy.c_str());
      } else {
        integer(token);
      }
    }
    if (in_word(peek()))
      throw SyntaxError(line_,
                        "malformed number " + std::string(text_.substr(begin, at_ + 1 - begin)));
    token.text = text_.substr(begin, at_ - begin);
  }

  void integer(Token& token) {
    std::uint64_t base = 10;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X'))
      base = 16, at_ += 2;
    else if (peek() == '0' && (peek(1) == 'b' || peek(1) == 'B'))
      base = 2, at_ += 2;
    else if (peek() == '0')
      base = 8;
    std::uint64_t value = 0;
    bool any = false;
    for (; digit_value(peek()) < static_cast<int>(base); ++at_, any = true) {
      const auto digit = static_cast<std::uint64_t>(digit_value(peek()));
      if (value > (~std::uint64_t{0} - digit) / base)
        throw SyntaxError(line_, "integer does not fit in 64 bits");
      value = value * base + digit;
    }
    if (!any) throw SyntaxError(line_, "number without digits");
    if (peek() == 'U') ++at_;
    token.kind = TokenKind::integer;
    token.value = value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

SyntaxError::SyntaxError(int line, std::string what)
    : line(line), text("line " + std::to_string(line) + ": " + std::move(what)) {}

std::vector<Token> tokenise(std::string_view text) { return Lexer(text).run(); }

}  // namespace emulator::ptx
