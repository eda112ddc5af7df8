// One graph of primitives → one runtime module, by way of the caches. Start reading at
// Compiler::compile.
//
// What is shared between equal graphs is the linked code; each caller gets a program of its own,
// with its own graph's names (building it costs some microseconds a kernel).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "jit/compile_partition.h"
#include "riffle/error.h"

namespace riffle::jit {
namespace {

/// Linked code of one key; dies with its last user.
struct Code {
  std::vector<codegen::HostEntry> entries;
  Linker::Linked linked;
  bool from_disk = false;
};
using CodePointer = std::shared_ptr<const Code>;

std::string spell(const codegen::FusionOptions& fusion) {
  return fmt::format("fuse={} generator={}", fusion.fuse ? 1 : 0, generator_identity());
}

}  // namespace

struct Compiler::Impl {
  explicit Impl(CompilerOptions given)
      : options(std::move(given)),
        host(codegen::to_string(options.target)),
        gpu(options.gpu ? codegen::to_string(*options.gpu) + " launched by " + host : ""),
        spelled_options(spell(options.fusion)),
        disk(options.cache_directory) {}

  /// A key's place in the memory cache: linked code that may still live, or a compile under way.
  struct Place {
    std::weak_ptr<const Code> code;
    std::shared_future<CodePointer> pending;
  };

  /// Device code is a GPU's where there is one, host code otherwise.
  bool is_gpu(CodeTarget code_target) const {
    return options.gpu && code_target == CodeTarget::device;
  }
  CodePointer find_or_make(const CacheKey& key, const codegen::KernelProgram& program,
                           const std::string& name, bool on_gpu, bool& from_memory);
  CodePointer make(const CacheKey& key, const codegen::KernelProgram& program,
                   const std::string& name, bool on_gpu);
  /// Puts `code` in front of the recent ones; returns what fell out, to be destroyed without the
  /// mutex. With the mutex held.
  [[nodiscard]] CodePointer remember(const CodePointer& code);
  void forget_dead();  // with the mutex held

  CompilerOptions options;
  std::string host, gpu, spelled_options;
  Linker linker;
  DiskCache disk;

  std::mutex mutex;
  std::unordered_map<std::string, Place> places;  ///< by CacheKey::file_name
  std::deque<CodePointer> recent;                 ///< newest last
  std::atomic<std::int64_t> memory_hits{0}, compiles{0};
};

CodePointer Compiler::Impl::remember(const CodePointer& code) {
  const auto at = std::find(recent.begin(), recent.end(), code);
  if (at != recent.end()) recent.erase(at);
  recent.push_back(code);
  CodePointer pushed_out;
  if (recent.size() > options.kept_modules) {
    pushed_out = std::move(recent.front());
    recent.pop_front();
  }
  return pushed_out;
}

void Compiler::Impl::forget_dead() {
  if (places.size() < 4 * std::max<std::size_t>(options.kept_modules, 64)) return;
  std::erase_if(places, [](const auto& entry) {
    return entry.second.code.expired() && !entry.second.pending.valid();
  });
}

CodePointer Compiler::Impl::make(const CacheKey& key, const codegen::KernelProgram& program,
                                 const std::string& name, bool on_gpu) {
  const CodeTarget kind = on_gpu ? CodeTarget::device : CodeTarget::host;
  auto code = std::make_shared<Code>();
  codegen::HostObject object;
  if (disk.load(key, object)) {
    // The checksum holds, so this is what some riffle wrote; that it fits is looked at all the
    // same.
    if (object.entries.size() == program.kernels.size()) try {
        code->linked = linker.link(object, name, kind);
        code->entries = std::move(object.entries);
        code->from_disk = true;
        return code;
      } catch (const CompileError&) {
      }
    disk.drop(key);
  }
  // Symbols carry the key, not the name: equal partitions share the code whatever they are called.
  const std::string prefix = fmt::format("k{}_", key.file_name());
  object = on_gpu ? codegen::compile_nvptx(program, *options.gpu, options.target, prefix)
                  : codegen::compile_host(program, options.target, prefix);
  code->linked = linker.link(object, name, kind);
  disk.store(key, object);
  code->entries = std::move(object.entries);
  ++compiles;
  return code;
}

CodePointer Compiler::Impl::find_or_make(const CacheKey& key, const codegen::KernelProgram& program,
                                         const std::string& name, bool on_gpu, bool& from_memory) {
  const std::string place_name = key.file_name();
  std::promise<CodePointer> promise;
  std::shared_future<CodePointer> pending;
  CodePointer pushed_out;  // dies after the mutex is released
  {
    const std::lock_guard lock(mutex);
    Place& place = places[place_name];
    from_memory = true;
    if (CodePointer code = place.code.lock()) {
      ++memory_hits;
      pushed_out = remember(code);
      return code;
    }
    if (place.pending.valid()) {
      pending = place.pending;
    } else {
      place.pending = promise.get_future().share();
      from_memory = false;
    }
  }
  if (from_memory) {
    CodePointer code = pending.get();  // rethrows the compiling thread's error
    ++memory_hits;
    return code;
  }
  try {
    CodePointer code = make(key, program, name, on_gpu);
    {
      const std::lock_guard lock(mutex);
      Place& place = places[place_name];
      place.code = code;
      place.pending = {};
      pushed_out = remember(code);
      forget_dead();
    }
    promise.set_value(code);
    return code;
  } catch (...) {
    {
      const std::lock_guard lock(mutex);
      places.erase(place_name);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

Compiler::Compiler(CompilerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Compiler::~Compiler() = default;

std::shared_ptr<const CompiledGraph> Compiler::compile(const ir::Graph& primitives,
                                                       const std::string& name, CodeTarget target) {
  const bool on_gpu = impl_->is_gpu(target);
  const auto begin = std::chrono::steady_clock::now();
  auto compiled = std::make_shared<CompiledGraph>();
  compiled->key = {.ir = ir::structural_hash(primitives),
                   .target = on_gpu ? impl_->gpu : impl_->host,
                   .options = impl_->spelled_options,
                   .llvm_version = codegen::llvm_version()};
  compiled->program = codegen::build_kernels(primitives, impl_->options.fusion);
  codegen::verify(compiled->program);
  const CodePointer code =
      impl_->find_or_make(compiled->key, compiled->program, name, on_gpu, compiled->from_memory);
  compiled->from_disk = code->from_disk && !compiled->from_memory;

  compiled->image.name = name;
  for (std::size_t i = 0; i < code->entries.size(); ++i)
    compiled->image.kernels.push_back({.name = compiled->program.kernels[i].name,
                                       .geometry = code->entries[i].geometry,
                                       .function = on_gpu ? nullptr : code->linked.functions[i],
                                       .host_function = {}});
  compiled->image.device = code->linked.device;
  // Users hold the Code, not only its pages: the memory cache finds it for as long as it is in use.
  compiled->image.owner = std::const_pointer_cast<Code>(code);
  compiled->compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return compiled;
}

std::vector<std::shared_ptr<const CompiledGraph>> Compiler::compile_all(
    const std::vector<const ir::Graph*>& graphs, const std::vector<std::string>& names,
    const std::vector<CodeTarget>& targets) {
  std::vector<std::shared_ptr<const CompiledGraph>> results(graphs.size());
  std::vector<std::exception_ptr> failures(graphs.size());
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i; (i = next++) < graphs.size();) try {
        results[i] =
            compile(*graphs[i], names[i], targets.empty() ? CodeTarget::device : targets[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
  };
  const std::size_t cores = impl_->options.threads > 0
                                ? static_cast<std::size_t>(impl_->options.threads)
                                : std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < std::min(cores, graphs.size()); ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are, and this one, do all of it.
    }
    work();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return results;
}

CacheStatistics Compiler::statistics() const {
  CacheStatistics statistics = impl_->disk.statistics();
  statistics.memory_hits = impl_->memory_hits;
  statistics.compiles = impl_->compiles;
  return statistics;
}

const CompilerOptions& Compiler::options() const noexcept { return impl_->options; }
std::size_t Compiler::live_modules() const noexcept { return impl_->linker.live_modules(); }

void Compiler::clear_memory() {
  std::deque<CodePointer> dropped;  // dies after the mutex is released
  const std::lock_guard lock(impl_->mutex);
  dropped.swap(impl_->recent);
}

}  // namespace riffle::jit
