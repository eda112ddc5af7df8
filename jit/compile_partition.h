// One graph of primitives → one runtime module, by way of the caches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/host/host_codegen.h"
#include "codegen/kernel_spec.h"
#include "codegen/nvptx/nvptx_codegen.h"
#include "ir/graph.h"
#include "ir/hash.h"
#include "runtime/device.h"

namespace riffle::jit {

/// The machine that a graph's code is for: the session's device, or the host whatever the device.
enum class CodeTarget : std::uint8_t { device, host };

/// What decides the code. Everything that changes code is in here and nothing else.
struct CacheKey {
  ir::Hash128 ir;
  std::string target;   ///< codegen::to_string of all targets that the code is for
  std::string options;  ///< fusion, and which build of riffle generates (generator_identity)
  std::string llvm_version;
  std::uint32_t kernel_abi = runtime::kKernelAbiVersion;

  std::string file_name() const;  ///< 32 hex digits of a hash over all fields
  bool operator==(const CacheKey&) const = default;
};

/// Names the code generator: the build ID of the file that holds this library, so that a rebuilt
/// riffle never takes an older one's code. Constant in a process.
const std::string& generator_identity();

/// RIFFLE_CACHE_DIR, else $XDG_CACHE_HOME/riffle, else $HOME/.cache/riffle, else empty: no disk
/// cache.
std::string default_cache_directory();

struct CacheStatistics {
  std::int64_t memory_hits = 0, disk_hits = 0, compiles = 0;
  std::int64_t disk_writes = 0, disk_damaged = 0, disk_unwritable = 0;
};

/// Objects on disk: `<directory>/<key>.o`: magic, key, entries, object, xxh128 of all that. Thread-
/// and process-safe. Published by rename; a damaged entry is removed; write faults only disable
/// writing. Size-capped, oldest first. Never throws.
class DiskCache {
 public:
  explicit DiskCache(std::string directory, std::int64_t capacity_bytes = std::int64_t{1} << 30);
  bool load(const CacheKey& key, codegen::HostObject& object);
  void store(const CacheKey& key, const codegen::HostObject& object);
  /// Removes the entry and counts it as damaged: its content loaded but would not link.
  void drop(const CacheKey& key);
  const std::string& directory() const noexcept { return directory_; }
  CacheStatistics statistics() const;

 private:
  std::string directory_;
  std::int64_t capacity_;
  struct State;
  std::shared_ptr<State> state_;
};

/// ORC: one JITDylib and ResourceTracker per linked object. Thread-safe. Code lives until the
/// returned owner and all copies are gone; then its tracker is removed and its memory returned.
class Linker {
 public:
  Linker();
  ~Linker();
  struct Linked {
    std::vector<runtime::HostKernel> functions;     ///< one an entry; of host code only
    const runtime::DeviceModule* device = nullptr;  ///< of a GPU's object
    std::shared_ptr<void> owner;
  };
  /// `target` says what the object holds: kernels to call, or a DeviceModule.
  Linked link(const codegen::HostObject& object, const std::string& name,
              CodeTarget target = CodeTarget::host);
  std::size_t live_modules() const noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A compiled graph: program (what slots mean) and linked code. Immutable, shared.
struct CompiledGraph {
  codegen::KernelProgram program;
  runtime::ModuleImage image;  ///< image.kernels[i] is program.kernels[i]
  CacheKey key;
  bool from_memory = false, from_disk = false;
  double compile_ms = 0;
};

struct CompilerOptions {
  codegen::HostTarget target;
  std::optional<codegen::NvptxTarget> gpu;  ///< what CodeTarget::device is; none: the host
  codegen::FusionOptions fusion;
  std::string cache_directory;  ///< empty: no disk cache
  int threads = 0;              ///< for compile_all; 0: the cores
  /// So many modules stay linked although nobody uses them: a script that compiles the same graph
  /// again and again finds it.
  std::size_t kept_modules = 64;
};

/// Memory cache (weak: code is dropped when its last owner goes, except for a bounded list of
/// recent ones) over DiskCache over codegen. Thread-safe; equal graphs compile once, even when
/// asked for at the same time.
class Compiler {
 public:
  explicit Compiler(CompilerOptions options);
  ~Compiler();
  std::shared_ptr<const CompiledGraph> compile(const ir::Graph& primitives, const std::string& name,
                                               CodeTarget target = CodeTarget::device);
  /// In parallel; the result is in the order of `graphs`. No `targets`: all for the device. The
  /// first failure is thrown after all ended.
  std::vector<std::shared_ptr<const CompiledGraph>> compile_all(
      const std::vector<const ir::Graph*>& graphs, const std::vector<std::string>& names,
      const std::vector<CodeTarget>& targets = {});
  CacheStatistics statistics() const;
  const CompilerOptions& options() const noexcept;
  std::size_t live_modules() const noexcept;
  void clear_memory();  ///< forgets the bounded list of recent ones

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace riffle::jit
