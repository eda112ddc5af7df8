// Which CPU to generate code for, and what we allow it to be called.
//
// LLVM only warns about an unknown CPU or feature and then compiles for something else, so both are
// checked against the tables here first. A CPU that LLVM knows but the tables do not is mapped to
// the baseline (x86-64-v4, x86-64-v3, generic) that its features allow; `RIFFLE_CPU` names a lesser
// one.
#include "codegen/host/target.h"

#include <fmt/format.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/TargetParser/X86TargetParser.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "riffle/error.h"
#include "support/env.h"

namespace riffle::codegen {
namespace {

struct KnownCpu {
  std::string_view name;
  int vector_bytes;
};

// x86 CPUs with AVX2 and FMA at least: without FMA an explicit fused multiply-add becomes a call of
// libm, and objects may not have undefined symbols.
constexpr std::array kX86Cpus = {
    KnownCpu{"x86-64-v3", 32},      KnownCpu{"x86-64-v4", 64},      KnownCpu{"haswell", 32},
    KnownCpu{"broadwell", 32},      KnownCpu{"skylake", 32},        KnownCpu{"skylake-avx512", 64},
    KnownCpu{"cascadelake", 64},    KnownCpu{"cooperlake", 64},     KnownCpu{"cannonlake", 64},
    KnownCpu{"icelake-client", 64}, KnownCpu{"icelake-server", 64}, KnownCpu{"rocketlake", 64},
    KnownCpu{"tigerlake", 64},      KnownCpu{"sapphirerapids", 64}, KnownCpu{"emeraldrapids", 64},
    KnownCpu{"graniterapids", 64},  KnownCpu{"alderlake", 32},      KnownCpu{"raptorlake", 32},
    KnownCpu{"meteorlake", 32},     KnownCpu{"arrowlake", 32},      KnownCpu{"lunarlake", 32},
    KnownCpu{"gracemont", 32},      KnownCpu{"sierraforest", 32},   KnownCpu{"znver1", 32},
    KnownCpu{"znver2", 32},         KnownCpu{"znver3", 32},         KnownCpu{"znver4", 64},
};
constexpr std::array kArmCpus = {
    KnownCpu{"generic", 16},     KnownCpu{"cortex-a72", 16},  KnownCpu{"cortex-a76", 16},
    KnownCpu{"neoverse-n1", 16}, KnownCpu{"neoverse-n2", 16}, KnownCpu{"neoverse-v1", 16},
    KnownCpu{"neoverse-v2", 16}, KnownCpu{"apple-m1", 16},    KnownCpu{"apple-m2", 16},
};

// The features that change the code we emit; others are left to the CPU's name.
constexpr std::array<std::string_view, 24> kX86Features = {
    "avx",        "avx2",       "fma",        "f16c",       "bmi",         "bmi2",
    "lzcnt",      "popcnt",     "sse4.1",     "sse4.2",     "avx512f",     "avx512bw",
    "avx512cd",   "avx512dq",   "avx512vl",   "avx512vbmi", "avx512vbmi2", "avx512vnni",
    "avx512bf16", "avx512fp16", "avx512ifma", "avxvnni",    "gfni",        "vpclmulqdq"};
constexpr std::array<std::string_view, 4> kArmFeatures = {"neon", "fp-armv8", "fullfp16", "bf16"};

constexpr std::array<std::string_view, 3> kX86Needs = {"avx2", "fma", "f16c"};
constexpr std::array<std::string_view, 5> kAvx512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                                     "avx512vl"};

bool is_x86(const std::string& triple) {
  return llvm::Triple(triple).getArch() == llvm::Triple::x86_64;
}
bool is_arm(const std::string& triple) {
  return llvm::Triple(triple).getArch() == llvm::Triple::aarch64;
}

const KnownCpu* find_cpu(const std::string& triple, std::string_view name) {
  auto search = [&](const auto& table) -> const KnownCpu* {
    auto found = std::ranges::find(table, name, &KnownCpu::name);
    return found == table.end() ? nullptr : &*found;
  };
  if (is_x86(triple)) return search(kX86Cpus);
  return is_arm(triple) ? search(kArmCpus) : nullptr;
}

std::span<const std::string_view> known_features(const std::string& triple) {
  if (is_x86(triple)) return kX86Features;
  return kArmFeatures;
}

std::string names_of_cpus(const std::string& triple) {
  std::string names;
  auto append = [&](const auto& table) {
    for (const KnownCpu& cpu : table)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", cpu.name);
  };
  if (is_x86(triple))
    append(kX86Cpus);
  else
    append(kArmCpus);
  return names;
}

/// The first of the features that change the code we emit which the CPU has and the host lacks.
std::string missing_here(const std::string& cpu, const llvm::StringMap<bool>& host) {
  llvm::SmallVector<llvm::StringRef> implied;
  llvm::X86::getFeaturesForCPU(cpu, implied);
  for (std::string_view feature : kX86Features)
    if (llvm::is_contained(implied, llvm::StringRef(feature)) &&
        !host.lookup(llvm::StringRef(feature)))
      return std::string(feature);
  return {};
}

std::int64_t cache_bytes(int name, std::int64_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

HostTarget detect_host() {
  HostTarget target;
  target.triple = llvm::sys::getProcessTriple();
  const llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  auto has = [&](std::string_view feature) {
    return host.lookup(llvm::StringRef(feature.data(), feature.size()));
  };

  target.cpu = llvm::sys::getHostCPUName().str();
  if (!find_cpu(target.triple, target.cpu)) {
    target.cpu = "generic";
    if (is_x86(target.triple))
      target.cpu = std::ranges::all_of(kAvx512, has) ? "x86-64-v4" : "x86-64-v3";
  }
  for (std::string_view feature : known_features(target.triple)) {
    if (!target.features.empty()) target.features += ',';
    target.features += fmt::format("{}{}", has(feature) ? '+' : '-', feature);
  }
  // A CPU chosen by name has that CPU's features, not this machine's.
  if (const auto chosen = environment("RIFFLE_CPU")) {
    const KnownCpu* cpu = find_cpu(target.triple, *chosen);
    const std::string missing = cpu && is_x86(target.triple) ? missing_here(*chosen, host) : "";
    if (!missing.empty())
      throw CompileError(
          {.what = fmt::format("RIFFLE_CPU={} has {}, this machine has not", *chosen, missing),
           .where = "host target",
           .hint = "name a lesser CPU, or unset it"});
    target.cpu = *chosen;
    target.features.clear();
  }
  if (const KnownCpu* cpu = find_cpu(target.triple, target.cpu))
    target.vector_bytes = cpu->vector_bytes;
  if (is_x86(target.triple) && !target.features.empty())
    target.vector_bytes = std::ranges::all_of(kAvx512, has) ? 64 : 32;
#ifdef _SC_LEVEL1_DCACHE_SIZE
  target.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
#endif
#if defined(__SANITIZE_ADDRESS__)
  target.sanitizer = "address";
#elif defined(__SANITIZE_THREAD__)
  target.sanitizer = "thread";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  target.sanitizer = "address";
#elif __has_feature(thread_sanitizer)
  target.sanitizer = "thread";
#endif
#endif
  // ThreadSanitizer sees accesses of up to 16 bytes and overlooks wider ones.
  if (target.sanitizer == "thread") target.vector_bytes = 16;
  return target;
}

std::string to_string(const HostTarget& target) {
  return fmt::format("{} {} {} v{} l1={} l2={} O{} {}", target.triple, target.cpu, target.features,
                     target.vector_bytes, target.l1_bytes, target.l2_bytes, target.opt_level,
                     target.sanitizer.empty() ? "-" : target.sanitizer);
}

void check_target(const HostTarget& target) {
  auto reject = [&](const std::string& what, const std::string& hint) {
    throw CompileError({.what = what, .where = "host target", .hint = hint});
  };
  if (!is_x86(target.triple) && !is_arm(target.triple))
    reject(fmt::format("no code generator for '{}'", target.triple),
           "run on x86-64 or AArch64, or use the reference back end");
  if (!find_cpu(target.triple, target.cpu))
    reject(fmt::format("unknown CPU '{}'", target.cpu),
           "one of " + names_of_cpus(target.triple) + " (environment variable RIFFLE_CPU)");

  std::string_view rest = target.features;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view feature = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
      reject(fmt::format("CPU feature '{}' has no sign", feature), "write +avx2 or -avx512f");
    if (std::ranges::find(known_features(target.triple), feature.substr(1)) ==
        known_features(target.triple).end())
      reject(fmt::format("unknown CPU feature '{}'", feature.substr(1)),
             "leave it out: the CPU's name implies the others");
    if (feature[0] == '-' && is_x86(target.triple) &&
        std::ranges::find(kX86Needs, feature.substr(1)) != kX86Needs.end())
      reject(fmt::format("this machine lacks {}", feature.substr(1)),
             "run on a CPU of 2013 or later, or use the reference back end");
  }
  if (target.vector_bytes != 16 && target.vector_bytes != 32 && target.vector_bytes != 64)
    reject(fmt::format("vectors of {} bytes", target.vector_bytes), "16, 32 or 64");
  if (target.opt_level < 0 || target.opt_level > 3)
    reject(fmt::format("optimisation level {}", target.opt_level), "0 to 3");
  if (!target.sanitizer.empty() && target.sanitizer != "address" && target.sanitizer != "thread")
    reject(fmt::format("unknown sanitizer '{}'", target.sanitizer), "address or thread");
}

CodeTarget code_target(const HostTarget& target) {
  check_target(target);
  return {.triple = target.triple,
          .cpu = target.cpu,
          .features = target.features,
          .opt_level = target.opt_level,
          .vector_bytes = target.vector_bytes,
          .sanitizer = target.sanitizer};
}

bool has_avx512(const HostTarget& target) {
  return is_x86(target.triple) && target.vector_bytes == 64;
}

}  // namespace riffle::codegen
