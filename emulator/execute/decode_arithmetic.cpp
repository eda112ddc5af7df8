// Decoding of arithmetic and conversion.
#include <utility>

#include "emulator/execute/decode.h"

namespace emulator {
namespace {

using ptx::Type;

Type bits_of(std::uint32_t width) {
  switch (width) {
    case 1:
      return Type::b8;
    case 2:
      return Type::b16;
    case 4:
      return Type::b32;
    case 8:
      return Type::b64;
    default:
      return Type::none;
  }
}

/// True when a rounding was named.
bool take_rounding(Suffixes& suffixes, Rounding& rounding) {
  rounding = Rounding::nearest;
  if (suffixes.take("rn")) return true;
  if (suffixes.take("rz"))
    rounding = Rounding::zero;
  else if (suffixes.take("rm"))
    rounding = Rounding::down;
  else if (suffixes.take("rp"))
    rounding = Rounding::up;
  else
    return false;
  return true;
}

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_integer(Type type) {
  return !is_float(type) && !is_bits(type) && type != Type::pred && type != Type::none;
}

Type wider(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      return Type::none;
  }
}

}  // namespace

Decoder::Family Decoder::arithmetic_family(std::string_view opcode) {
  static constexpr std::pair<std::string_view, Family> kTable[] = {
      {"add", &Decoder::add_sub},      {"addc", &Decoder::add_sub},
      {"sub", &Decoder::add_sub},      {"subc", &Decoder::add_sub},
      {"mul", &Decoder::mul},          {"mul24", &Decoder::mul},
      {"mad", &Decoder::mad},          {"madc", &Decoder::mad},
      {"mad24", &Decoder::mad24},      {"fma", &Decoder::fma},
      {"div", &Decoder::div},          {"rem", &Decoder::rem},
      {"min", &Decoder::min_max},      {"max", &Decoder::min_max},
      {"neg", &Decoder::neg_abs},      {"abs", &Decoder::neg_abs},
      {"sad", &Decoder::sad},          {"sqrt", &Decoder::root},
      {"rcp", &Decoder::root},         {"rsqrt", &Decoder::root},
      {"sin", &Decoder::approximate},  {"cos", &Decoder::approximate},
      {"lg2", &Decoder::approximate},  {"ex2", &Decoder::approximate},
      {"tanh", &Decoder::approximate}, {"copysign", &Decoder::copysign},
      {"dp4a", &Decoder::dp4a},        {"cvt", &Decoder::cvt},
  };
  for (const auto& [name, f] : kTable)
    if (name == opcode) return f;
  return nullptr;
}

void Decoder::lanes1(LaneOp op, Type type, bool ftz) {
  operands(2, 2);
  Instruction in;
  in.a = source(1, type);
  in.dst = destination(0, type);
  emit(select_lanes({op, type, ftz, false, false}), in);
}

void Decoder::lanes2(LaneOp op, Type type, bool ftz, bool saturate, bool relu) {
  operands(3, 3);
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, type);
  in.dst = destination(0, op == LaneOp::mul_wide ? wider(type) : type);
  emit(select_lanes({op, type, ftz, saturate, relu}), in);
}

void Decoder::lanes3(LaneOp op, Type type, bool ftz, bool saturate, bool relu) {
  operands(4, 4);
  const Type wide = op == LaneOp::mad_wide ? wider(type) : type;
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, type);
  in.c = source(3, op == LaneOp::sad && type != Type::none ? type : wide);
  in.dst = destination(0, wide);
  emit(select_lanes({op, type, ftz, saturate, relu}), in);
}

void Decoder::rounded(Rounded operation, Type type, Rounding rounding, bool ftz, bool saturate,
                      std::size_t sources) {
  operands(sources + 1, sources + 1);
  if (type == Type::f64 && (ftz || saturate)) fail("f64 has no .ftz and no .sat");
  Instruction in;
  in.a = source(1, type);
  if (sources > 1) in.b = source(2, type);
  if (sources > 2) in.c = source(3, type);
  in.dst = destination(0, type);
  in.flags =
      static_cast<std::uint16_t>(static_cast<unsigned>(operation) | (ftz ? kRoundedFtz : 0u) |
                                 (saturate ? kRoundedSaturate : 0u));
  in.imm = static_cast<std::int64_t>(rounding);
  emit(select_rounded(type), in);
}

void Decoder::carry(std::uint16_t flags, Type type, std::size_t sources) {
  operands(sources + 1, sources + 1);
  Instruction in;
  in.a = source(1, type);
  in.b = source(2, type);
  if (sources > 2) in.c = source(3, type);
  in.dst = destination(0, type);
  in.flags = flags;
  in.imm = is_signed(type);
  emit(select_carry(type), in);
}

void Decoder::note_fusable(Suffixes&, Type type, bool explicit_rounding) {
  if (explicit_rounding || !is_float(type)) return;
  for (std::size_t i = 1; i < statement_->operands.size(); ++i) {
    const Operand& o = operand(i);
    if (o.kind == Kind::reg && instance_->products.contains(o.symbol))
      warnings_.push_back("line " + std::to_string(statement_->line) + ": " + mnemonic() +
                          " adds " + o.symbol->name +
                          ", the result of a mul without .rn: ptxas may fuse the two, and the "
                          "result then differs from the emulator's");
  }
}

void Decoder::add_sub(Suffixes& suffixes) {
  const std::string& opcode = statement_->opcode;
  const bool subtract = opcode.starts_with("sub"), carry_in = opcode.back() == 'c';
  Rounding rounding;
  const bool explicit_rounding = take_rounding(suffixes, rounding);
  const bool ftz = suffixes.take("ftz"), saturate = suffixes.take("sat"),
             carry_out = suffixes.take("cc");
  const Type type = suffixes.take_type();
  if (carry_in || carry_out) {
    if (explicit_rounding || ftz || saturate) fail("modifiers that do not go together");
    carry(static_cast<std::uint16_t>((carry_in ? kCarryIn : 0) | (carry_out ? kCarryOut : 0) |
                                     (subtract ? kSubtract : 0)),
          type, 2);
    return;
  }
  if (is_float(type)) {
    note_fusable(suffixes, type, explicit_rounding);
    if (rounding != Rounding::nearest)
      return rounded(subtract ? Rounded::sub : Rounded::add, type, rounding, ftz, saturate, 2);
    if (type == Type::f64 && (ftz || saturate)) fail("f64 has no .ftz and no .sat");
    return lanes2(subtract ? LaneOp::sub : LaneOp::add, type, ftz, saturate);
  }
  if (!is_integer(type) || explicit_rounding || ftz)
    fail("no such combination of type and modifiers");
  if (saturate) {
    if (type != Type::s32) fail(".sat is for .s32");
    return lanes2(subtract ? LaneOp::sub_sat : LaneOp::add_sat, type);
  }
  if (subtract && is_packed(type)) fail("no such type");
  lanes2(subtract ? LaneOp::sub : LaneOp::add, type);
}

void Decoder::mul(Suffixes& suffixes) {
  Rounding rounding;
  const bool explicit_rounding = take_rounding(suffixes, rounding);
  const bool ftz = suffixes.take("ftz"), saturate = suffixes.take("sat");
  const std::string_view part = suffixes.take_any({"lo", "hi", "wide"});
  const Type type = suffixes.take_type();
  if (statement_->opcode == "mul24") {
    if (part != "lo" && part != "hi") fail("needs .lo or .hi");
    return lanes2(part == "hi" ? LaneOp::mul24_high : LaneOp::mul24, type);
  }
  if (is_float(type)) {
    if (!part.empty()) fail("no such combination of type and modifiers");
    if (type == Type::f64 && (ftz || saturate)) fail("f64 has no .ftz and no .sat");
    if (rounding != Rounding::nearest)
      return rounded(Rounded::mul, type, rounding, ftz, saturate, 2);
    lanes2(LaneOp::mul, type, ftz, saturate);
    if (!explicit_rounding && operand(0).kind == Kind::reg)
      instance_->products.insert(operand(0).symbol);
    return;
  }
  if (!is_integer(type) || is_packed(type) || explicit_rounding || ftz || saturate || part.empty())
    fail("an integer product needs .lo, .hi or .wide");
  lanes2(part == "lo" ? LaneOp::mul : part == "hi" ? LaneOp::mul_high : LaneOp::mul_wide, type);
}

void Decoder::mad(Suffixes& suffixes) {
  const std::string_view part = suffixes.take_any({"lo", "hi", "wide"});
  const bool carry_in = statement_->opcode == "madc", carry_out = suffixes.take("cc");
  if (part.empty()) {
    if (carry_in || carry_out) fail("needs .lo or .hi");
    return fma(suffixes);
  }
  const Type type = suffixes.take_type();
  if (!is_integer(type) || is_packed(type)) fail("no such type");
  if (carry_in || carry_out) {
    if (part == "wide") fail("needs .lo or .hi");
    return carry(
        static_cast<std::uint16_t>((carry_in ? kCarryIn : 0) | (carry_out ? kCarryOut : 0) |
                                   (part == "lo" ? kProductLow : kProductHigh)),
        type, 3);
  }
  lanes3(part == "lo" ? LaneOp::mad : part == "hi" ? LaneOp::mad_high : LaneOp::mad_wide, type);
}

void Decoder::mad24(Suffixes& suffixes) {
  const std::string_view part = suffixes.take_any({"lo", "hi"});
  if (part.empty()) fail("needs .lo or .hi");
  lanes3(part == "hi" ? LaneOp::mad24_high : LaneOp::mad24, suffixes.take_type());
}

void Decoder::fma(Suffixes& suffixes) {
  Rounding rounding;
  if (!take_rounding(suffixes, rounding)) fail("needs a rounding, as in .rn");
  const bool ftz = suffixes.take("ftz"), saturate = suffixes.take("sat"),
             relu = suffixes.take("relu");
  const Type type = suffixes.take_type();
  if (!is_float(type) || type == Type::tf32) fail("no such type");
  if (relu && !is_half(type)) fail(".relu is for 16-bit floats");
  if (type == Type::f64 && (ftz || saturate)) fail("f64 has no .ftz and no .sat");
  if (rounding != Rounding::nearest) return rounded(Rounded::fma, type, rounding, ftz, saturate, 3);
  lanes3(LaneOp::fma, type, ftz, saturate, relu);
}

void Decoder::div(Suffixes& suffixes) {
  Rounding rounding;
  const bool explicit_rounding = take_rounding(suffixes, rounding);
  const bool approximately = suffixes.take("approx"), full = suffixes.take("full"),
             ftz = suffixes.take("ftz");
  const Type type = suffixes.take_type();
  if (type == Type::f32 && (approximately || full) && !explicit_rounding) {
    operands(3, 3);
    Instruction in;
    in.a = source(1, type);
    in.b = source(2, type);
    in.dst = destination(0, type);
    in.flags = ftz;
    return emit(select_approximate(Function::div, type), in);
  }
  if (approximately || full) fail("is for f32");
  if (is_float(type)) {
    if (!explicit_rounding) fail("needs .rn, .approx or the like");
    if (rounding != Rounding::nearest) return rounded(Rounded::div, type, rounding, ftz, false, 2);
    if (type == Type::f64 && ftz) fail("f64 has no .ftz");
  } else if (!is_integer(type) || explicit_rounding || ftz) {
    fail("no such combination of type and modifiers");
  }
  lanes2(LaneOp::div, type, ftz);
}

void Decoder::rem(Suffixes& suffixes) { lanes2(LaneOp::rem, suffixes.take_type()); }

void Decoder::min_max(Suffixes& suffixes) {
  const bool ftz = suffixes.take("ftz"), nan = suffixes.take("NaN");
  const Type type = suffixes.take_type();
  const bool least = statement_->opcode == "min";
  if (type == Type::f64 && (ftz || nan)) fail("f64 has no .ftz and no .NaN");
  if (!is_float(type) && (ftz || nan || !is_integer(type)))
    fail("no such combination of type and modifiers");
  lanes2(nan ? (least ? LaneOp::min_nan : LaneOp::max_nan) : (least ? LaneOp::min : LaneOp::max),
         type, ftz);
}

void Decoder::neg_abs(Suffixes& suffixes) {
  const bool ftz = suffixes.take("ftz");
  const Type type = suffixes.take_type();
  lanes1(statement_->opcode == "neg" ? LaneOp::neg : LaneOp::abs, type, ftz);
}

void Decoder::sad(Suffixes& suffixes) { lanes3(LaneOp::sad, suffixes.take_type()); }

void Decoder::root(Suffixes& suffixes) {
  const std::string& opcode = statement_->opcode;
  Rounding rounding;
  const bool explicit_rounding = take_rounding(suffixes, rounding);
  const bool approximately = suffixes.take("approx"), ftz = suffixes.take("ftz");
  const Type type = suffixes.take_type();
  if (approximately == explicit_rounding) fail("needs either .approx or a rounding");
  if (approximately) {
    if (type == Type::f64 && !ftz) fail("approximately in f64: only with .ftz");
    operands(2, 2);
    Instruction in;
    in.a = source(1, type);
    in.dst = destination(0, type);
    in.flags = ftz;
    return emit(select_approximate(opcode == "sqrt"  ? Function::sqrt
                                   : opcode == "rcp" ? Function::rcp
                                                     : Function::rsqrt,
                                   type),
                in);
  }
  if (opcode == "rsqrt" || (type != Type::f32 && type != Type::f64))
    fail("no such combination of type and modifiers");
  if (opcode == "sqrt" && rounding == Rounding::nearest) {
    if (type == Type::f64 && ftz) fail("f64 has no .ftz");
    return lanes1(LaneOp::sqrt, type, ftz);
  }
  rounded(opcode == "sqrt" ? Rounded::sqrt : Rounded::rcp, type, rounding, ftz, false, 1);
}

void Decoder::approximate(Suffixes& suffixes) {
  const std::string& opcode = statement_->opcode;
  if (!suffixes.take("approx")) fail("needs .approx");
  const bool ftz = suffixes.take("ftz");
  const Type type = suffixes.take_type();
  operands(2, 2);
  Instruction in;
  in.a = source(1, type);
  in.dst = destination(0, type);
  in.flags = ftz;
  const Function function = opcode == "sin"   ? Function::sin
                            : opcode == "cos" ? Function::cos
                            : opcode == "lg2" ? Function::lg2
                            : opcode == "ex2" ? Function::ex2
                                              : Function::tanh;
  emit(select_approximate(function, type), in);
}

void Decoder::copysign(Suffixes& suffixes) { lanes2(LaneOp::copysign, suffixes.take_type()); }

void Decoder::dp4a(Suffixes& suffixes) {
  const Type a = suffixes.take_type(), b = suffixes.take_type();
  if ((a != Type::u32 && a != Type::s32) || (b != Type::u32 && b != Type::s32))
    fail("needs two types, .u32 or .s32");
  operands(4, 4);
  Instruction in;
  in.a = source(1, a);
  in.b = source(2, b);
  in.c = source(3, Type::u32);
  in.dst = destination(0, Type::u32);
  in.flags = static_cast<std::uint16_t>((a == Type::s32 ? 1 : 0) | (b == Type::s32 ? 2 : 0));
  emit(emulator::dp4a, in);
}

void Decoder::cvt(Suffixes& suffixes) {
  Conversion c;
  if (suffixes.take("rna"))
    c.rounding = Rounding::nearest_away;
  else if (!take_rounding(suffixes, c.rounding)) {
    static constexpr std::pair<std::string_view, Rounding> kIntegral[] = {
        {"rni", Rounding::nearest},
        {"rzi", Rounding::zero},
        {"rmi", Rounding::down},
        {"rpi", Rounding::up}};
    for (const auto& [name, rounding] : kIntegral)
      if (suffixes.take(name)) c.rounding = rounding, c.integer_rounding = true;
  }
  c.ftz = suffixes.take("ftz");
  c.saturate = suffixes.take("sat");
  c.relu = suffixes.take("relu");
  c.to = suffixes.take_type();
  c.from = suffixes.take_type();
  if (c.to == Type::f16x2 || c.to == Type::bf16x2) {
    if (c.from != Type::f32) fail("makes pairs of .f32 alone");
    operands(3, 3);
    Instruction in;
    in.a = source(1, Type::f32);
    in.b = source(2, Type::f32);
    in.dst = destination(0, c.to);
    encode(c, in);
    return emit(select_convert_pair(c.to), in);
  }
  const auto convertible = [](Type t) {
    return t != Type::none && t != Type::pred && !is_packed(t) && !is_bits(t);
  };
  if (!convertible(c.to) || !convertible(c.from) || c.from == Type::tf32 ||
      (c.to == Type::tf32 && c.from != Type::f32))
    fail("no such pair of types");
  const bool to_real = is_float(c.to), from_real = is_float(c.from);
  if (from_real && !to_real && !c.integer_rounding) fail("float to integer needs .rzi or the like");
  if (!from_real && !to_real && c.integer_rounding) fail("integer to integer does not round");
  if (!from_real && to_real && c.integer_rounding) fail("integer to float needs .rn or the like");
  operands(2, 2);
  // Registers may be wider than the types.
  const auto row_of = [&](const Operand& o, Type type, bool to, std::uint8_t& width) {
    std::uint32_t have = width_of(o);
    if (have == 0) have = std::max(size_of(type), 2u);
    if (have < size_of(type) ||
        (is_float(type) && have != size_of(type) && type != Type::f16 && type != Type::bf16))
      fail("register " + (o.symbol ? o.symbol->name : "") + " is too narrow or too wide for ." +
           std::string(name(type)));
    width = static_cast<std::uint8_t>(have);
    const Type bits = have == size_of(type) ? type : bits_of(have);
    return to ? destination(o, bits) : source(o, bits);
  };
  Instruction in;
  in.a = row_of(operand(1), c.from, false, c.from_width);
  in.dst = row_of(operand(0), c.to, true, c.to_width);
  encode(c, in);
  emit(select_convert(c), in);
}

}  // namespace emulator
