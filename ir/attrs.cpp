#include "ir/attrs.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include <fmt/format.h>

#include "ir/literals.h"

namespace riffle::ir {
namespace {

bool name_less(const std::pair<std::string, AttrValue>& entry, std::string_view name) {
  return entry.first < name;
}

bool same(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a))
    return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(std::get<double>(b));
  return a == b;
}

// Shortest digits that read back as the same double, and always recognisable as a float.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

void Attrs::set(std::string_view name, AttrValue value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_less);
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.insert(at, {std::string(name), std::move(value)});
}

const AttrValue* Attrs::find(std::string_view name) const noexcept {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_less);
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

namespace {
template <class T>
const T& typed(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  assert(value && "an attribute that the schema does not declare, or attributes not completed");
  return std::get<T>(*value);
}
}  // namespace

bool Attrs::flag(std::string_view name) const { return typed<bool>(*this, name); }
std::int64_t Attrs::integer(std::string_view name) const {
  return typed<std::int64_t>(*this, name);
}
double Attrs::number(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value)
    if (const auto* integer = std::get_if<std::int64_t>(value))
      return static_cast<double>(*integer);
  return typed<double>(*this, name);
}
DType Attrs::dtype(std::string_view name) const { return typed<DType>(*this, name); }
const std::string& Attrs::text(std::string_view name) const {
  return typed<std::string>(*this, name);
}
const Ints& Attrs::ints(std::string_view name) const { return typed<Ints>(*this, name); }

bool Attrs::operator==(const Attrs& other) const noexcept {
  return std::equal(
      entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
      [](const auto& a, const auto& b) { return a.first == b.first && same(a.second, b.second); });
}

std::string to_string(const AttrValue& value) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return float_text(v); }
    std::string operator()(DType v) const { return std::string(name_of(v)); }
    std::string operator()(const std::string& v) const { return string_literal(v); }
    std::string operator()(const Ints& v) const { return riffle::to_string(v); }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace riffle::ir
