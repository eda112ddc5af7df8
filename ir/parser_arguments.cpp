// Arguments of an op as written → operands and attributes, by the op's signature. Start reading at
// Parser::arguments, which reads them, and Parser::bind, which gives them their meaning.
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/parser.h"

namespace riffle::ir {
namespace {

using Kind = Token::Kind;

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

}  // namespace

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

}  // namespace riffle::ir
