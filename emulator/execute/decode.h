// SyntaxTree → ptx::Kernel: chooses a handler for each statement, gives registers their rows and
// inlines calls. What is not known, or not allowed where it stands, is a SyntaxError with the
// mnemonic and the line; so a module that loads has no instruction that cannot run.
//
// decode.cpp is the core; the families of instructions are in decode_arithmetic.cpp,
// decode_logic.cpp, decode_memory.cpp and decode_control.cpp, each a table from opcode to member
// function.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/execute/handlers.h"
#include "emulator/execute/lanes.h"
#include "emulator/ptx/program.h"
#include "emulator/ptx/syntax.h"

namespace emulator {

/// Adds to `warnings`.
ptx::Kernel decode(const ptx::SyntaxTree& tree, const ptx::Function& kernel,
                   std::vector<std::string>& warnings);

/// The suffixes of one mnemonic, crossed off as they are understood.
class Suffixes {
 public:
  explicit Suffixes(const std::vector<std::string>& words) : words_(words), used_(words.size()) {}
  bool take(std::string_view word);
  /// The first of `words` that is there, or "".
  std::string_view take_any(std::initializer_list<std::string_view> words);
  /// The next unused suffix that names a type, in order; none if there is none.
  ptx::Type take_type();
  /// The first unused one; "" when all are used.
  std::string_view left() const;
  std::string_view take_left();
  void ignore_hints();  ///< .L2::128B and other words with "::" but spaces

 private:
  const std::vector<std::string>& words_;
  std::vector<bool> used_;
};

class Decoder {
 public:
  Decoder(const ptx::SyntaxTree& tree, const ptx::Function& kernel,
          std::vector<std::string>& warnings);
  ptx::Kernel run();

 private:
  using Operand = ptx::Operand;
  using Kind = ptx::Operand::Kind;
  using Type = ptx::Type;
  using Space = ptx::Space;
  using Family = void (Decoder::*)(Suffixes&);

  /// One function at one place where it is called.
  struct Instance {
    const ptx::Function* function = nullptr;
    std::map<const ptx::Symbol*, Row> registers;
    std::map<const ptx::Symbol*, std::uint32_t> local;  ///< offsets of .local and .param variables
    std::set<const ptx::Symbol*> products;              ///< results of a mul that may be fused
    std::vector<std::uint32_t> starts;                  ///< of statements, in code
    struct Jump {
      std::uint32_t code, scope;
      std::string label;
      bool table;
      std::uint32_t line;
    };
    std::vector<Jump> jumps;
  };

  static Family family(std::string_view opcode);
  static Family arithmetic_family(std::string_view opcode);
  static Family logic_family(std::string_view opcode);
  static Family memory_family(std::string_view opcode);
  static Family control_family(std::string_view opcode);

  // --- core
  void body(Instance& instance);
  void statement(const ptx::Statement& s);
  void emit(Handler handler, Instruction in);
  [[noreturn]] void fail(const std::string& what) const;
  std::string mnemonic() const;
  std::uint32_t mnemonic_index(std::string text);
  const Operand& operand(std::size_t i) const;
  void operands(std::size_t least, std::size_t most) const;

  // --- operands
  Row new_row(std::uint32_t width);
  Row register_row(const ptx::Symbol* symbol);
  Row constant(std::uint32_t width, std::uint64_t bits);
  Row special(std::uint32_t width, ptx::Special which);
  Row symbol_address(const Operand& operand, std::uint32_t width);
  std::uint32_t variable_offset(const ptx::Symbol* symbol);  ///< .shared and .local
  /// A source of the type's size; registers of another size are rejected.
  Row source(const Operand& operand, Type type);
  Row source(std::size_t i, Type type) { return source(operand(i), type); }
  Row destination(const Operand& operand, Type type);
  Row destination(std::size_t i, Type type) { return destination(operand(i), type); }
  Row predicate_source(const Operand& operand, bool& negated);
  std::uint32_t width_of(const Operand& operand) const;  ///< of a register; else 0
  std::uint64_t immediate(std::size_t i) const;
  std::uint32_t extra(const std::vector<Row>& rows);
  bool is_kernel_parameter(const ptx::Symbol* symbol) const;
  /// Of a memory operand: fills a, imm and kAddress32; the space when the operand decides it.
  void address(std::size_t i, Space& space, Instruction& in);
  void address(const Operand& operand, Space& space, Row& base, std::int64_t& offset, bool& narrow);

  // --- families: decode_arithmetic.cpp
  void lanes2(LaneOp op, Type type, bool ftz = false, bool saturate = false, bool relu = false);
  void lanes3(LaneOp op, Type type, bool ftz = false, bool saturate = false, bool relu = false);
  void lanes1(LaneOp op, Type type, bool ftz = false);
  void rounded(Rounded operation, Type type, Rounding rounding, bool ftz, bool saturate,
               std::size_t sources);
  void carry(std::uint16_t flags, Type type, std::size_t sources);
  void note_fusable(Suffixes&, Type type, bool explicit_rounding);
  void add_sub(Suffixes&);
  void mul(Suffixes&);
  void mad(Suffixes&);
  void mad24(Suffixes&);
  void fma(Suffixes&);
  void div(Suffixes&);
  void rem(Suffixes&);
  void min_max(Suffixes&);
  void neg_abs(Suffixes&);
  void sad(Suffixes&);
  void root(Suffixes&);
  void approximate(Suffixes&);
  void copysign(Suffixes&);
  void dp4a(Suffixes&);
  void cvt(Suffixes&);

  // --- families: decode_logic.cpp
  void logic(Suffixes&);
  void shift(Suffixes&);
  void count_bits(Suffixes&);
  void testp(Suffixes&);
  void bit_field(Suffixes&);
  void bfind(Suffixes&);
  void find_nth(Suffixes&);
  void lop3_prmt(Suffixes&);
  void funnel(Suffixes&);
  void compare_into(Suffixes&, Row p, bool second, Row q, Compare compare, Type type, bool ftz,
                    std::size_t first_source);
  void setp(Suffixes&);
  void set(Suffixes&);
  void selp(Suffixes&);
  void slct(Suffixes&);

  // --- families: decode_memory.cpp
  void mov(Suffixes&);
  void load_store(Suffixes&);
  void elements(const Operand& operand, std::uint32_t count, Type type, bool load, Instruction& in);
  void atomic(Suffixes&);
  void cvta(Suffixes&);
  void isspacep(Suffixes&);
  void copy_async(Suffixes&);
  void matrix_access(Suffixes&);
  void no_operation(Suffixes&);
  void create_policy(Suffixes&);

  // --- families: decode_control.cpp
  void branch(Suffixes&);
  void branch_indexed(Suffixes&);
  void call(Suffixes&);
  void ret(Suffixes&);
  void exit(Suffixes&);
  void trap(Suffixes&);
  void barrier(Suffixes&);
  void shfl(Suffixes&);
  void vote(Suffixes&);
  void match(Suffixes&);
  void redux(Suffixes&);
  void activemask(Suffixes&);
  void mma(Suffixes&);
  void warp_operation(Handler handler, Instruction in, std::vector<Row> extras, Row members);

  const ptx::SyntaxTree& tree_;
  const ptx::Function& kernel_;
  std::vector<std::string>& warnings_;
  ptx::Kernel out_;
  Instance* instance_ = nullptr;
  const ptx::Statement* statement_ = nullptr;
  std::uint32_t guard_ = ~0u;
  std::vector<const ptx::Function*> calls_;  ///< being inlined
  std::map<std::pair<std::uint32_t, std::uint64_t>, Row> constants_;
  std::map<std::pair<std::uint32_t, ptx::Special>, Row> specials_;
  std::map<std::tuple<std::string, std::uint64_t, std::uint32_t>, Row> variables_;
  std::map<const ptx::Symbol*, std::uint32_t> shared_;
  std::unordered_map<std::string, std::uint32_t> mnemonics_;
  std::vector<std::size_t> dynamic_shared_;  ///< in out_.fixed: bits to add where .extern starts
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> guards_;
};

}  // namespace emulator
