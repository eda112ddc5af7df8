// Text → Graph. A recursive-descent parser without recursion: graphs, statements, arguments
// (parser_arguments.cpp), lists. Start reading at Parser::graph. The grammar is in
// docs/text-format.md.
#include "ir/parser.h"

#include <cassert>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"

namespace riffle::ir {
namespace {

using Kind = Token::Kind;

bool is_given_type(Op op) noexcept { return op == Op::input || op == Op::param; }

}  // namespace

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
  return builder_.finish(outputs);
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

Graph parse(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).graph();
}

}  // namespace riffle::ir
