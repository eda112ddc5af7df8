// The op registry: rows of ops.def, their signatures parsed once, and their blocks. Built on first
// use and never destroyed (a static with a destructor would run it at exit, under live users).
#include "ir/op.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

#include <fmt/format.h>

#include "ir/literals.h"
#include "ir/ops/blocks.h"
#include "ir/ops/rules.h"

namespace riffle::ir {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

AttrKind kind_from(std::string_view word) {
  if (word == "flag") return AttrKind::flag;
  if (word == "integer") return AttrKind::integer;
  if (word == "number") return AttrKind::number;
  if (word == "dtype") return AttrKind::dtype;
  if (word == "text") return AttrKind::text;
  assert(word == "ints" && "ops.def: unknown attribute kind");
  return AttrKind::ints;
}

// Defaults as ops.def writes them. Lists there are empty; a malformed one is a bug of the table.
AttrValue default_from(AttrKind kind, std::string_view word) {
  switch (kind) {
    case AttrKind::flag:
      return word == "True";
    case AttrKind::integer: {
      std::int64_t value = 0;
      [[maybe_unused]] auto end = std::from_chars(word.data(), word.data() + word.size(), value);
      assert(end.ptr == word.data() + word.size());
      return value;
    }
    case AttrKind::number:
      return std::strtod(std::string(word).c_str(), nullptr);
    case AttrKind::dtype: {
      auto dtype = dtype_from_name(word);
      assert(dtype);
      return *dtype;
    }
    case AttrKind::text:
      assert(word.size() >= 2 && word.front() == '\'' && word.back() == '\'');
      return std::string(word.substr(1, word.size() - 2));
    case AttrKind::ints:
      assert(word == "[]");
      return Ints{};
  }
  return false;
}

ArgumentSpec parse_argument(std::string_view word) {
  ArgumentSpec spec;
  const auto colon = word.find(':');
  if (colon == std::string_view::npos) {
    spec.role = ArgumentSpec::Role::operand;
    if (word.back() == '?') spec.role = ArgumentSpec::Role::optional_operand;
    if (word.back() == '*') spec.role = ArgumentSpec::Role::operand_list;
    if (spec.role != ArgumentSpec::Role::operand) word.remove_suffix(1);
    spec.name = word;
    return spec;
  }
  spec.role = ArgumentSpec::Role::attribute;
  spec.name = word.substr(0, colon);
  const std::string_view rest = word.substr(colon + 1);
  const auto equals = rest.find('=');
  spec.kind = kind_from(rest.substr(0, equals));
  if (equals != std::string_view::npos)
    spec.default_value = default_from(spec.kind, rest.substr(equals + 1));
  return spec;
}

std::vector<ArgumentSpec> parse_signature(std::string_view signature) {
  std::vector<ArgumentSpec> arguments;
  while (!trim(signature).empty()) {
    const auto comma = signature.find(',');
    arguments.push_back(parse_argument(trim(signature.substr(0, comma))));
    if (comma == std::string_view::npos) break;
    signature.remove_prefix(comma + 1);
  }
  return arguments;
}

struct Registry {
  std::vector<OpInfo> ops;
  std::unordered_map<std::string_view, std::size_t> by_text;

  Registry() {
    const auto row = [this](Op op, std::string_view enumerator, std::string_view text,
                            OpFamily family, std::string_view signature, std::uint32_t traits,
                            const OpBlock& block) {
      by_text.emplace(text, ops.size());
      ops.push_back({op, enumerator, text, family, traits, parse_signature(signature), block});
    };
#define RIFFLE_OP(name, text, family, signature, traits) \
  row(Op::name, #name, text, OpFamily::family, signature, traits, op_##name);
#include "ir/ops.def"
#undef RIFFLE_OP
  }
};

const Registry& registry() {
  static const Registry& instance = *new Registry();
  return instance;
}

std::string_view kind_text(AttrKind kind) {
  switch (kind) {
    case AttrKind::flag:
      return "True or False";
    case AttrKind::integer:
      return "an integer";
    case AttrKind::number:
      return "a number";
    case AttrKind::dtype:
      return "a dtype";
    case AttrKind::text:
      return "a quoted word";
    case AttrKind::ints:
      return "a list of integers";
  }
  return "";
}

// The value in the declared kind, or nullopt.
std::optional<AttrValue> converted(const AttrValue& value, AttrKind kind) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  switch (kind) {
    case AttrKind::flag:
      return std::holds_alternative<bool>(value) ? std::optional(value) : std::nullopt;
    case AttrKind::integer:
      return integer ? std::optional(value) : std::nullopt;
    case AttrKind::number:
      if (integer) return static_cast<double>(*integer);
      return std::holds_alternative<double>(value) ? std::optional(value) : std::nullopt;
    case AttrKind::dtype:
      return std::holds_alternative<DType>(value) ? std::optional(value) : std::nullopt;
    case AttrKind::text:
      return std::holds_alternative<std::string>(value) ? std::optional(value) : std::nullopt;
    case AttrKind::ints:
      if (integer) return Ints{*integer};
      return std::holds_alternative<Ints>(value) ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

GraphError named(const OpInfo& op, const GraphError& error) {
  return GraphError({.what = fmt::format("{}: {}", op.text, error.message()),
                     .where = std::string(error.where()),
                     .hint = std::string(error.hint())});
}

void check_operand_count(const OpInfo& op, std::size_t given) {
  const std::size_t low = op.required_operands(), high = op.maximum_operands();
  if (given >= low && given <= high) return;
  if (given < low) {
    std::size_t position = 0;
    for (const ArgumentSpec& argument : op.arguments) {
      if (!argument.is_operand()) continue;
      if (position++ == given) rules::fail(fmt::format("operand '{}' is missing", argument.name));
    }
    rules::fail("operands are missing");
  }
  rules::fail(
      fmt::format("{} operands given: expected {}", given,
                  low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high)));
}

}  // namespace

std::size_t OpInfo::required_operands() const noexcept {
  std::size_t count = 0;
  for (const ArgumentSpec& argument : arguments)
    if (argument.role == ArgumentSpec::Role::operand ||
        argument.role == ArgumentSpec::Role::operand_list)
      ++count;  // a list has at least one element
  return count;
}

std::size_t OpInfo::maximum_operands() const noexcept {
  std::size_t count = 0;
  for (const ArgumentSpec& argument : arguments) {
    if (argument.role == ArgumentSpec::Role::operand_list) return SIZE_MAX;
    if (argument.is_operand()) ++count;
  }
  return count;
}

const ArgumentSpec* OpInfo::attribute(std::string_view name) const noexcept {
  for (const ArgumentSpec& argument : arguments)
    if (!argument.is_operand() && argument.name == name) return &argument;
  return nullptr;
}

const OpInfo& info(Op op) { return registry().ops[static_cast<std::size_t>(op)]; }

const OpInfo* find_op(std::string_view text) {
  const auto& by_text = registry().by_text;
  auto at = by_text.find(text);
  return at == by_text.end() ? nullptr : &registry().ops[at->second];
}

std::span<const OpInfo> all_ops() { return registry().ops; }

std::vector<std::string_view> similar_ops(std::string_view text) {
  std::vector<std::string_view> names;
  for (const OpInfo& op : all_ops()) names.push_back(op.text);
  return similar_names(text, names);
}

void complete_attrs(Op op, std::span<const TensorType> operands, Attrs& attrs) {
  const OpInfo& row = info(op);
  try {
    check_operand_count(row, operands.size());
    Attrs complete;
    for (const auto& [name, value] : attrs.entries()) {
      const ArgumentSpec* spec = row.attribute(name);
      if (!spec) {
        std::string known;
        for (const ArgumentSpec& argument : row.arguments)
          if (!argument.is_operand()) known += (known.empty() ? "" : ", ") + argument.name;
        rules::fail(fmt::format("has no argument '{}': {}", name,
                                known.empty() ? "it takes none by keyword" : "expected " + known));
      }
      auto fitting = converted(value, spec->kind);
      if (!fitting)
        rules::fail(fmt::format("{}={} does not fit: expected {}", name, to_string(value),
                                kind_text(spec->kind)));
      complete.set(name, std::move(*fitting));
    }
    for (const ArgumentSpec& argument : row.arguments) {
      if (argument.is_operand() || complete.find(argument.name)) continue;
      if (!argument.default_value)
        rules::fail(fmt::format("argument '{}' is missing: expected {}", argument.name,
                                kind_text(argument.kind)));
      complete.set(argument.name, *argument.default_value);
    }
    if (row.block.normalize) row.block.normalize(operands, complete);
    attrs = std::move(complete);
  } catch (const GraphError& error) {
    throw named(row, error);
  }
}

TensorType infer_type(Op op, const TypeQuery& query) {
  const OpInfo& row = info(op);
  try {
    TensorType type = row.block.infer ? row.block.infer(query) : rules::numeric_binary(query);
    check_size(type);
    return type;
  } catch (const GraphError& error) {
    throw named(row, error);
  }
}

void check_size(const TensorType& type) {
  constexpr std::int64_t limit = std::int64_t{1} << 48;
  constexpr std::size_t rank_limit = 64;  // rules compare lists of dimensions pairwise
  if (type.shape.size() > rank_limit)
    rules::fail(
        fmt::format("a tensor has at most {} dimensions, not {}", rank_limit, type.shape.size()));
  std::int64_t count = 1;
  for (std::int64_t size : type.shape) {
    if (size < 0) rules::fail(fmt::format("{} has a negative size", to_string(type)));
    const std::int64_t factor = std::max<std::int64_t>(size, 1);
    if (factor > limit / count)
      rules::fail(fmt::format("{} has more than 2^48 elements", to_string(type)));
    count *= factor;
  }
}

}  // namespace riffle::ir
