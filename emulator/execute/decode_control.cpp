// Decoding of branches, calls, barriers and operations of a whole warp.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "emulator/execute/decode.h"

namespace emulator {

using ptx::Symbol;

Decoder::Family Decoder::control_family(std::string_view opcode) {
  static constexpr std::pair<std::string_view, Family> kTable[] = {
      {"bra", &Decoder::branch},      {"brx", &Decoder::branch_indexed},
      {"call", &Decoder::call},       {"ret", &Decoder::ret},
      {"exit", &Decoder::exit},       {"trap", &Decoder::trap},
      {"brkpt", &Decoder::trap},      {"bar", &Decoder::barrier},
      {"barrier", &Decoder::barrier}, {"shfl", &Decoder::shfl},
      {"vote", &Decoder::vote},       {"match", &Decoder::match},
      {"redux", &Decoder::redux},     {"activemask", &Decoder::activemask},
      {"mma", &Decoder::mma},
  };
  for (const auto& [name, f] : kTable)
    if (name == opcode) return f;
  return nullptr;
}

void Decoder::branch(Suffixes& suffixes) {
  suffixes.take("uni");
  operands(1, 1);
  if (operand(0).kind != Kind::name) fail("expected a label");
  Instruction in;
  in.control = Control::branch;
  instance_->jumps.push_back({static_cast<std::uint32_t>(out_.code.size()), statement_->scope,
                              operand(0).text, false,
                              static_cast<std::uint32_t>(statement_->line)});
  emit(nullptr, in);
}

void Decoder::branch_indexed(Suffixes& suffixes) {
  if (!suffixes.take("idx")) fail("needs .idx");
  suffixes.take("uni");
  operands(2, 2);
  const Operand& table = operand(1);
  if (table.kind != Kind::symbol || table.symbol->kind != Symbol::Kind::table)
    fail("expected a .branchtargets label");
  Instruction in;
  in.control = Control::branch_indexed;
  in.a = source(0, Type::u32);
  in.target = static_cast<std::uint32_t>(out_.targets.size());
  in.imm = static_cast<std::int64_t>(table.symbol->targets.size());
  for (const std::string& label : table.symbol->targets) {
    instance_->jumps.push_back({static_cast<std::uint32_t>(out_.targets.size()), statement_->scope,
                                label, true, static_cast<std::uint32_t>(statement_->line)});
    out_.targets.push_back(0);
  }
  emit(nullptr, in);
}

void Decoder::call(Suffixes& suffixes) {
  suffixes.take("uni");
  operands(1, 3);
  std::size_t at = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (operand(0).kind == Kind::list) results = &operand(at++);
  const Operand& callee = operand(at++);
  if (at < statement_->operands.size()) arguments = &operand(at);
  if (callee.kind != Kind::name || (arguments && arguments->kind != Kind::list))
    fail("only calls of a named function are supported");
  const ptx::Function* function = nullptr;
  for (const auto& candidate : tree_.functions)
    if (candidate->name == callee.text) function = candidate.get();
  if (!function || function->kernel) fail("there is no function " + callee.text);
  if (!function->defined)
    fail("function " + callee.text + " is declared but not defined in this module");
  if (std::find(calls_.begin(), calls_.end(), function) != calls_.end())
    fail("recursive calls are not supported");
  if (calls_.size() > 32) fail("calls are nested too deeply");
  const std::size_t given = arguments ? arguments->elements.size() : 0,
                    returned = results ? results->elements.size() : 0;
  if (given != function->parameters.size() || returned != function->results.size())
    fail("the number of arguments or results of " + callee.text + " differs");

  Instance inner;
  inner.function = function;
  const auto is_parameter = [](const Operand& o) {
    return o.kind == Kind::symbol && o.symbol->kind == Symbol::Kind::parameter;
  };
  // Registers: moved in. Parameters: the callee's name for the caller's bytes.
  std::vector<std::pair<Row, Row>> moves_out;
  const std::uint32_t guard = guard_;
  std::size_t skip = 0;
  if (guard != ~0u) {
    // A guarded call is a jump around it.
    Instruction jump;
    jump.control = Control::branch;
    skip = out_.code.size();
    const Guard g = out_.guards[guard];
    const auto [found, added] = guards_.emplace(std::pair(g.row.slot, !g.negated),
                                                static_cast<std::uint32_t>(out_.guards.size()));
    if (added) out_.guards.push_back({g.row, !g.negated});
    guard_ = found->second;
    emit(nullptr, jump);
    guard_ = ~0u;
  }
  Instruction forget_registers;
  const std::size_t entry = out_.code.size();
  emit(forget, forget_registers);
  const auto bind = [&](const Operand& actual, const Symbol* formal, bool result) {
    if (formal->kind == Symbol::Kind::parameter) {
      if (!is_parameter(actual) || is_kernel_parameter(actual.symbol))
        fail("argument for " + formal->name + " must be a .param variable");
      if (actual.symbol->bytes < formal->bytes)
        fail("argument for " + formal->name + " is too small");
      inner.local.emplace(formal, variable_offset(actual.symbol));
      return;
    }
    const Row inside = new_row(size_of(formal->type));
    inner.registers.emplace(formal, inside);
    if (result) {
      moves_out.emplace_back(destination(actual, formal->type), inside);
      return;
    }
    Instruction move;
    move.a = source(actual, formal->type);
    move.dst = inside;
    emit(select_lanes({LaneOp::move, formal->type, false, false, false}), move);
  };
  for (std::size_t i = 0; i < given; ++i)
    bind(arguments->elements[i], function->parameters[i], false);
  for (std::size_t i = 0; i < returned; ++i) bind(results->elements[i], function->results[i], true);
  std::vector<const Symbol*> bound;
  for (const auto& [symbol, row] : inner.registers) bound.push_back(symbol);

  calls_.push_back(function);
  body(inner);
  calls_.pop_back();

  std::vector<Row> fresh;
  for (const auto& [symbol, row] : inner.registers)
    if (std::find(bound.begin(), bound.end(), symbol) == bound.end()) fresh.push_back(row);
  out_.code[entry].target = extra(fresh);
  out_.code[entry].imm = static_cast<std::int64_t>(fresh.size());
  guard_ = ~0u;
  for (std::size_t i = 0; i < moves_out.size(); ++i) {
    Instruction move;
    move.dst = moves_out[i].first;
    move.a = moves_out[i].second;
    emit(select_lanes({LaneOp::move, function->results[i]->type, false, false, false}), move);
  }
  if (guard != ~0u) out_.code[skip].target = static_cast<std::uint32_t>(out_.code.size());
}

void Decoder::ret(Suffixes& suffixes) {
  suffixes.take("uni");
  operands(0, 0);
  Instruction in;
  if (instance_->function == &kernel_) {
    in.control = Control::exit;
  } else {
    in.control = Control::branch;
    instance_->jumps.push_back({static_cast<std::uint32_t>(out_.code.size()), 0, "", false,
                                static_cast<std::uint32_t>(statement_->line)});
  }
  emit(nullptr, in);
}

void Decoder::exit(Suffixes&) {
  operands(0, 0);
  Instruction in;
  in.control = Control::exit;
  emit(nullptr, in);
}

void Decoder::trap(Suffixes&) {
  operands(0, 0);
  Instruction in;
  in.control = Control::trap;
  emit(nullptr, in);
}

void Decoder::warp_operation(Handler handler, Instruction in, std::vector<Row> extras,
                             Row members) {
  in.count = static_cast<std::uint8_t>(extras.size());
  extras.push_back(members);
  in.target = extra(extras);
  in.control = Control::warp_operation;
  emit(handler, in);
}

void Decoder::barrier(Suffixes& suffixes) {
  suffixes.take("cta");
  if (suffixes.take("warp")) {
    if (!suffixes.take("sync")) fail("needs .sync");
    operands(1, 1);
    return warp_operation(synchronise_warp, {}, {}, source(0, Type::b32));
  }
  Instruction in;
  in.control = Control::block_barrier;
  // bar is barrier with .aligned
  if (suffixes.take("aligned") || statement_->opcode == "bar") in.flags |= kBarrierAligned;
  if (suffixes.take("sync")) {
    operands(1, 2);
  } else if (suffixes.take("arrive")) {
    operands(2, 2);
    in.flags |= kBarrierArrive;
  } else if (suffixes.take("red")) {
    in.flags |= kBarrierReduces;
    const std::string_view operation = suffixes.take_any({"popc", "and", "or"});
    if (operation.empty()) fail("needs .popc, .and or .or");
    in.imm = operation == "popc" ? 0 : operation == "and" ? 1 : 2;
    if (!suffixes.take(operation == "popc" ? "u32" : "pred")) fail("needs its type");
    operands(3, 4);
    const std::size_t last = statement_->operands.size() - 1;
    bool negated = false;
    in.c = predicate_source(operand(last), negated);
    if (negated) in.flags |= kBarrierNegated;
    in.a = source(1, Type::u32);
    if (last == 3) in.b = source(2, Type::u32), in.flags |= kBarrierCounted;
    in.dst = destination(0, in.imm == 0 ? Type::u32 : Type::pred);
    return emit(nullptr, in);
  } else {
    fail("needs .sync, .arrive or .red");
  }
  in.a = source(0, Type::u32);
  if (statement_->operands.size() == 2) in.b = source(1, Type::u32), in.flags |= kBarrierCounted;
  emit(nullptr, in);
}

void Decoder::shfl(Suffixes& suffixes) {
  if (!suffixes.take("sync")) fail("shfl without .sync does not exist from sm_70 on");
  const std::string_view mode = suffixes.take_any({"up", "down", "bfly", "idx"});
  if (mode.empty() || !suffixes.take("b32")) fail("needs .up, .down, .bfly or .idx, and .b32");
  operands(5, 5);
  Instruction in;
  in.imm = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
  in.a = source(1, Type::b32);
  in.b = source(2, Type::b32);
  in.c = source(3, Type::b32);
  const Row members = source(4, Type::b32);
  std::vector<Row> extras;
  const Operand& d = operand(0);
  in.dst = destination(d.kind == Kind::pair ? d.elements[0] : d, Type::b32);
  if (d.kind == Kind::pair) {
    in.flags |= 1;
    extras.push_back(destination(d.elements[1], Type::pred));
  }
  warp_operation(shuffle, in, std::move(extras), members);
}

void Decoder::vote(Suffixes& suffixes) {
  if (!suffixes.take("sync")) fail("vote without .sync does not exist from sm_70 on");
  const std::string_view mode = suffixes.take_any({"all", "any", "uni", "ballot"});
  if (mode.empty()) fail("needs .all, .any, .uni or .ballot");
  if (!suffixes.take(mode == "ballot" ? "b32" : "pred")) fail("needs its type");
  operands(3, 3);
  Instruction in;
  in.imm = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
  bool negated = false;
  in.a = predicate_source(operand(1), negated);
  in.flags = negated;
  const Row members = source(2, Type::b32);
  in.dst = destination(0, in.imm == 3 ? Type::b32 : Type::pred);
  warp_operation(emulator::vote, in, {}, members);
}

void Decoder::match(Suffixes& suffixes) {
  const std::string_view mode = suffixes.take_any({"any", "all"});
  if (mode.empty() || !suffixes.take("sync")) fail("needs .any or .all, and .sync");
  const Type type = suffixes.take_type();
  operands(3, 3);
  Instruction in;
  in.imm = mode == "all";
  in.a = source(1, type);
  const Row members = source(2, Type::b32);
  std::vector<Row> extras;
  const Operand& d = operand(0);
  in.dst = destination(d.kind == Kind::pair ? d.elements[0] : d, Type::b32);
  if (d.kind == Kind::pair) {
    if (mode != "all") fail("only .all gives a predicate");
    in.flags |= 1;
    extras.push_back(destination(d.elements[1], Type::pred));
  }
  warp_operation(select_match(type), in, std::move(extras), members);
}

void Decoder::redux(Suffixes& suffixes) {
  if (!suffixes.take("sync")) fail("needs .sync");
  static constexpr std::pair<std::string_view, Atomic> kOperations[] = {
      {"add", Atomic::add},     {"min", Atomic::min},   {"max", Atomic::max},
      {"and", Atomic::bit_and}, {"or", Atomic::bit_or}, {"xor", Atomic::bit_xor}};
  Instruction in;
  in.imm = -1;
  for (const auto& [name, operation] : kOperations)
    if (in.imm < 0 && suffixes.take(name)) in.imm = static_cast<std::int64_t>(operation);
  const Type type = suffixes.take_type();
  const bool logical = in.imm >= static_cast<std::int64_t>(Atomic::bit_and);
  if (in.imm < 0 || (logical ? type != Type::b32 : type != Type::u32 && type != Type::s32))
    fail("no such combination of type and modifiers");
  operands(3, 3);
  in.flags = type == Type::s32;
  in.a = source(1, type);
  const Row members = source(2, Type::b32);
  in.dst = destination(0, type);
  warp_operation(reduce_warp, in, {}, members);
}

void Decoder::activemask(Suffixes& suffixes) {
  if (!suffixes.take("b32")) fail("needs .b32");
  operands(1, 1);
  Instruction in;
  in.dst = destination(0, Type::b32);
  emit(active_mask, in);
}

void Decoder::mma(Suffixes& suffixes) {
  if (!suffixes.take("sync") || !suffixes.take("aligned")) fail("needs .sync.aligned");
  const std::string shape(suffixes.take_left());
  int m = 0, n = 0, k = 0;
  if (std::sscanf(shape.c_str(), "m%2dn%2dk%3d", &m, &n, &k) != 3)
    fail("needs a shape, as in .m16n8k16");
  if (!suffixes.take("row") || !suffixes.take("col")) fail("needs .row.col");
  Type d = suffixes.take_type(), a = suffixes.take_type(), b = suffixes.take_type(),
       c = suffixes.take_type();
  const Handler handler = select_mma(m, n, k, d, a, b, c);
  if (!handler) fail("no such shape and types");
  operands(4, 4);
  const std::uint32_t bits = a == Type::tf32 ? 32 : size_of(a) * 8;
  const auto per_lane = [&](int elements, std::uint32_t width) {
    return static_cast<std::size_t>(elements) * width / 32 / 32;
  };
  const std::size_t counts[] = {per_lane(m * n, size_of(d) * 8), per_lane(m * k, bits),
                                per_lane(k * n, bits), per_lane(m * n, size_of(c) * 8)};
  std::vector<Row> rows[4];
  for (std::size_t i = 4; i-- > 0;) {
    const Operand& o = operand(i);
    const std::vector<Operand> one{o};
    const std::vector<Operand>& list = o.kind == Kind::vector ? o.elements : one;
    if (list.size() != counts[i])
      fail("operand " + std::to_string(i + 1) + " has " + std::to_string(list.size()) +
           " registers, not " + std::to_string(counts[i]));
    for (const Operand& e : list)
      rows[i].push_back(i == 0 ? destination(e, Type::b32) : source(e, Type::b32));
  }
  std::vector<Row> all;
  for (const auto& part : rows) all.insert(all.end(), part.begin(), part.end());
  Instruction in;
  in.target = extra(all);
  in.flags = kWholeWarp;
  in.control = Control::warp_operation;
  emit(handler, in);
}

}  // namespace emulator
