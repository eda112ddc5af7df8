#include "emulator/memory/launch_memory.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace emulator {
namespace {

constexpr std::size_t kWords = kPageBytes / 4 / 64;

/// Adds the ranges of set bits, as addresses; neighbours within the page are joined.
void collect(const std::uint64_t* bits, std::uint64_t page_begin, std::uint64_t begin,
             std::uint64_t end, std::vector<ByteRange>& ranges) {
  for (std::size_t word = 0; word < kWords; ++word) {
    std::uint64_t rest = bits[word];
    while (rest != 0) {
      const int first = std::countr_zero(rest);
      const int count = std::countr_one(rest >> first);
      const std::uint64_t from = page_begin + (word * 64 + first) * 4;
      // The last granule of an allocation whose size is no multiple of 4 ends with it.
      const ByteRange range{std::max(from, begin), std::min(from + std::uint64_t(count) * 4, end)};
      if (!ranges.empty() && ranges.back().end == range.begin) {
        ranges.back().end = range.end;
      } else {
        ranges.push_back(range);
      }
      rest = first + count == 64 ? 0 : rest & (~std::uint64_t{0} << (first + count));
    }
  }
}

std::string hex(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

}  // namespace

LaunchMemory::LaunchMemory(DeviceMemory& memory) : memory_(memory) { cache_.fill(&none_); }

LaunchMemory::~LaunchMemory() = default;

LaunchMemory::Page& LaunchMemory::page_of(std::uint64_t number,
                                          const std::shared_ptr<Allocation>& allocation) {
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) {
    page = std::make_unique<Page>();
    const std::uint64_t first = number << kPageBits;
    const Allocation& a = *allocation;
    page->number = number;
    page->begin = a.begin > first ? a.begin - first : 0;
    page->end = std::min(a.end() - first, kPageBytes);
    // Before the beginning where the allocation begins inside the page: only offsets from `begin`
    // on are used.
    const auto shift = static_cast<std::ptrdiff_t>(first - a.begin);
    page->data = a.data + shift;
    page->shadow = a.shadow + shift;
    page->bits = std::make_unique<std::uint64_t[]>(2 * kWords);
    page->reads = page->bits.get();
    page->writes = page->bits.get() + kWords;
    page->allocation = allocation;
  }
  cache_[number % kSlots] = page.get();
  return *page;
}

/// The same checks in full, one after another, so that the first that fails names itself; and
/// accesses that lie across lines or pages, or that touch pages read as constants.
std::byte* LaunchMemory::slow(std::uint64_t address, std::uint32_t bytes, std::uint32_t alignment,
                              Access access) {
  const std::string_view verb = access == Access::write ? "write" : "read";
  if (alignment > 1 && (address & (alignment - 1)) != 0) {
    throw Fault(FaultKind::misaligned_address,
                "misaligned address: " + std::to_string(bytes) + "-byte " + std::string(verb) +
                    " at " + hex(address) + ", not a multiple of " + std::to_string(alignment));
  }
  const auto known = pages_.find(address >> kPageBits);
  std::shared_ptr<Allocation> allocation;
  if (known != pages_.end() && address >= known->second->allocation->begin &&
      bytes <= known->second->allocation->bytes &&
      address - known->second->allocation->begin <= known->second->allocation->bytes - bytes) {
    allocation = known->second->allocation;
  } else {
    allocation = memory_.resolve(address, bytes, verb);
  }
  const std::uint64_t at = address - allocation->begin;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    const std::uint32_t offset = (address + i) & (kPageBytes - 1);
    Page& page = page_of((address + i) >> kPageBits, allocation);
    if (access == Access::read_constant && !page.constants) {
      page.constant_bits = std::make_unique<std::uint64_t[]>(kWords);
      page.constants = page.constant_bits.get();
    }
    const bool clash = access == Access::read_constant ? marked(page.writes, offset, 1)
                       : access == Access::write && page.constants
                           ? marked(page.constants, offset, 1)
                           : false;
    if (clash) {
      throw Fault(FaultKind::read_only_violation,
                  "read-only violation: the launch both writes and reads by ld.global.nc byte " +
                      std::to_string(at + i) + " of " + allocation->describe());
    }
    mark(access == Access::write           ? page.writes
         : access == Access::read_constant ? page.constants
                                           : page.reads,
         offset, 1);
    if (access == Access::write) set_initialised(page.shadow + offset, 1);
  }
  // After the marking: a read of bytes that another operation was to write first shows as a race.
  if (access != Access::write) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (__atomic_load_n(allocation->shadow + at + i, __ATOMIC_RELAXED) == 1) continue;
      throw Fault(FaultKind::uninitialised_memory,
                  "uninitialised memory: " + std::to_string(bytes) + "-byte read at " +
                      hex(address) + ", byte " + std::to_string(at + i) + " of " +
                      allocation->describe() + " was never written");
    }
  }
  return allocation->data + at;
}

Footprint LaunchMemory::footprint() const {
  std::vector<const Page*> pages;
  pages.reserve(pages_.size());
  for (const auto& [number, page] : pages_) pages.push_back(page.get());
  std::sort(pages.begin(), pages.end(),
            [](const Page* a, const Page* b) { return a->number < b->number; });
  Footprint footprint;
  for (const Page* page : pages) {
    const std::uint64_t first = page->number << kPageBits;
    const std::uint64_t begin = page->allocation->begin, end = page->allocation->end();
    collect(page->reads, first, begin, end, footprint.reads);
    collect(page->writes, first, begin, end, footprint.writes);
    if (page->constants) collect(page->constants, first, begin, end, footprint.constants);
  }
  if (!footprint.constants.empty()) {
    footprint.reads.insert(footprint.reads.end(), footprint.constants.begin(),
                           footprint.constants.end());
    footprint.reads = merge_ranges(std::move(footprint.reads));
  }
  return footprint;
}

}  // namespace emulator
