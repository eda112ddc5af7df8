#include "ir/literals.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace riffle::ir {
namespace {

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Levenshtein distance with one row of memory.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

bool starts_name(char c) noexcept { return is_letter(c) || is_digit(c) || c == '_'; }
bool continues_name(char c) noexcept { return starts_name(c) || c == '.' || c == '-'; }

std::string string_literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out += '\'';
}

std::string name_literal(std::string_view name) {
  const bool bare = !name.empty() && starts_name(name[0]) &&
                    std::all_of(name.begin(), name.end(), continues_name);
  return bare ? std::string(name) : string_literal(name);
}

std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::string_view> similar_names(std::string_view wanted,
                                            std::span<const std::string_view> candidates,
                                            std::size_t limit) {
  constexpr std::size_t kLongest = 64;  // the distance costs the product of the lengths
  if (wanted.size() > kLongest) return {};
  const std::size_t allowed = std::max<std::size_t>(1, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::size_t>> near;  // distance, then the candidates' order
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].size() > kLongest) continue;
    const std::size_t distance = edit_distance(wanted, candidates[i]);
    if (distance <= allowed) near.emplace_back(distance, i);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string_view> names;
  for (const auto& [distance, i] : near)
    if (names.size() < limit) names.push_back(candidates[i]);
  return names;
}

}  // namespace riffle::ir
