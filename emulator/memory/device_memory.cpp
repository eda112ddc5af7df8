#include "emulator/memory/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace emulator {
namespace {

// Twice the strictest alignment of cuMemAlloc's documentation would hide who relies on more.
constexpr std::uint64_t kOffsetInPage = 256;
constexpr std::size_t kRememberedFrees = 65536;

std::string hex(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

Allocation::~Allocation() {
  if (!host) std::free(data);
  std::free(shadow);
}

std::string Allocation::describe() const {
  return "allocation #" + std::to_string(serial) + " (" + origin + ", " + std::to_string(bytes) +
         (bytes == 1 ? " byte)" : " bytes)");
}

DeviceMemory::DeviceMemory(std::string name, std::uint64_t capacity)
    : name_(std::move(name)), capacity_(capacity) {
  // Addresses only, no memory; less where the process's address space is limited.
  for (std::uint64_t bytes = std::uint64_t{4} << 40; bytes >= std::uint64_t{1} << 30; bytes /= 2) {
    void* range =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base_ = reinterpret_cast<std::uint64_t>(range);
    reserved_ = bytes;
    next_ = round_up(base_, kPageBytes) + kPageBytes;
    return;
  }
  throw std::bad_alloc();
}

DeviceMemory::~DeviceMemory() { munmap(reinterpret_cast<void*>(base_), reserved_); }

bool DeviceMemory::in_reserved_range(std::uint64_t address) const {
  return address - base_ < reserved_;
}

/// Zero: the range is used up (addresses are not reused).
std::uint64_t DeviceMemory::take_addresses(std::uint64_t bytes) {
  const std::uint64_t pages = round_up(kOffsetInPage + bytes, kPageBytes) + kPageBytes;
  if (bytes > reserved_ || pages > base_ + reserved_ - next_) return 0;
  return std::exchange(next_, next_ + pages) + kOffsetInPage;
}

std::shared_ptr<Allocation> DeviceMemory::allocate(std::uint64_t bytes, std::string origin) {
  auto made = std::make_shared<Allocation>();
  made->bytes = bytes;
  made->origin = std::move(origin);
  const std::unique_lock lock(mutex_);
  if (bytes > capacity_ || used_ > capacity_ - bytes) return nullptr;
  made->begin = take_addresses(bytes);
  if (made->begin == 0) return nullptr;
  // calloc leaves large blocks untouched: only pages that are used cost memory.
  made->data = static_cast<std::byte*>(std::calloc(bytes, 1));
  made->shadow = static_cast<std::uint8_t*>(std::calloc(bytes, 1));
  if (!made->data || !made->shadow) return nullptr;
  made->serial = next_serial();
  used_ += bytes;
  by_begin_[made->begin] = made;
  return made;
}

std::shared_ptr<Allocation> DeviceMemory::map_host(void* host, std::uint64_t bytes,
                                                   bool own_address, std::string origin) {
  auto made = std::make_shared<Allocation>();
  made->bytes = bytes;
  made->origin = std::move(origin);
  made->host = true;
  made->data = static_cast<std::byte*>(host);
  made->shadow = static_cast<std::uint8_t*>(std::malloc(bytes));
  if (!made->shadow) return nullptr;
  std::memset(made->shadow, 1, bytes);
  const std::unique_lock lock(mutex_);
  made->begin = own_address ? reinterpret_cast<std::uint64_t>(host) : take_addresses(bytes);
  if (made->begin == 0) return nullptr;
  made->serial = next_serial();
  by_begin_[made->begin] = made;
  return made;
}

bool DeviceMemory::release(std::uint64_t address, std::string freed_by) {
  const std::unique_lock lock(mutex_);
  const auto found = by_begin_.find(address);
  if (found == by_begin_.end() || found->second->freed) return false;
  Allocation& allocation = *found->second;
  allocation.freed_by = std::move(freed_by);
  allocation.freed = true;
  if (allocation.host) {
    by_begin_.erase(found);  // the host's addresses are reused
    return true;
  }
  used_ -= allocation.bytes;
  freed_.push_back(address);
  // A launch that still runs holds the bytes; what remains here is for messages.
  auto remembered = std::make_shared<Allocation>();
  remembered->begin = allocation.begin;
  remembered->bytes = allocation.bytes;
  remembered->serial = allocation.serial;
  remembered->origin = allocation.origin;
  remembered->freed_by = allocation.freed_by;
  remembered->freed = true;
  found->second = std::move(remembered);
  forget_old_frees();
  return true;
}

void DeviceMemory::forget_old_frees() {
  if (freed_.size() < 2 * kRememberedFrees) return;
  for (std::size_t i = 0; i < kRememberedFrees; ++i) by_begin_.erase(freed_[i]);
  freed_.erase(freed_.begin(), freed_.begin() + kRememberedFrees);
}

std::shared_ptr<Allocation> DeviceMemory::find(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  auto after = by_begin_.upper_bound(address);
  if (after == by_begin_.begin()) return nullptr;
  const std::shared_ptr<Allocation>& before = std::prev(after)->second;
  return address < before->end() ? before : nullptr;
}

std::shared_ptr<Allocation> DeviceMemory::find_reachable(std::uint64_t address) const {
  if (auto own = find(address)) return own;
  std::vector<const DeviceMemory*> others;
  {
    const std::shared_lock lock(mutex_);
    others = reachable_;
  }
  for (const DeviceMemory* other : others) {
    if (auto theirs = other->find(address)) return theirs;
  }
  return nullptr;
}

std::shared_ptr<Allocation> DeviceMemory::resolve(std::uint64_t address, std::uint64_t bytes,
                                                  std::string_view access) const {
  auto found = find_reachable(address);
  if (!found || found->freed || bytes > found->end() - address) {
    throw explain(address, bytes, access);
  }
  return found;
}

/// Where the nearest allocation before it lies, or empty.
std::string DeviceMemory::place_of(std::uint64_t address, std::uint64_t bytes) const {
  const std::shared_lock lock(mutex_);
  auto after = by_begin_.upper_bound(address);
  if (after == by_begin_.begin()) return "";
  const Allocation& before = *std::prev(after)->second;
  const std::string freed = before.freed ? ", freed by " + before.freed_by : "";
  if (address < before.end()) {
    const std::uint64_t at = address - before.begin;
    if (before.freed) return "at byte " + std::to_string(at) + " of " + before.describe() + freed;
    return "at byte " + std::to_string(at) + ", which ends " +
           std::to_string(at + bytes - before.bytes) + " bytes past the end of " +
           before.describe();
  }
  return std::to_string(address - before.end()) + " bytes past the end of " + before.describe() +
         freed;
}

Fault DeviceMemory::explain(std::uint64_t address, std::uint64_t bytes,
                            std::string_view access) const {
  const std::string what =
      std::to_string(bytes) + "-byte " + std::string(access) + " at " + hex(address);
  const auto found = find_reachable(address);
  if (found && found->freed) {
    return {FaultKind::freed_memory, "freed memory: " + what + ", " + place_of(address, bytes)};
  }
  if (address < kPageBytes) {
    return {FaultKind::illegal_address, "illegal address: " + what + ", a null pointer"};
  }
  if (in_reserved_range(address) || found) {
    std::string place = place_of(address, bytes);
    if (place.empty()) place = "before every allocation of " + name_;
    return {FaultKind::illegal_address, "illegal address: " + what + ", " + place};
  }
  std::vector<const DeviceMemory*> known;
  {
    const std::shared_lock lock(mutex_);
    known = known_;
  }
  for (const DeviceMemory* other : known) {
    if (!other->in_reserved_range(address)) continue;
    return {FaultKind::illegal_address, "illegal address: " + what + ", memory of " +
                                            other->name() + " reached from " + name_ +
                                            " without peer access, or in no allocation"};
  }
  return {FaultKind::illegal_address, "illegal address: " + what + ", no address of " + name_ +
                                          " (pageable host memory, or not a pointer)"};
}

void DeviceMemory::set_reachable(const DeviceMemory* other, bool reachable) {
  const std::unique_lock lock(mutex_);
  std::erase(reachable_, other);
  if (reachable) reachable_.push_back(other);
}

void DeviceMemory::set_known(const DeviceMemory* other) {
  const std::unique_lock lock(mutex_);
  known_.push_back(other);
}

std::vector<std::shared_ptr<Allocation>> DeviceMemory::live() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<Allocation>> result;
  for (const auto& [begin, allocation] : by_begin_) {
    if (!allocation->freed) result.push_back(allocation);
  }
  return result;
}

std::uint64_t copy_bytes(std::byte* to, std::uint8_t* to_shadow, const std::byte* from,
                         const std::uint8_t* from_shadow, std::uint64_t bytes) {
  std::memmove(to, from, bytes);
  if (!from_shadow) {
    if (to_shadow) std::memset(to_shadow, 1, bytes);
    return 0;
  }
  if (to_shadow) std::memmove(to_shadow, from_shadow, bytes);
  std::uint64_t missing = 0;
  const std::uint8_t* shadow = to_shadow ? to_shadow : from_shadow;
  for (std::uint64_t i = 0; i < bytes;) {
    const void* hole = std::memchr(shadow + i, 0, bytes - i);
    if (!hole) break;
    i = static_cast<const std::uint8_t*>(hole) - shadow;
    for (; i < bytes && shadow[i] == 0; ++i, ++missing) to[i] = std::byte{kPoison};
  }
  return missing;
}

}  // namespace emulator
