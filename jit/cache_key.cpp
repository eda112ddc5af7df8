// What decides the code, and the name that it gives an entry on disk.
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <xxhash.h>

#include <cstring>

#include "jit/compile_partition.h"
#include "support/env.h"

namespace riffle::jit {
namespace {

/// Finds the loaded file that holds `inside` and names its content.
struct Identify {
  const void* inside;
  std::string identity;
};

std::string hex(const void* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i)
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return text;
}

/// The GNU build ID among the notes in [begin, begin + size), or nothing.
std::string build_id(const char* begin, std::size_t size) {
  for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, begin + at, sizeof note);
    const std::size_t name = at + sizeof note;
    const std::size_t description = name + ((note.n_namesz + 3) & ~std::size_t{3});
    const std::size_t next = description + ((note.n_descsz + 3) & ~std::size_t{3});
    if (next > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(begin + name, "GNU", 4) == 0)
      return hex(begin + description, note.n_descsz);
    at = next;
  }
  return {};
}

const void* begin_of(const dl_phdr_info& info, const ElfW(Phdr) & segment) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader speaks of addresses as integers
  return reinterpret_cast<const void*>(info.dlpi_addr + segment.p_vaddr);
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& wanted = *static_cast<Identify*>(data);
  const auto address = reinterpret_cast<ElfW(Addr)>(wanted.inside);
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + segment.p_vaddr;
    mine = mine ||
           (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz);
  }
  if (!mine) return 0;
  for (int i = 0; i < info->dlpi_phnum && wanted.identity.empty(); ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      wanted.identity =
          build_id(static_cast<const char*>(begin_of(*info, segment)), segment.p_memsz);
  }
  // Linked without --build-id: the code itself, some milliseconds once.
  if (wanted.identity.empty()) {
    XXH64_hash_t hash = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X))
        hash = XXH3_64bits_withSeed(begin_of(*info, segment), segment.p_filesz, hash);
    }
    wanted.identity = fmt::format("{:016x}", hash);
  }
  return 1;
}

std::string identify() {
  Identify wanted{reinterpret_cast<const void*>(&identify), {}};
  dl_iterate_phdr(visit, &wanted);
  return wanted.identity;
}

}  // namespace

const std::string& generator_identity() {
  // Leaked on purpose: no destructor runs at exit.
  static const std::string* const identity = new std::string(identify());
  return *identity;
}

std::string default_cache_directory() {
  if (auto directory = environment("RIFFLE_CACHE_DIR")) return *directory;
  // The XDG specification has relative paths ignored.
  if (auto base = environment("XDG_CACHE_HOME"); base && base->front() == '/')
    return *base + "/riffle";
  if (auto home = environment("HOME")) return *home + "/.cache/riffle";
  return {};
}

std::string CacheKey::file_name() const {
  // Lengths keep fields apart: "a" + "bc" is not "ab" + "c".
  const std::string text =
      fmt::format("{:016x}{:016x}|{}|{}:{}|{}:{}|{}:{}", ir.high, ir.low, kernel_abi, target.size(),
                  target, options.size(), options, llvm_version.size(), llvm_version);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace riffle::jit
