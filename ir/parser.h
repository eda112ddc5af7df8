// The parser of the text form, for parser.cpp (tokens, statements) and parser_arguments.cpp alone;
// ir/text.h has what others call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/lexer.h"
#include "ir/literals.h"

namespace riffle::ir {

/// One argument as written, before the op's signature says what it must be.
struct Argument {
  enum class Form : std::uint8_t { value, values, ints, empty_list, number, text, word };
  Form form = Form::word;
  Token token;          ///< its first token: the place, and the text of single-token forms
  std::string keyword;  ///< empty: given by position
  Token keyword_token;
  std::vector<ValueId> values;
  Ints ints;
};

/// Reads statements and appends them through a Builder, which infers the types.
class Parser {
 public:
  Parser(std::string_view text, std::string_view file)
      : text_(text), file_(file), lexer_(text, file) {
    advance();
  }
  Graph graph();

 private:
  struct Definition {
    ValueId id;
    int line;
  };
  /// Operands and attributes of a node; a literal operand is appended once its dtype is known.
  struct Bound {
    std::vector<Value> operands;
    Attrs attrs;
  };

  // Tokens.
  void advance();
  bool accept(char punctuation);
  void expect(char punctuation, std::string_view why);
  void skip_newlines();
  void end_statement(std::string_view what);
  [[noreturn]] void expected(std::string_view what, std::string hint = {}) const;
  [[noreturn]] void fail(const Token& at, std::string what, std::string hint = {}) const;
  SourceLocation place(const Token& token) const {
    return {std::string(file_), token.line, token.column};
  }

  // Statements.
  void value_statement();
  std::vector<Value> return_statement();
  const OpInfo& op_name();
  TensorType written_type();
  void define(const Token& name, Value value);
  ValueId use(const Token& name);
  const std::unordered_map<std::string, int>& names_in_text();

  // Arguments.
  std::vector<Argument> arguments();
  Argument argument();
  void list(Argument& into);
  std::vector<const Argument*> match(const OpInfo& op, const std::vector<Argument>& given);
  Bound bind(const OpInfo& op, const Token& at, const std::vector<Argument>& given);
  AttrValue attribute(const OpInfo& op, const ArgumentSpec& spec, const Argument& given);
  Value literal(const OpInfo& op, const ArgumentSpec& spec, const Argument& given,
                std::optional<DType> dtype);
  std::int64_t integer(const Token& token) const;
  double number(const Token& token) const;
  static bool is_number(const Argument& argument);

  std::string_view text_, file_;
  Lexer lexer_;
  Token token_;
  Token after_;  // just behind the token before: where something missing is reported
  Builder builder_{""};
  std::unordered_map<std::string, Definition> defined_;
  std::unordered_map<std::string, int> in_text_;  // every name defined anywhere, and its line
  NameScope literal_names_;
};

}  // namespace riffle::ir
