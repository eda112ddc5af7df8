// Text → Graph. A recursive-descent parser without recursion: graphs, statements, arguments, lists.
//
//   Parser        reads statements and appends them through a Builder, which infers the types
//   Argument      one argument as written, before the op's signature says what it must be
//   bind          arguments + signature → operands and attributes
//
// Start reading at Parser::graph. The grammar is in docs/text-format.md.
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/builder.h"
#include "ir/lexer.h"
#include "ir/literals.h"
#include "ir/text.h"

namespace riffle::ir {
namespace {

using Kind = Token::Kind;

struct Argument {
  enum class Form : std::uint8_t { value, values, ints, empty_list, number, text, word };
  Form form = Form::word;
  Token token;          ///< its first token: the place, and the text of single-token forms
  std::string keyword;  ///< empty: given by position
  Token keyword_token;
  std::vector<ValueId> values;
  Ints ints;
};

std::string_view what_is(const Argument& argument) {
  switch (argument.form) {
    case Argument::Form::value:
      return "a value";
    case Argument::Form::values:
      return "a list of values";
    case Argument::Form::ints:
      return "a list of integers";
    case Argument::Form::empty_list:
      return "an empty list";
    case Argument::Form::number:
      return "a number";
    case Argument::Form::text:
      return "a string";
    case Argument::Form::word:
      break;
  }
  return "a word";
}

std::string_view example_of(const ArgumentSpec& spec) {
  if (spec.role == ArgumentSpec::Role::operand_list) return "a list of values such as [%a, %b]";
  if (spec.is_operand()) return "a value such as %x";
  switch (spec.kind) {
    case AttrKind::flag:
      return "True or False";
    case AttrKind::integer:
      return "an integer";
    case AttrKind::number:
      return "a number";
    case AttrKind::dtype:
      return "a dtype: f32, f64, bf16, f16, i64, i32 or bool";
    case AttrKind::text:
      return "a string such as 'mean'";
    case AttrKind::ints:
      break;
  }
  return "a list of integers such as [0, 1]";
}

std::string signature_of(const OpInfo& op) {
  std::vector<std::string_view> names;
  for (const ArgumentSpec& spec : op.arguments) names.push_back(spec.name);
  return fmt::format("{}({})", op.text, fmt::join(names, ", "));
}

bool is_given_type(Op op) noexcept { return op == Op::input || op == Op::param; }

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

// ---------------------------------------------------------------- tokens

void Parser::advance() {
  after_.line = lexer_.line();
  after_.column = lexer_.column();
  token_ = lexer_.next();
}

void Parser::fail(const Token& at, std::string what, std::string hint) const {
  throw GraphError({std::move(what), to_string(place(at)), std::move(hint)});
}

void Parser::expected(std::string_view what, std::string hint) const {
  // Inside of parentheses line ends are blanks: what is missing is missing on the line before.
  if (token_.kind != Kind::end && token_.line > after_.line)
    fail(after_, fmt::format("expected {}, found the end of the line", what), std::move(hint));
  fail(token_, fmt::format("expected {}, found {}", what, describe(token_)), std::move(hint));
}

bool Parser::accept(char punctuation) {
  if (!token_.is(punctuation)) return false;
  advance();
  return true;
}

void Parser::expect(char punctuation, std::string_view why) {
  if (!accept(punctuation)) expected(fmt::format("'{}' {}", punctuation, why));
}

void Parser::skip_newlines() {
  while (token_.kind == Kind::newline) advance();
}

void Parser::end_statement(std::string_view what) {
  if (token_.kind != Kind::newline && !token_.is('}'))
    expected(fmt::format("the end of the line after {}", what));
}

// ---------------------------------------------------------------- statements

Graph Parser::graph() {
  skip_newlines();
  if (!token_.is_word("graph")) expected("'graph @name {'");
  advance();
  if (token_.kind != Kind::graph) expected("the graph's name, such as @mlp");
  builder_ = Builder(token_.text);
  advance();
  expect('{', "after the graph's name");
  while (true) {
    skip_newlines();
    if (token_.is_word("return")) break;
    if (token_.is_word("break")) {
      builder_.set_location(place(token_));
      builder_.append_break();
      advance();
      end_statement("'break'");
    } else if (token_.kind == Kind::value) {
      value_statement();
    } else if (token_.kind == Kind::word && find_op(token_.text)) {
      expected("'%name = …', 'break' or 'return'",
               fmt::format("give the result a name: %{} = {}(…)", token_.text, token_.text));
    } else if (token_.is('}') || token_.kind == Kind::end) {
      expected("'return'", "end the graph with 'return %value'");
    } else {
      expected("'%name = …', 'break' or 'return'");
    }
  }
  std::vector<Value> outputs = return_statement();
  skip_newlines();
  if (token_.kind == Kind::value || token_.kind == Kind::word)
    expected("'}' after 'return', which is a graph's last statement");
  expect('}', "at the end of the graph");
  skip_newlines();
  if (token_.kind != Kind::end) expected("the end of the text after the graph");
  return builder_.finish(std::move(outputs));
}

std::vector<Value> Parser::return_statement() {
  advance();
  std::vector<Value> outputs;
  do {
    if (token_.kind != Kind::value) expected("a value to return, such as %loss");
    outputs.push_back({use(token_)});
    advance();
  } while (accept(','));
  end_statement("'return'");
  return outputs;
}

void Parser::value_statement() {
  const Token name = token_;
  if (const auto known = defined_.find(name.text); known != defined_.end())
    fail(name, fmt::format("{} is defined twice", describe(name)),
         fmt::format("another name: the first is in line {}", known->second.line));
  advance();
  std::optional<TensorType> type;
  Token type_at = token_;
  const auto type_follows = [&] {
    const Token colon = token_;
    if (!accept(':')) return;
    if (type) fail(colon, fmt::format("the type of {} is written twice", describe(name)));
    type_at = token_;
    type = written_type();
  };
  type_follows();
  expect('=', "after the value's name");
  const Token op_at = token_;
  const OpInfo& op = op_name();
  const std::vector<Argument> given = arguments();
  type_follows();
  end_statement("the value");

  if (is_given_type(op.op) && !type)
    fail(after_, fmt::format("{} needs a type", op.text),
         fmt::format("%{} = {} : f32[64, 1024]", excerpt(name_literal(name.text)), op.text));
  Bound bound = bind(op, op_at, given);
  builder_.set_location(place(name));  // also where errors of the type rule are
  const Value value =
      is_given_type(op.op)
          ? builder_.append_source(op.op, *type, name.text, std::move(bound.attrs))
          : builder_.append(op.op, bound.operands, std::move(bound.attrs), name.text);
  if (type && builder_.type(value) != *type)
    fail(type_at, fmt::format("{} is {}, not {} as written", describe(name),
                              to_string(builder_.type(value)), to_string(*type)));
  define(name, value);
}

const OpInfo& Parser::op_name() {
  if (token_.kind != Kind::word) expected("the name of an op");
  const OpInfo* op = find_op(token_.text);
  if (token_.text == "host_call") fail(token_, "host_call is not supported yet");
  if (!op) {
    const std::vector<std::string_view> similar = similar_ops(token_.text);
    fail(token_, fmt::format("there is no op '{}'", excerpt(token_.text)),
         similar.empty() ? "docs/text-format.md lists the ops"
                         : fmt::format("{}", fmt::join(similar, ", ")));
  }
  if (op->family == OpFamily::marker)
    fail(token_, fmt::format("'{}' computes no value", op->text),
         fmt::format("write '{}' alone on its line", op->text));
  advance();
  return *op;
}

TensorType Parser::written_type() {
  if (token_.kind != Kind::word) expected("a type such as f32[64, 1024]");
  const std::optional<DType> dtype = dtype_from_name(token_.text);
  if (!dtype)
    fail(token_, fmt::format("there is no dtype '{}'", excerpt(token_.text)),
         "f32, f64, bf16, f16, i64, i32, bool");
  TensorType type{*dtype, {}};
  const Token first = token_;
  advance();
  expect('[', "after the dtype; a scalar's type is " + std::string(name_of(*dtype)) + "[]");
  while (!token_.is(']')) {
    if (!type.shape.empty()) expect(',', "or ']' after a size");
    if (token_.kind != Kind::number) expected("a size");
    const std::int64_t size = integer(token_);
    if (size < 0) fail(token_, fmt::format("a size may not be negative: {}", size));
    type.shape.push_back(size);
    advance();
  }
  advance();
  try {
    check_size(type);
  } catch (const GraphError& error) {
    fail(first, std::string(error.message()), std::string(error.hint()));
  }
  return type;
}

void Parser::define(const Token& name, Value value) {
  // The scope of the Builder holds what was defined here and names that no statement defines.
  assert(builder_.graph()[value.id].name == name.text);
  defined_.emplace(name.text, Definition{value.id, name.line});
}

ValueId Parser::use(const Token& name) {
  if (const auto known = defined_.find(name.text); known != defined_.end()) return known->second.id;
  const auto& later = names_in_text();
  if (const auto found = later.find(name.text); found != later.end())
    fail(name, fmt::format("{} is used before it is defined", describe(name)),
         found->second == name.line
             ? ""
             : fmt::format("move its definition, in line {}, up", found->second));
  std::vector<std::string_view> names;
  names.reserve(defined_.size());
  for (const Node& node : builder_.graph().nodes) names.push_back(node.name);
  std::vector<std::string> similar;
  for (const std::string_view near : similar_names(name.text, names))
    similar.push_back("%" + name_literal(near));
  fail(name, fmt::format("{} is not defined", describe(name)),
       fmt::format("{}", fmt::join(similar, ", ")));
}

/// Reads ahead once, when a literal operand needs a free name or a use has no definition.
const std::unordered_map<std::string, int>& Parser::names_in_text() {
  if (!in_text_.empty()) return in_text_;
  in_text_.emplace("", 0);  // read
  Lexer lexer(text_, file_);
  bool at_start = true;
  try {
    for (Token token = lexer.next(); token.kind != Kind::end; token = lexer.next()) {
      if (at_start && token.kind == Kind::value) in_text_.emplace(token.text, token.line);
      at_start = token.kind == Kind::newline || token.is('{');
    }
  } catch (const GraphError&) {
    // The parser meets it in its turn.
  }
  for (const auto& [name, line] : in_text_) literal_names_.take(name);
  return in_text_;
}

// ---------------------------------------------------------------- arguments

std::vector<Argument> Parser::arguments() {
  std::vector<Argument> given;
  if (!accept('(')) return given;
  while (!token_.is(')')) {
    if (!given.empty()) {
      if (!accept(',')) expected("',' or ')' after the argument");
      if (token_.is(')')) break;
    }
    given.push_back(argument());
    if (given.back().keyword.empty() && given.size() > 1 &&
        !given[given.size() - 2].keyword.empty())
      fail(given.back().token, "an argument by position may not follow one by keyword");
  }
  advance();
  return given;
}

Argument Parser::argument() {
  Argument result;
  if (token_.kind == Kind::word) {
    const Token word = token_;
    advance();
    if (accept('=')) {
      result.keyword = word.text;
      result.keyword_token = word;
    } else {
      result.token = word;
      return result;
    }
  }
  result.token = token_;
  switch (token_.kind) {
    case Kind::value:
      result.form = Argument::Form::value;
      result.values = {use(token_)};
      break;
    case Kind::number:
      result.form = Argument::Form::number;
      break;
    case Kind::string:
      result.form = Argument::Form::text;
      break;
    case Kind::word:
      break;
    default:
      if (!token_.is('[')) expected("an argument");
      list(result);
      return result;
  }
  advance();
  return result;
}

void Parser::list(Argument& into) {
  into.form = Argument::Form::empty_list;
  advance();
  for (bool first = true; !token_.is(']'); first = false) {
    if (!first) {
      if (!accept(',')) expected("',' or ']' in the list");
      if (token_.is(']')) break;
    }
    if (token_.kind == Kind::value && into.ints.empty()) {
      into.form = Argument::Form::values;
      into.values.push_back(use(token_));
    } else if (token_.kind == Kind::number && into.values.empty()) {
      into.form = Argument::Form::ints;
      into.ints.push_back(integer(token_));
    } else {
      expected(first                 ? "an integer or a value in the list"
               : into.values.empty() ? "an integer in the list"
                                     : "a value in the list");
    }
    advance();
  }
  advance();
}

/// The argument given for each entry of the signature, or nullptr.
std::vector<const Argument*> Parser::match(const OpInfo& op, const std::vector<Argument>& given) {
  std::vector<const Argument*> matched(op.arguments.size(), nullptr);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Argument& argument = given[i];
    std::size_t position = i;
    if (!argument.keyword.empty()) {
      position = 0;
      while (position < op.arguments.size() && op.arguments[position].name != argument.keyword)
        ++position;
      if (position == op.arguments.size())
        fail(argument.keyword_token,
             fmt::format("{} has no argument '{}'", op.text, excerpt(argument.keyword)),
             signature_of(op));
      if (matched[position])
        fail(argument.keyword_token,
             fmt::format("{} gets its argument '{}' twice", op.text, argument.keyword));
    }
    if (position >= op.arguments.size())
      fail(argument.token,
           fmt::format("{} takes at most {} argument{}", op.text, op.arguments.size(),
                       op.arguments.size() == 1 ? "" : "s"),
           signature_of(op));
    matched[position] = &argument;
  }
  return matched;
}

Parser::Bound Parser::bind(const OpInfo& op, const Token& at, const std::vector<Argument>& given) {
  const std::vector<const Argument*> matched = match(op, given);
  Bound bound;
  // Literals take the dtype of the first operand that is a value; a condition's says nothing.
  std::optional<DType> dtype;
  for (std::size_t i = 0; i < matched.size(); ++i)
    if (matched[i] && !matched[i]->values.empty() && !dtype && op.arguments[i].is_operand() &&
        op.arguments[i].name != "condition")
      dtype = builder_.type({matched[i]->values[0]}).dtype;

  const ArgumentSpec* left_out = nullptr;  // an optional operand
  for (std::size_t i = 0; i < matched.size(); ++i) {
    const ArgumentSpec& spec = op.arguments[i];
    const Argument* argument = matched[i];
    const bool optional = spec.role == ArgumentSpec::Role::optional_operand;
    if (argument && optional && argument->form == Argument::Form::word &&
        argument->token.text == "None")
      argument = nullptr;
    if (!argument) {
      if (optional)
        left_out = &spec;
      else if (spec.is_operand() || !spec.default_value)
        fail(at, fmt::format("{} needs its argument '{}'", op.text, spec.name), signature_of(op));
      continue;
    }
    if (!spec.is_operand()) {
      bound.attrs.set(spec.name, attribute(op, spec, *argument));
      continue;
    }
    if (left_out)
      fail(argument->token, fmt::format("{} takes '{}' only together with '{}'", op.text, spec.name,
                                        left_out->name));
    const bool is_list = spec.role == ArgumentSpec::Role::operand_list;
    if (is_list ? argument->form == Argument::Form::values
                : argument->form == Argument::Form::value) {
      for (const ValueId id : argument->values) bound.operands.push_back({id});
    } else if (!is_list && is_number(*argument)) {
      bound.operands.push_back(literal(op, spec, *argument, dtype));
    } else {
      fail(argument->token, fmt::format("expected {} for '{}' of {}, found {}", example_of(spec),
                                        spec.name, op.text, what_is(*argument)));
    }
  }
  return bound;
}

AttrValue Parser::attribute(const OpInfo& op, const ArgumentSpec& spec, const Argument& given) {
  using Form = Argument::Form;
  const std::string& word = given.token.text;
  switch (spec.kind) {
    case AttrKind::flag:
      if (given.form == Form::word && word == "True") return true;
      if (given.form == Form::word && word == "False") return false;
      break;
    case AttrKind::integer:
      if (given.form == Form::number) return integer(given.token);
      break;
    case AttrKind::number:
      if (is_number(given) && word != "True" && word != "False") return number(given.token);
      break;
    case AttrKind::dtype:
      if (given.form != Form::word) break;
      if (const auto dtype = dtype_from_name(word)) return *dtype;
      fail(given.token, fmt::format("there is no dtype '{}'", excerpt(word)),
           "f32, f64, bf16, f16, i64, i32, bool");
    case AttrKind::text:
      if (given.form == Form::text) return word;
      break;
    case AttrKind::ints:
      if (given.form == Form::ints || given.form == Form::empty_list) return given.ints;
      if (given.form == Form::number) return Ints{integer(given.token)};  // dim=1
      break;
  }
  fail(given.token,
       fmt::format("expected {} for '{}' of {}, found {}", example_of(spec), spec.name, op.text,
                   given.form == Form::word ? describe(given.token) : what_is(given)));
}

bool Parser::is_number(const Argument& argument) {
  if (argument.form == Argument::Form::number) return true;
  if (argument.form != Argument::Form::word) return false;
  const std::string& word = argument.token.text;
  return word == "inf" || word == "nan" || word == "True" || word == "False";
}

/// A number where a value is expected: a scalar constant of the other operand's dtype.
Value Parser::literal(const OpInfo& op, const ArgumentSpec& spec, const Argument& given,
                      std::optional<DType> dtype) {
  const Token& token = given.token;
  if (!dtype)
    fail(token, fmt::format("no operand of {} says the dtype of this number", op.text),
         "%c = full([], " + excerpt(token.text) + ", f32)");
  const bool truth = token.text == "True" || token.text == "False";
  const double value = truth ? token.text == "True" : number(token);
  const auto refuse = [&](std::string_view why) {
    fail(token, fmt::format("'{}' of {} is {}, and {} {}", spec.name, op.text, name_of(*dtype),
                            excerpt(token.text), why));
  };
  if (truth != (*dtype == DType::boolean)) refuse(truth ? "is a bool" : "is a number");
  if (is_integer(*dtype)) {
    if (value != std::nearbyint(value)) refuse("is no integer");  // nan too
    // A double holds integers exactly up to 2^53.
    const double limit = *dtype == DType::i32 ? 2147483648.0 : 9007199254740992.0;
    if (value < -limit || value >= limit) refuse("is out of range");
  }
  names_in_text();
  const std::string name = literal_names_.unique("full");
  Attrs attrs{{"size", Ints{}}, {"fill_value", value}, {"dtype", *dtype}};
  builder_.set_location(place(token));
  return builder_.append(Op::full, std::span<const Value>{}, std::move(attrs), name);
}

std::int64_t Parser::integer(const Token& token) const {
  const char* const end = token.text.data() + token.text.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error == std::errc::result_out_of_range)
    fail(token, fmt::format("{} does not fit in 64 bits", excerpt(token.text)));
  if (error != std::errc{} || stop != end)
    fail(token, fmt::format("expected an integer, found '{}'", excerpt(token.text)));
  return value;
}

double Parser::number(const Token& token) const {
  if (token.text == "inf") return std::numeric_limits<double>::infinity();
  if (token.text == "-inf") return -std::numeric_limits<double>::infinity();
  if (token.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const char* const end = token.text.data() + token.text.size();
  double value = 0;
  if (std::from_chars(token.text.data(), end, value).ec != std::errc{})
    fail(token, fmt::format("{} does not fit in a double", excerpt(token.text)));
  return value;
}

}  // namespace

Graph parse(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).graph();
}

}  // namespace riffle::ir
