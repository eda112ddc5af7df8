// cp.async: the source is read at once, the destination is out of bounds for everybody until the
// copying thread waits.
#include <algorithm>

#include "emulator/execute/access.h"

namespace emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

void finish(Warp& w, PendingCopy& copy) {
  w.fault_lane = copy.lane;
  w.block->shared->end_copy(thread_of(w, copy.lane), copy.shared, {copy.data, copy.bytes});
}

}  // namespace

void copy_async(Warp& w, const Instruction& in, u32 mask) {
  check(w, in, in.a, mask), check(w, in, in.b, mask), check(w, in, in.c, mask);
  const u32 bytes = in.count;
  u64 shared[32], source[32];
  addresses(w, in, in.a, in.imm, in.flags & kAddress32, shared);
  const std::int64_t offset = row<std::int64_t>(w, extra_row(w, in, 0))[0];
  addresses(w, in, in.b, offset, in.flags & 2, source);
  const u32* size = row<u32>(w, in.c);
  bool whole = true;
  for (u32 l = 0; l < 32; ++l) whole &= size[l] == bytes || !(mask >> l & 1);
  const std::byte* pointers[32] = {};
  if (whole)
    resolve_lanes(w, source, mask, bytes, pointers, [&](u64 a, u32 n, u32 alignment) {
      return w.block->memory->read(a, n, alignment);
    });
  for (u32 m = mask; m; m &= m - 1) {
    const auto l = static_cast<u32>(std::countr_zero(m));
    w.fault_lane = l;
    if (size[l] > bytes)
      throw make_fault(
          FaultKind::illegal_instruction,
          "cp.async copies " + std::to_string(size[l]) + " of " + std::to_string(bytes) + " bytes");
    if (shared[l] & (bytes - 1) || source[l] & (bytes - 1))
      throw make_fault(FaultKind::misaligned_address,
                       "cp.async of " + std::to_string(bytes) +
                           " bytes at an address that is no multiple of it");
    PendingCopy copy;
    copy.lane = l;
    copy.bytes = bytes;
    copy.group = w.committed[l];
    std::memset(copy.data, 0, sizeof copy.data);
    if (whole)
      std::memcpy(copy.data, pointers[l], bytes);
    else if (size[l] > 0)
      std::memcpy(copy.data, w.block->memory->read(source[l], size[l], 1), size[l]);
    w.block->shared->begin_copy(thread_of(w, l), shared[l], bytes);
    copy.shared = static_cast<u32>(shared[l]);
    w.copies.push_back(copy);
  }
}

void commit_copies(Warp& w, const Instruction&, u32 mask) {
  for (u32 m = mask; m; m &= m - 1) ++w.committed[std::countr_zero(m)];
}

void wait_copies(Warp& w, const Instruction& in, u32 mask) {
  std::size_t kept = 0;
  for (PendingCopy& copy : w.copies) {
    const bool mine = mask >> copy.lane & 1;
    const bool all = in.imm < 0;
    if (mine && (all || static_cast<std::int64_t>(copy.group) <
                            static_cast<std::int64_t>(w.committed[copy.lane]) - in.imm))
      finish(w, copy);
    else
      w.copies[kept++] = copy;
  }
  w.copies.resize(kept);
}

}  // namespace emulator
