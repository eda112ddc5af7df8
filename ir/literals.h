// How names and strings are written in the text form, so that reading them back gives the same
// bytes; and which names are similar to a misspelt one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace riffle::ir {

/// 'text' with \' \\ \n \t \r and \xNN escapes. Bytes from 0x80 on stay as they are (UTF-8).
std::string string_literal(std::string_view text);
/// The name itself when it is made of the letters that a bare name may have, otherwise a string
/// literal. The sigil ('%' or '@') is the caller's.
std::string name_literal(std::string_view name);

/// Bare names: a letter, digit or '_', then letters, digits, '_', '.', '-'.
bool starts_name(char c) noexcept;
bool continues_name(char c) noexcept;

/// Characters of UTF-8 text (bytes that do not continue a character).
std::size_t width_of(std::string_view text) noexcept;

/// Candidates within a few edits of `wanted`, nearest first, at most `limit`.
std::vector<std::string_view> similar_names(std::string_view wanted,
                                            std::span<const std::string_view> candidates,
                                            std::size_t limit = 3);

}  // namespace riffle::ir
