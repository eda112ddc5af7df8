// PTX text → tokens. A word that begins with a dot (".v4", ".L2::128B") is one token; the parser
// joins a mnemonic with its suffixes and %tid with .x.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace emulator::ptx {

enum class TokenKind : std::uint8_t {
  end,
  word,
  dot_word,
  integer,
  real32,
  real64,
  string,
  punctuation
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  bool spaced = true;       ///< white space before it
  std::string_view text;    ///< dot_word: without the dot
  std::uint64_t value = 0;  ///< integer, or the bits of a real
};

/// Ends with an `end` token. Throws SyntaxError. The tokens view `text`.
std::vector<Token> tokenise(std::string_view text);

}  // namespace emulator::ptx
