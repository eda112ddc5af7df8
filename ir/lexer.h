// The tokens of the text form. A Lexer reads one at a time and keeps none, so the size of a text
// is not multiplied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace riffle::ir {

struct Token {
  enum class Kind : std::uint8_t {
    end,          ///< of the text
    newline,      ///< outside of ( ) and [ ] only: it ends a statement
    value,        ///< %name
    graph,        ///< @name
    word,         ///< graph, return, break, relu, f32, True, inf …
    number,       ///< 12, -1.5e-3, -inf
    string,       ///< 'text'
    punctuation,  ///< one of ( ) [ ] { } , : =
  };
  Kind kind = Kind::end;
  std::string text;          ///< as meant: names without sigil and quotes, strings without escapes
  int line = 1, column = 1;  ///< from 1; columns count UTF-8 characters

  bool is(char c) const noexcept { return kind == Kind::punctuation && text[0] == c; }
  bool is_word(std::string_view word) const noexcept { return kind == Kind::word && text == word; }
};

/// "'relu'", "the end of the line": what an error message says was found. Long ones are cut.
std::string describe(const Token& token);
/// At most 40 characters of `text`, for messages.
std::string excerpt(std::string_view text);

/// Throws GraphError for characters that begin no token.
class Lexer {
 public:
  /// Both views must outlive the lexer.
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}
  Token next();
  /// Just after the last token.
  int line() const noexcept { return line_; }
  int column() const noexcept { return column_; }

 private:
  char peek(std::size_t ahead = 0) const noexcept {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool at_end() const noexcept { return at_ >= text_.size(); }
  char take() noexcept;
  void skip_blanks() noexcept;
  void name(Token& token);
  void number(Token& token);
  void string(Token& token);
  char hex_escape();
  [[noreturn]] void fail(int line, int column, std::string what, std::string hint = {}) const;

  std::string_view text_, file_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
  int nesting_ = 0;  // of ( and [
};

}  // namespace riffle::ir
