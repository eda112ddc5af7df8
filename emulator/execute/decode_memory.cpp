// Decoding of moves, loads, stores, atomics, address conversions and asynchronous copies.
#include <bit>
#include <utility>

#include "emulator/execute/decode.h"

namespace emulator {
namespace {

using ptx::Space;
using ptx::Type;

Space take_space(Suffixes& suffixes) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global", Space::global},      {"shared", Space::shared},    {"shared::cta", Space::shared},
      {"local", Space::local},        {"const", Space::constant},   {"param", Space::param},
      {"param::entry", Space::param}, {"param::func", Space::param}};
  for (const auto& [name, space] : kSpaces)
    if (suffixes.take(name)) return space;
  return Space::generic;
}

/// .relaxed.gpu and the like; true: the access is strong.
bool take_ordering(Suffixes& suffixes) {
  bool strong = false;
  for (const std::string_view word :
       {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
    if (suffixes.take(word)) strong = true;
  suffixes.take("weak");
  for (const std::string_view scope : {"cta", "cluster", "gpu", "sys"}) suffixes.take(scope);
  return strong;
}

unsigned log2_of(std::uint32_t width) { return static_cast<unsigned>(std::countr_zero(width)); }

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::param:
      return kParamWindow;
    default:
      return 0;
  }
}

Type bits_type(std::uint32_t width) {
  return width == 1   ? Type::b8
         : width == 2 ? Type::b16
         : width == 4 ? Type::b32
         : width == 8 ? Type::b64
                      : Type::none;
}

}  // namespace

Decoder::Family Decoder::memory_family(std::string_view opcode) {
  static constexpr std::pair<std::string_view, Family> kTable[] = {
      {"mov", &Decoder::mov},
      {"ld", &Decoder::load_store},
      {"ldu", &Decoder::load_store},
      {"st", &Decoder::load_store},
      {"atom", &Decoder::atomic},
      {"red", &Decoder::atomic},
      {"cvta", &Decoder::cvta},
      {"isspacep", &Decoder::isspacep},
      {"cp", &Decoder::copy_async},
      {"ldmatrix", &Decoder::matrix_access},
      {"stmatrix", &Decoder::matrix_access},
      {"prefetch", &Decoder::no_operation},
      {"prefetchu", &Decoder::no_operation},
      {"discard", &Decoder::no_operation},
      {"applypriority", &Decoder::no_operation},
      {"membar", &Decoder::no_operation},
      {"fence", &Decoder::no_operation},
      {"nanosleep", &Decoder::no_operation},
      {"griddepcontrol", &Decoder::no_operation},
      {"pmevent", &Decoder::no_operation},
      {"createpolicy", &Decoder::create_policy},
  };
  for (const auto& [name, f] : kTable)
    if (name == opcode) return f;
  return nullptr;
}

void Decoder::no_operation(Suffixes& suffixes) {
  while (!suffixes.take_left().empty()) {
  }
  // Names in its operands were looked up by the parser; nothing else of them matters.
  emit(nothing, {});
}

void Decoder::create_policy(Suffixes& suffixes) {
  while (!suffixes.take_left().empty()) {
  }
  Instruction in;
  in.a = constant(8, 0);
  in.dst = destination(0, Type::b64);
  emit(select_lanes({LaneOp::move, Type::b64, false, false, false}), in);
}

void Decoder::mov(Suffixes& suffixes) {
  const Type type = suffixes.take_type();
  operands(2, 2);
  if (type == Type::none || size_of(type) > 8 || (type != Type::pred && size_of(type) < 2))
    fail("no such type");
  const Operand &d = operand(0), &a = operand(1);
  Instruction in;
  if (d.kind == Kind::vector || a.kind == Kind::vector) {
    const Operand& pieces = d.kind == Kind::vector ? d : a;
    const std::size_t count = pieces.elements.size();
    if (d.kind == a.kind || type == Type::pred || (count != 2 && count != 4) ||
        size_of(type) % count != 0)
      fail("malformed packing");
    const std::uint32_t width = size_of(type) / static_cast<std::uint32_t>(count);
    std::vector<Row> rows;
    in.count = static_cast<std::uint8_t>(count);
    in.imm = width;
    if (d.kind == Kind::vector) {
      in.a = source(a, type);
      for (const Operand& e : pieces.elements) rows.push_back(destination(e, bits_type(width)));
      in.target = extra(rows);
      return emit(unpack, in);
    }
    for (const Operand& e : pieces.elements) rows.push_back(source(e, bits_type(width)));
    in.target = extra(rows);
    in.dst = destination(d, type);
    return emit(pack, in);
  }
  if (a.kind == Kind::special &&
      (a.special == ptx::Special::clock || a.special == ptx::Special::clock64 ||
       a.special == ptx::Special::globaltimer)) {
    in.imm = size_of(type);
    in.dst = destination(d, type);
    return emit(read_clock, in);
  }
  in.a = source(a, type);
  in.dst = destination(d, type);
  emit(select_lanes({LaneOp::move, type, false, false, false}), in);
  // A copy of a product may be fused like the product.
  if (a.kind == Kind::reg && d.kind == Kind::reg && instance_->products.contains(a.symbol))
    instance_->products.insert(d.symbol);
}

void Decoder::elements(const Operand& operand, std::uint32_t count, Type type, bool load,
                       Instruction& in) {
  std::vector<const Operand*> list;
  if (operand.kind == Kind::vector)
    for (const Operand& e : operand.elements) list.push_back(&e);
  else
    list.push_back(&operand);
  if (list.size() != count)
    fail("has " + std::to_string(list.size()) + " elements where " + std::to_string(count) +
         " are expected");
  std::uint32_t width = 0;
  for (const Operand* e : list) {
    if (e->kind != Kind::reg) continue;
    const std::uint32_t have = width_of(*e);
    if (width != 0 && have != width) fail("elements of different sizes");
    width = have;
    if (have < size_of(type))
      fail("register " + e->symbol->name + " is too narrow for ." + std::string(name(type)));
    if (e->symbol->type == Type::pred || (type == Type::f32 && have != 4) ||
        (type == Type::f64 && have != 8))
      fail("register " + e->symbol->name + " cannot hold ." + std::string(name(type)));
  }
  if (width == 0) width = size_of(type);
  std::vector<Row> rows;
  for (const Operand* e : list) {
    const Type as = width == size_of(type) ? type : bits_type(width);
    rows.push_back(load ? destination(*e, as) : source(*e, as));
  }
  (load ? in.dst : in.b) = rows[0];
  in.target = extra({rows.begin() + 1, rows.end()});
  in.count = static_cast<std::uint8_t>(count);
  in.flags |= static_cast<std::uint16_t>(log2_of(size_of(type)) << kSizeShift |
                                         log2_of(width) << kWidthShift |
                                         (is_signed(type) ? unsigned{kSignExtend} : 0u));
}

void Decoder::load_store(Suffixes& suffixes) {
  const bool load = statement_->opcode != "st";
  const bool hint = suffixes.take("L2::cache_hint");
  suffixes.ignore_hints();
  Space space = take_space(suffixes);
  Instruction in;
  if (take_ordering(suffixes)) in.flags |= kStrong;
  for (const std::string_view word : {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified"})
    suffixes.take(word);
  bool nc = load && suffixes.take("nc");
  if (nc && space != Space::global) fail(".nc is for .global");
  const std::uint32_t count = suffixes.take("v2")   ? 2
                              : suffixes.take("v4") ? 4
                              : suffixes.take("v8") ? 8
                                                    : 1;
  const Type type = suffixes.take_type();
  if (size_of(type) == 0 || size_of(type) > 8) fail("no such type");
  if (size_of(type) * count > (count == 8 ? 32u : 16u)) fail("a vector of more than 16 bytes");
  operands(2, hint ? 3 : 2);
  if (!load && space == Space::constant) fail("constants cannot be written");
  if (load) {
    address(1, space, in);
    elements(operand(0), count, type, true, in);
  } else {
    address(0, space, in);
    elements(operand(1), count, type, false, in);
  }
  if (!load && space == Space::param) fail("a kernel's parameters cannot be written");
  emit(load ? select_load(space, nc) : select_store(space), in);
}

void Decoder::atomic(Suffixes& suffixes) {
  const bool result = statement_->opcode == "atom";
  const bool hint = suffixes.take("L2::cache_hint");
  suffixes.ignore_hints();
  Space space = take_space(suffixes);
  take_ordering(suffixes);
  suffixes.take("noftz");
  static constexpr std::pair<std::string_view, Atomic> kOperations[] = {
      {"add", Atomic::add},       {"min", Atomic::min},          {"max", Atomic::max},
      {"and", Atomic::bit_and},   {"or", Atomic::bit_or},        {"xor", Atomic::bit_xor},
      {"exch", Atomic::exchange}, {"cas", Atomic::compare_swap}, {"inc", Atomic::increment},
      {"dec", Atomic::decrement}};
  const std::pair<std::string_view, Atomic>* operation = nullptr;
  for (const auto& candidate : kOperations)
    if (!operation && suffixes.take(candidate.first)) operation = &candidate;
  if (!operation) fail("needs an operation, as in .add");
  const Type type = suffixes.take_type();
  const bool swap = operation->second == Atomic::compare_swap;
  if (!result && (swap || operation->second == Atomic::exchange)) fail("has no such operation");
  const std::size_t first = result ? 1 : 0, count = first + 2 + (swap ? 1 : 0);
  operands(count, count + (hint ? 1 : 0));
  Instruction in;
  address(first, space, in);
  if (space == Space::local || space == Space::param || space == Space::constant)
    fail("is for .global and .shared");
  in.b = source(first + 1, type);
  if (swap) in.c = source(first + 2, type);
  if (result && operand(0).kind != Kind::sink)
    in.dst = destination(0, type);
  else
    in.flags |= kNoResult;
  emit(select_atomic(space, operation->second, type), in);
}

void Decoder::cvta(Suffixes& suffixes) {
  const bool to = suffixes.take("to");
  const Space space = take_space(suffixes);
  if (space == Space::generic) fail("needs a space");
  if (!suffixes.take("u64")) fail("only 64-bit addresses are supported");
  operands(2, 2);
  Instruction in;
  const Operand& a = operand(1);
  in.a = source(a, Type::u64);
  in.dst = destination(0, Type::u64);
  in.imm = static_cast<std::int64_t>(window_of(space));
  if (in.imm == 0) return emit(select_lanes({LaneOp::move, Type::u64, false, false, false}), in);
  in.flags = to ? 0 : 2;
  emit(convert_address, in);
}

void Decoder::isspacep(Suffixes& suffixes) {
  const Space space = take_space(suffixes);
  if (space == Space::generic) fail("needs a space");
  operands(2, 2);
  Instruction in;
  in.a = source(1, Type::u64);
  in.dst = destination(0, Type::pred);
  in.imm = static_cast<std::int64_t>(window_of(space));
  emit(emulator::isspacep, in);
}

void Decoder::copy_async(Suffixes& suffixes) {
  if (!suffixes.take("async")) fail("only cp.async is supported");
  if (suffixes.take("commit_group")) {
    operands(0, 0);
    return emit(commit_copies, {});
  }
  Instruction in;
  if (suffixes.take("wait_all")) {
    operands(0, 0);
    in.imm = -1;
    return emit(wait_copies, in);
  }
  if (suffixes.take("wait_group")) {
    operands(1, 1);
    in.imm = static_cast<std::int64_t>(immediate(0) & 0x7fffffff);
    return emit(wait_copies, in);
  }
  const bool hint = suffixes.take("L2::cache_hint");
  suffixes.ignore_hints();
  const bool around_l1 = suffixes.take("cg");
  if (!around_l1 && !suffixes.take("ca")) fail("needs .ca or .cg");
  Space shared = take_space(suffixes), global = Space::global;
  if (shared == Space::global)
    shared = take_space(suffixes);
  else
    suffixes.take("global");
  if (shared != Space::shared) fail("copies to .shared from .global");
  operands(3, hint ? 5 : 4);
  const std::uint64_t bytes = immediate(2);
  if (bytes != 16 && (around_l1 || (bytes != 4 && bytes != 8)))
    fail("copies 4, 8 or 16 bytes (.cg: 16)");
  in.count = static_cast<std::uint8_t>(bytes);
  address(0, shared, in);
  std::int64_t offset = 0;
  bool narrow = false;
  address(operand(1), global, in.b, offset, narrow);
  const std::size_t count = statement_->operands.size() - (hint ? 1 : 0);
  if (count == 4 && operand(3).kind == Kind::reg && operand(3).symbol->type == Type::pred) {
    // ignore-src: all zeros where it holds
    Instruction size;
    size.a = constant(4, 0);
    size.b = constant(4, bytes);
    size.c = source(3, Type::pred);
    size.dst = in.c = new_row(4);
    emit(select_lanes({LaneOp::select, Type::b32, false, false, false}), size);
  } else {
    in.c = count == 4 ? source(3, Type::u32) : constant(4, bytes);
  }
  in.target = extra({constant(8, static_cast<std::uint64_t>(offset))});
  emit(emulator::copy_async, in);
}

void Decoder::matrix_access(Suffixes& suffixes) {
  const bool load = statement_->opcode == "ldmatrix";
  if (!suffixes.take("sync") || !suffixes.take("aligned") || !suffixes.take("m8n8") ||
      !suffixes.take("b16"))
    fail("needs .sync.aligned.m8n8 and .b16");
  const std::uint32_t count = suffixes.take("x4")   ? 4
                              : suffixes.take("x2") ? 2
                              : suffixes.take("x1") ? 1
                                                    : 0;
  if (count == 0) fail("needs .x1, .x2 or .x4");
  Instruction in;
  const bool transposed = suffixes.take("trans");
  Space space = take_space(suffixes);
  if (space != Space::shared && space != Space::generic) fail("is for .shared");
  operands(2, 2);
  address(load ? 1 : 0, space, in);
  elements(operand(load ? 0 : 1), count, Type::b32, load, in);
  if (transposed) in.flags |= kTransposed;
  in.flags |= kWholeWarp;
  in.control = Control::warp_operation;
  emit(load ? load_matrix : store_matrix, in);
}

}  // namespace emulator
