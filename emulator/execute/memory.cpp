// ld and st of every space. Start reading at load and store.
#include <algorithm>

#include "emulator/execute/access.h"

namespace emulator {
namespace {

using ptx::Space;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

u32 element_bytes(const Instruction& in) { return 1u << (in.flags >> kSizeShift & 3); }
u32 register_bytes(const Instruction& in) { return 1u << (in.flags >> kWidthShift & 3); }

/// .local memory of a lane, and its shadow.
std::byte* local_place(Warp& w, u32 lane, u64 offset, u32 bytes, u32 alignment) {
  const u32 size = w.block->kernel->local_bytes;
  w.fault_lane = lane;
  if (offset > size || bytes > size - offset)
    throw make_fault(FaultKind::illegal_address,
                     std::to_string(bytes) + " bytes at local offset " + std::to_string(offset) +
                         " of " + std::to_string(size) + " bytes of local memory");
  if (offset & (alignment - 1))
    throw make_fault(FaultKind::misaligned_address, "local offset " + std::to_string(offset) +
                                                        " is not a multiple of " +
                                                        std::to_string(alignment));
  return w.local + std::size_t{lane} * size + offset;
}

void resolve_load(Warp& w, const Instruction& in, Space space, bool nc, const u64* address,
                  u32 mask, u32 bytes, const std::byte** pointers) {
  Block& block = *w.block;
  switch (space) {
    case Space::global:
    case Space::constant:
      if (nc)
        resolve_lanes(w, address, mask, bytes, pointers, [&](u64 a, u32 n, u32 alignment) {
          return block.memory->read_constant(a, n, alignment);
        });
      else
        resolve_lanes(w, address, mask, bytes, pointers, [&](u64 a, u32 n, u32 alignment) {
          return block.memory->read(a, n, alignment);
        });
      return;
    case Space::shared: {
      const auto access =
          in.flags & kStrong ? SharedMemory::Access::strong : SharedMemory::Access::weak;
      for (u32 m = mask; m; m &= m - 1) {
        const auto l = static_cast<u32>(std::countr_zero(m));
        w.fault_lane = l;
        pointers[l] = block.shared->read(thread_of(w, l), address[l], bytes, bytes, access);
      }
      return;
    }
    case Space::local:
      for (u32 m = mask; m; m &= m - 1) {
        const auto l = static_cast<u32>(std::countr_zero(m));
        std::byte* p = local_place(w, l, address[l], bytes, bytes);
        const std::byte* shadow = w.local_init + (p - w.local);
        for (u32 i = 0; i < bytes; ++i)
          if (shadow[i] == std::byte{0})
            throw make_fault(
                FaultKind::uninitialised_memory,
                "local offset " + std::to_string(address[l] + i) + " was never written");
        pointers[l] = p;
      }
      return;
    default: {
      const auto parameters = block.launch->parameters;
      for (u32 m = mask; m; m &= m - 1) {
        const auto l = static_cast<u32>(std::countr_zero(m));
        w.fault_lane = l;
        if (address[l] > parameters.size() || bytes > parameters.size() - address[l])
          throw make_fault(FaultKind::illegal_address, std::to_string(bytes) + " bytes at offset " +
                                                           std::to_string(address[l]) + " of " +
                                                           std::to_string(parameters.size()) +
                                                           " bytes of parameters");
        pointers[l] = parameters.data() + address[l];
      }
    }
  }
}

template <class Element, class Register>
void scatter(Warp& w, Row d, u32 mask, const std::byte* const* pointers, u32 offset) {
  Register* out = row<Register>(w, d);
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    Element e;
    std::memcpy(&e, pointers[l] + offset, sizeof e);
    out[l] = static_cast<Register>(static_cast<std::int64_t>(e));  // sign-extends signed types
  }
}
template <class Element>
void scatter_as(Warp& w, Row d, u32 width, u32 mask, const std::byte* const* pointers, u32 offset) {
  switch (width) {
    case 1:
      return scatter<Element, std::uint8_t>(w, d, mask, pointers, offset);
    case 2:
      return scatter<Element, std::uint16_t>(w, d, mask, pointers, offset);
    case 4:
      return scatter<Element, u32>(w, d, mask, pointers, offset);
    default:
      return scatter<Element, u64>(w, d, mask, pointers, offset);
  }
}

void load_elements(Warp& w, const Instruction& in, u32 mask, const std::byte* const* pointers) {
  const u32 size = element_bytes(in), width = register_bytes(in);
  const bool sign = in.flags & kSignExtend;
  for (u32 e = 0; e < in.count; ++e) {
    const Row d = e == 0 ? in.dst : extra_row(w, in, e - 1);
    if (mask == kAllLanes && size == width && in.count == 1 &&
        pointers[31] == pointers[0] + size_t{31} * size &&
        pointers[15] == pointers[0] + size_t{15} * size &&
        pointers[16] == pointers[0] + size_t{16} * size) {
      // Contiguous at the ends and in the middle; the rest is compared before trusting it.
      bool side_by_side = true;
      for (u32 l = 1; l < 32; ++l)
        side_by_side &= pointers[l] == pointers[0] + std::size_t{l} * size;
      if (side_by_side) {
        std::memcpy(w.file + d.offset, pointers[0], std::size_t{32} * size);
        written(w, d, mask);
        continue;
      }
    }
    const u32 offset = e * size;
    switch (size) {
      case 1:
        sign ? scatter_as<std::int8_t>(w, d, width, mask, pointers, offset)
             : scatter_as<std::uint8_t>(w, d, width, mask, pointers, offset);
        break;
      case 2:
        sign ? scatter_as<std::int16_t>(w, d, width, mask, pointers, offset)
             : scatter_as<std::uint16_t>(w, d, width, mask, pointers, offset);
        break;
      case 4:
        sign ? scatter_as<std::int32_t>(w, d, width, mask, pointers, offset)
             : scatter_as<u32>(w, d, width, mask, pointers, offset);
        break;
      default:
        scatter_as<u64>(w, d, width, mask, pointers, offset);
    }
    written(w, d, mask);
  }
}

template <Space space, bool nc>
void load(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  u64 address[32];
  const std::byte* pointers[32];
  addresses(w, in, in.a, in.imm, in.flags & kAddress32, address);
  const u32 bytes = element_bytes(in) * in.count;
  if (space == Space::generic)
    by_window(address, mask, [&](Space part, u32 lanes) {
      resolve_load(w, in, part, nc, address, lanes, bytes, pointers);
    });
  else
    resolve_load(w, in, space, nc, address, mask, bytes, pointers);
  load_elements(w, in, mask, pointers);
}

/// The bytes that lane `l` stores.
void gather(Warp& w, const Instruction& in, u32 l, std::byte* out) {
  const u32 size = element_bytes(in), width = register_bytes(in);
  for (u32 e = 0; e < in.count; ++e) {
    const Row b = e == 0 ? in.b : extra_row(w, in, e - 1);
    std::memcpy(out + std::size_t{e} * size, w.file + b.offset + std::size_t{l} * width, size);
  }
}

void store_part(Warp& w, const Instruction& in, Space space, const u64* address, u32 mask,
                u32 bytes) {
  Block& block = *w.block;
  std::byte value[32];
  if (space == Space::global) {
    std::byte* pointers[32];
    resolve_lanes(w, address, mask, bytes, pointers, [&](u64 a, u32 n, u32 alignment) {
      return block.memory->write(a, n, alignment);
    });
    if (in.count == 1 && mask == kAllLanes && address[31] - address[0] == u64{31} * bytes &&
        register_bytes(in) == bytes) {
      bool side_by_side = true;
      for (u32 l = 1; l < 32; ++l) side_by_side &= address[l] == address[0] + u64{l} * bytes;
      if (side_by_side) {
        std::memcpy(pointers[0], w.file + in.b.offset, std::size_t{32} * bytes);
        return;
      }
    }
    for (u32 m = mask; m; m &= m - 1)
      gather(w, in, static_cast<u32>(std::countr_zero(m)), pointers[std::countr_zero(m)]);
    return;
  }
  const auto access =
      in.flags & kStrong ? SharedMemory::Access::strong : SharedMemory::Access::weak;
  for (u32 m = mask; m; m &= m - 1) {
    const auto l = static_cast<u32>(std::countr_zero(m));
    w.fault_lane = l;
    gather(w, in, l, value);
    if (space == Space::shared) {
      block.shared->write(thread_of(w, l), address[l], bytes, {value, bytes}, access);
    } else if (space == Space::local) {
      std::byte* p = local_place(w, l, address[l], bytes, bytes);
      std::memcpy(p, value, bytes);
      std::memset(w.local_init + (p - w.local), 1, bytes);
    } else {
      throw make_fault(FaultKind::illegal_address, "parameters and constants cannot be written");
    }
  }
}

template <Space space>
void store(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  check(w, in, in.b, mask);
  for (u32 e = 1; e < in.count; ++e) check(w, in, extra_row(w, in, e - 1), mask);
  u64 address[32];
  addresses(w, in, in.a, in.imm, in.flags & kAddress32, address);
  const u32 bytes = element_bytes(in) * in.count;
  if (space == Space::generic)
    by_window(address, mask,
              [&](Space part, u32 lanes) { store_part(w, in, part, address, lanes, bytes); });
  else
    store_part(w, in, space, address, mask, bytes);
}

}  // namespace

Handler select_load(Space space, bool nc) {
  switch (space) {
    case Space::generic:
      return nc ? load<Space::generic, true> : load<Space::generic, false>;
    case Space::global:
      return nc ? load<Space::global, true> : load<Space::global, false>;
    case Space::constant:
      return load<Space::constant, false>;
    case Space::shared:
      return load<Space::shared, false>;
    case Space::local:
      return load<Space::local, false>;
    case Space::param:
      return load<Space::param, false>;
    default:
      return nullptr;
  }
}

Handler select_store(Space space) {
  switch (space) {
    case Space::generic:
      return store<Space::generic>;
    case Space::global:
      return store<Space::global>;
    case Space::shared:
      return store<Space::shared>;
    case Space::local:
      return store<Space::local>;
    default:
      return nullptr;
  }
}

void isspacep(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  u32 result = 0;
  for (u32 l = 0; l < 32; ++l) {
    const u64 window = row<u64>(w, in.a)[l] & kWindowMask;
    const bool special =
        window == kSharedWindow || window == kLocalWindow || window == kParamWindow;
    const auto wanted = static_cast<u64>(in.imm);
    result |= static_cast<u32>(wanted == 0 ? !special : window == wanted) << l;
  }
  set_predicate(w, in.dst, result, mask);
}

void convert_address(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask);
  const u64 window = in.flags & 2 ? static_cast<u64>(in.imm) : u64{0} - static_cast<u64>(in.imm);
  for (u32 m = mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    row<u64>(w, in.dst)[l] = row<u64>(w, in.a)[l] + window;
  }
  written(w, in.dst, mask);
}

}  // namespace emulator
