// What the parser makes of a module: names resolved, suffixes still text. The decoder
// (execute/decode.h) turns an instruction into something executable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/module.h"
#include "emulator/ptx/types.h"

namespace emulator::ptx {

/// A named object: a register, a variable in some space, or a parameter.
struct Symbol {
  enum class Kind : std::uint8_t { reg, variable, parameter, table } kind = Kind::reg;
  Space space = Space::reg;
  Type type = Type::none;
  std::string name;
  std::uint64_t bytes = 0;  ///< variables and parameters
  std::uint32_t alignment = 1;
  bool external = false;             ///< .extern .shared: what the launch adds
  std::uint32_t offset = 0;          ///< kernel parameters: in the parameter block
  std::vector<std::string> targets;  ///< .branchtargets
};

struct Operand {
  enum class Kind : std::uint8_t {
    reg,      ///< symbol
    integer,  ///< bits
    real32,   ///< bits
    real64,   ///< bits
    special,  ///< special
    symbol,   ///< address of symbol, plus bits
    name,     ///< a label or function: text
    sink,     ///< _
    vector,   ///< {elements}
    list,     ///< (elements)
    address,  ///< [elements[0] + bits]
    pair,     ///< elements[0] | elements[1]
    negated,  ///< !elements[0]
  } kind = Kind::sink;
  const Symbol* symbol = nullptr;
  std::uint64_t bits = 0;
  Special special = Special::none;
  std::string text;
  std::vector<Operand> elements;
};

struct Statement {
  int line = 0;
  std::string opcode;                 ///< "ld"
  std::vector<std::string> suffixes;  ///< "global", "v4", "f32"
  const Symbol* guard = nullptr;
  bool guard_negated = false;
  std::vector<Operand> operands;
  std::uint32_t scope = 0;
};

struct Scope {
  std::uint32_t parent = 0;                                  ///< the outermost is its own
  std::map<std::string, std::uint32_t, std::less<>> labels;  ///< index of the next statement
  std::map<std::string, Symbol*, std::less<>> symbols;
  /// .reg .b32 %r<10>: prefix → symbol type and count; symbols are made when first named.
  std::map<std::string, std::pair<Type, std::uint64_t>, std::less<>> ranges;
};

struct Function {
  std::string name;
  int line = 0;
  bool kernel = false, defined = false;
  std::vector<Symbol*> results, parameters;
  std::vector<std::unique_ptr<Symbol>> symbols;
  std::vector<Scope> scopes;
  std::vector<Statement> body;
  std::uint64_t registers = 0;  ///< declared, in units of 32 bits
  std::uint32_t max_threads = 0;
  std::uint32_t required_threads[3] = {0, 0, 0};

  /// Of a label, from inside `scope`. ~0: none.
  std::uint32_t find_label(std::string_view label, std::uint32_t scope) const;
};

struct SyntaxTree {
  int version_major = 0, version_minor = 0;
  std::string target;
  std::vector<std::unique_ptr<Symbol>> symbols;  ///< of module scope
  std::vector<Variable> variables;               ///< .global and .const with their initialisers
  std::vector<std::unique_ptr<Function>> functions;
};

/// Throws SyntaxError.
SyntaxTree parse_syntax(std::string_view text);

}  // namespace emulator::ptx
