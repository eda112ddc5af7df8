// Decoding of logic, shifts, bit fields, comparison and selection.
#include <utility>

#include "emulator/execute/decode.h"

namespace emulator {
namespace {

using ptx::Type;

constexpr std::pair<std::string_view, Compare> kCompares[] = {
    {"eq", Compare::eq},   {"ne", Compare::ne},   {"lt", Compare::lt},   {"le", Compare::le},
    {"gt", Compare::gt},   {"ge", Compare::ge},   {"lo", Compare::lt},   {"ls", Compare::le},
    {"hi", Compare::gt},   {"hs", Compare::ge},   {"equ", Compare::equ}, {"neu", Compare::neu},
    {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu}, {"geu", Compare::geu},
    {"num", Compare::num}, {"nan", Compare::nan},
};

bool take_compare(Suffixes& suffixes, Compare& compare) {
  for (const auto& [name, value] : kCompares)
    if (suffixes.take(name)) {
      compare = value;
      return true;
    }
  return false;
}

}  // namespace

Decoder::Family Decoder::logic_family(std::string_view opcode) {
  static constexpr std::pair<std::string_view, Family> kTable[] = {
      {"and", &Decoder::logic},       {"or", &Decoder::logic},        {"xor", &Decoder::logic},
      {"not", &Decoder::logic},       {"cnot", &Decoder::logic},      {"shl", &Decoder::shift},
      {"shr", &Decoder::shift},       {"popc", &Decoder::count_bits}, {"clz", &Decoder::count_bits},
      {"brev", &Decoder::count_bits}, {"testp", &Decoder::testp},     {"bfe", &Decoder::bit_field},
      {"bfi", &Decoder::bit_field},   {"bfind", &Decoder::bfind},     {"fns", &Decoder::find_nth},
      {"lop3", &Decoder::lop3_prmt},  {"prmt", &Decoder::lop3_prmt},  {"shf", &Decoder::funnel},
      {"setp", &Decoder::setp},       {"set", &Decoder::set},         {"selp", &Decoder::selp},
      {"slct", &Decoder::slct},
  };
  for (const auto& [name, f] : kTable)
    if (name == opcode) return f;
  return nullptr;
}

void Decoder::logic(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  if (type != Type::pred && (!is_bits(type) || size_of(type) < 2 || size_of(type) > 8))
    fail("needs .pred, .b16, .b32 or .b64");
  const std::string& opcode = statement_->opcode;
  if (opcode == "not") return lanes1(LaneOp::bit_not, type);
  if (opcode == "cnot") {
    if (type == Type::pred) fail("no such type");
    return lanes1(LaneOp::cnot, type);
  }
  lanes2(opcode == "and"  ? LaneOp::bit_and
         : opcode == "or" ? LaneOp::bit_or
                          : LaneOp::bit_xor,
         type);
}

void Decoder::shift(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  operands(3, 3);
  const bool left = statement_->opcode == "shl";
  if (left ? !is_bits(type) : is_float(type)) fail("no such type");
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, Type::u32);
  in.dst = destination(0, type);
  emit(select_lanes({left ? LaneOp::shl : LaneOp::shr, type, false, false, false}), in);
}

void Decoder::count_bits(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  operands(2, 2);
  const std::string& opcode = statement_->opcode;
  Instruction in;
  in.a = source(1, type);
  in.dst = destination(0, opcode == "brev" ? type : Type::u32);
  emit(select_lanes({opcode == "popc"  ? LaneOp::popc
                     : opcode == "clz" ? LaneOp::clz
                                       : LaneOp::brev,
                     type, false, false, false}),
       in);
}

void Decoder::testp(Suffixes& suffixes) {
  static constexpr std::string_view kProperties[] = {"finite",     "infinite", "number",
                                                     "notanumber", "normal",   "subnormal"};
  Instruction in;
  in.imm = -1;
  for (int i = 0; i < 6; ++i)
    if (suffixes.take(kProperties[i])) in.imm = i;
  if (in.imm < 0) fail("needs a property, as in .finite");
  const Type type = suffixes.take_type();
  operands(2, 2);
  in.a = source(1, type);
  in.dst = destination(0, Type::pred);
  emit(select_testp(type), in);
}

void Decoder::bit_field(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  Instruction in;
  if (statement_->opcode == "bfe") {
    operands(4, 4);
    in.a = source(1, type);
    in.b = source(2, Type::u32);
    in.c = source(3, Type::u32);
    in.dst = destination(0, type);
    return emit(select_bfe(type), in);
  }
  operands(5, 5);
  in.a = source(1, type);
  in.b = source(2, type);
  in.c = source(3, Type::u32);
  in.target = extra({source(4, Type::u32)});
  in.dst = destination(0, type);
  emit(select_bfi(type), in);
}

void Decoder::bfind(Suffixes& suffixes) {
  Instruction in;
  in.flags = suffixes.take("shiftamt");
  const Type type = suffixes.take_type();
  operands(2, 2);
  in.a = source(1, type);
  in.dst = destination(0, Type::u32);
  emit(select_bfind(type), in);
}

void Decoder::find_nth(Suffixes& suffixes) {
  if (!suffixes.take("b32")) fail("needs .b32");
  operands(4, 4);
  Instruction in;
  in.a = source(1, Type::b32);
  in.b = source(2, Type::b32);
  in.c = source(3, Type::s32);
  in.dst = destination(0, Type::b32);
  emit(fns, in);
}

void Decoder::lop3_prmt(Suffixes& suffixes) {
  if (!suffixes.take("b32")) fail("needs .b32");
  Instruction in;
  in.a = source(1, Type::b32);
  in.b = source(2, Type::b32);
  in.c = source(3, Type::b32);
  if (statement_->opcode == "lop3") {
    operands(5, 5);
    in.imm = static_cast<std::int64_t>(immediate(4) & 0xff);
    in.dst = destination(0, Type::b32);
    return emit(lop3, in);
  }
  operands(4, 4);
  static constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (int i = 0; i < 6; ++i)
    if (suffixes.take(kModes[i])) in.imm = i + 1;
  in.dst = destination(0, Type::b32);
  emit(prmt, in);
}

void Decoder::funnel(Suffixes& suffixes) {
  const std::string_view way = suffixes.take_any({"l", "r"}),
                         mode = suffixes.take_any({"clamp", "wrap"});
  if (way.empty() || mode.empty() || !suffixes.take("b32"))
    fail("needs .l or .r, .clamp or .wrap, and .b32");
  operands(4, 4);
  Instruction in;
  in.a = source(1, Type::b32);
  in.b = source(2, Type::b32);
  in.c = source(3, Type::u32);
  in.dst = destination(0, Type::b32);
  const bool left = way == "l", clamp = mode == "clamp";
  const LaneOp op = left ? (clamp ? LaneOp::funnel_left_clamp : LaneOp::funnel_left)
                         : (clamp ? LaneOp::funnel_right_clamp : LaneOp::funnel_right);
  emit(select_lanes({op, Type::b32, false, false, false}), in);
}

void Decoder::compare_into(Suffixes& suffixes, Row p, bool second, Row q, Compare compare,
                           Type type, bool ftz, std::size_t first) {
  Instruction in;
  in.a = source(first, type);
  in.b = source(first + 1, type);
  const std::string_view combine = suffixes.take_any({"and", "or", "xor"});
  if (!combine.empty()) {
    operands(first + 3, first + 3);
    bool negated = false;
    in.c = predicate_source(operand(first + 2), negated);
    in.flags = static_cast<std::uint16_t>((combine == "and"  ? kCombineAnd
                                           : combine == "or" ? kCombineOr
                                                             : kCombineXor) |
                                          (negated ? kCombineNegated : 0));
  } else {
    operands(first + 2, first + 2);
  }
  in.dst = p;
  if (second) {
    in.flags |= kSecondResult;
    in.target = extra({q});
  }
  emit(select_compare(compare, type, ftz), in);
}

void Decoder::setp(Suffixes& suffixes) {
  Compare compare;
  const bool ftz = suffixes.take("ftz");
  if (!take_compare(suffixes, compare)) fail("needs a comparison, as in .eq");
  const Type type = suffixes.take_type();
  const Operand& d = operand(0);
  const bool two = d.kind == Kind::pair;
  // Sources first: a destination may be the combining predicate too.
  const Row p = destination(two ? d.elements[0] : d, Type::pred);
  const Row q = two ? destination(d.elements[1], Type::pred) : Row{};
  compare_into(suffixes, p, two, q, compare, type, ftz, 1);
}

void Decoder::set(Suffixes& suffixes) {
  Compare compare;
  const bool ftz = suffixes.take("ftz");
  if (!take_compare(suffixes, compare)) fail("needs a comparison, as in .eq");
  const Type to = suffixes.take_type(), type = suffixes.take_type();
  if (to != Type::u32 && to != Type::s32 && to != Type::f32) fail("gives .u32, .s32 or .f32");
  const Row p = new_row(0);
  compare_into(suffixes, p, false, {}, compare, type, ftz, 1);
  Instruction in;
  in.a = constant(4, to == Type::f32 ? 0x3f800000u : ~0u);
  in.b = constant(4, 0);
  in.c = p;
  in.dst = destination(0, to);
  emit(select_lanes({LaneOp::select, to, false, false, false}), in);
}

void Decoder::selp(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  operands(4, 4);
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, type);
  in.c = source(3, Type::pred);
  in.dst = destination(0, type);
  emit(select_lanes({LaneOp::select, type, false, false, false}), in);
}

void Decoder::slct(Suffixes& suffixes) {
  const bool ftz = suffixes.take("ftz");
  const Type type = suffixes.take_type(), sign = suffixes.take_type();
  if (sign != Type::s32 && sign != Type::f32) fail("decides by .s32 or .f32");
  operands(4, 4);
  Instruction compare;
  compare.a = source(3, sign);
  compare.b = constant(4, 0);
  compare.dst = new_row(0);
  emit(select_compare(Compare::ge, sign, ftz), compare);
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, type);
  in.c = compare.dst;
  in.dst = destination(0, type);
  emit(select_lanes({LaneOp::select, type, false, false, false}), in);
}

}  // namespace emulator
