// Keyword arguments of a node: a small sorted map from name to value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "riffle/types.h"

namespace riffle::ir {

using Ints = std::vector<std::int64_t>;
using AttrValue = std::variant<bool, std::int64_t, double, DType, std::string, Ints>;

/// Sorted by name; two Attrs are equal when names and values are (doubles by bits).
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> entries);

  void set(std::string_view name, AttrValue value);
  const AttrValue* find(std::string_view name) const noexcept;

  // The typed getters are for attributes that the op's schema declares; the verifier has checked
  // that they are present and of that type.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;  // accepts an integer attribute too
  DType dtype(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const Ints& ints(std::string_view name) const;

  const std::vector<std::pair<std::string, AttrValue>>& entries() const noexcept {
    return entries_;
  }
  bool operator==(const Attrs& other) const noexcept;

 private:
  std::vector<std::pair<std::string, AttrValue>> entries_;
};

/// As the text form writes it: True, 1, 1e-05, f32, 'mean', [0, 1].
std::string to_string(const AttrValue& value);

}  // namespace riffle::ir
