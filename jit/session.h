// Session and Executable: what the driver and the public API stand on.
//
//   Session     device, compiler and caches; options
//   Executable  a graph, its split, its modules and schedules per shape (specialisations), its
//               parameters, optimizer state and hooks
//
// Not thread-safe: one thread at a time per Executable, except `cancel`. Two sessions do not meet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/autodiff.h"
#include "ir/split.h"
#include "jit/compile_partition.h"
#include "jit/optimizer.h"
#include "jit/schedule_builder.h"
#include "jit/specialisation.h"
#include "runtime/device.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace riffle::jit {

/// A dense row-major tensor on the host, owning its bytes.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;
};

struct SessionOptions {
  std::string device = "cpu";     ///< "cpu", "null"
  int threads = 0;                ///< 0: the machine's cores
  std::int64_t memory_limit = 0;  ///< bytes of device memory; 0: none
  std::string cache_directory;    ///< empty: no disk cache
  bool fuse = true;
};

struct GradientView {
  std::string_view parameter;  ///< name; the partition's name for partition hooks
  TensorType type;
  std::span<std::byte> bytes;         ///< the gradient in its bucket; empty for partition hooks
  std::int32_t partition = 0;         ///< whose backward completed it
  std::int64_t step = 0;              ///< counted from 0
  runtime::Stream* stream = nullptr;  ///< stream hooks only
};

struct HookSpec {
  std::string pattern = "*";  ///< glob over parameter (or partition) names
  std::string description;    ///< "print", "norm", "delay 2 ms": for lists
  HookPoint point = HookPoint::post_accumulate;
  bool is_stream_hook = false;
  bool writes_gradient = false;  ///< declared; consumers then wait for the hook
  bool opaque = false;           ///< touches what it does not declare: a barrier, counted
  /// pre_* hooks only: the partition does not wait for it (a printing hook, say).
  bool observer = false;
  std::function<void(const GradientView&)> function;
};
using HookId = std::int64_t;

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;
  double milliseconds = 0;
  std::vector<std::string> notes;  ///< "recompiled: …", "NaN in input x", fallbacks
};

struct MemoryReport {
  std::int64_t arena_bytes = 0;        ///< planned peak of temporaries
  std::int64_t lower_bound_bytes = 0;  ///< liveness: most bytes alive at once
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, input_bytes = 0,
               output_bytes = 0;
  std::int64_t residual_bytes = 0;
  std::int64_t device_allocated = 0, device_peak = 0;
};

/// Counted fallbacks (DESIGN §5.7): name → count. Never silent: the driver prints them.
using Fallbacks = std::map<std::string, std::int64_t>;

/// RIFFLE_CACHE_DIR, else $XDG_CACHE_HOME/riffle, else ~/.cache/riffle, else empty.
std::string default_cache_directory();

class Executable;

class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Throws GraphError, CompileError. `training` false: forward only, no optimizer.
  std::unique_ptr<Executable> create(ir::Graph graph, std::unique_ptr<ir::SplitPolicy> policy);
  runtime::Device& device() noexcept;
  Compiler& compiler() noexcept;
  const SessionOptions& options() const noexcept;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

class Executable {
 public:
  ~Executable();

  // What it is. Valid from creation.
  const ir::Graph& graph() const;  ///< as loaded
  const ir::PartitionedGraph& partitioned() const;
  const ir::DifferentiatedGraph& differentiated() const;

  // Compiling: creation only splits and differentiates; compile() is also done on first use.
  CompileReport compile();  ///< training specialisation at the graph's shapes
  bool compiled() const noexcept;
  const CompiledGraph& forward_module(std::size_t partition);
  const CompiledGraph* backward_module(std::size_t partition);  ///< null: nothing to do
  std::shared_ptr<const runtime::Schedule> schedule();          ///< of the last used specialisation
  void set_backend(std::size_t partition, Backend backend);
  Backend backend(std::size_t partition) const;
  std::size_t specialisations() const noexcept;
  void set_hooks_at(HooksAt at);
  HooksAt hooks_at() const noexcept;

  // Tensors. Names: inputs, parameters, outputs, "grad/<param>", "param/<param>", "loss".
  /// Fills parameters by their use (linear and matmul: uniform ±1/√fan_in; layer_norm 1 and 0;
  /// embedding: normal), and inputs with standard normals (integers: 0), from a counter-based
  /// generator: equal seeds give equal bytes on every machine.
  void init(std::uint64_t seed);
  /// Inputs may come with other leading sizes (a last short batch): that is another specialisation.
  /// Throws UsageError for unknown names, GraphError for types that do not fit.
  void set(std::string_view name, HostTensor tensor);
  HostTensor get(std::string_view name);
  bool has(std::string_view name);
  std::vector<std::string> names();  ///< all that get() knows now

  // Hooks; kept over steps and specialisations. Adding or removing recompiles nothing.
  HookId add_hook(HookSpec hook);
  bool remove_hook(HookId id);
  void remove_all_hooks();
  std::vector<std::pair<HookId, HookSpec>> hooks() const;
  std::vector<std::string> matching_parameters(std::string_view pattern) const;

  // Running.
  void set_optimizer(OptimizerSpec optimizer);  ///< resets its state
  const OptimizerSpec& optimizer() const noexcept;
  void set_learning_rate(double lr);
  StepResult step();       ///< forward, backward, hooks, optimizer
  StepResult evaluate();   ///< forward only: compiled with training=false
  void cancel() noexcept;  ///< from any thread or a signal handler
  std::int64_t steps_done() const noexcept;

  // Looking.
  void set_tracing(bool on);
  const std::vector<runtime::Span>& spans() const;  ///< of the steps since tracing was turned on
  /// Schedules that the spans' commands belong to stay alive with the Executable.
  runtime::Overlap overlap() const;
  MemoryReport memory();
  const Fallbacks& fallbacks() const noexcept;

  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace riffle::jit
