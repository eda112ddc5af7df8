// Session and Executable: compile a graph's partitions, bind tensors, hook gradients, step.
//
//   riffle::Session session;
//   auto model = session.compile(graph, {.split = "nodes 3"});
//   model.init(0);
//   model.add_hook({.pattern = "*.weight", .function = [](const riffle::GradientView& g) { … }});
//   model.set_optimizer({.name = "adamw", .lr = 1e-3});
//   double loss = model.step().loss;
//
// Everything hangs off a Session; two sessions in one process do not meet. An Executable is used by
// one thread at a time, except for `cancel`. Calls block until their work is done unless they say
// otherwise. Errors are riffle::Error; after one, session and executable stay usable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "riffle/graph.h"

namespace riffle {

/// A dense row-major tensor on the host, owning its bytes.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  /// From values of the dtype's C++ type: float, double, int64_t, int32_t, bool or uint8_t;
  /// uint16_t holds the bits of bf16 and f16.
  template <typename T>
  static HostTensor from(TensorType type, std::span<const T> values) {
    HostTensor tensor{std::move(type), std::vector<std::byte>(values.size_bytes())};
    if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
    return tensor;  // `set` checks that the number of bytes fits the type
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// For device "cuda" and "cuda-emulated". Handles are the driver API's; they must outlive the
/// session.
struct CudaSessionOptions {
  /// CUcontext to work in, on its device; null: the device's primary context.
  void* context = nullptr;
  /// CUstreams of that context: for kernels, and for hooks and collectives. Null: the session's
  /// own.
  void* compute_stream = nullptr;
  void* communication_stream = nullptr;
  bool graphs = true;  ///< what a partition launches becomes one CUDA graph; same bits
  /// Multiply f32 matrices on tensor cores (sm_80 and newer): faster, operands rounded to tf32's 11
  /// significant bits.
  bool tf32 = false;
};

struct SessionOptions {
  /// "cpu"; "cuda", "cuda:1"; "cuda-emulated", a GPU that this machine's CPU imitates, slowly;
  /// "null" records and runs nothing.
  std::string device = "cpu";
  int threads = 0;                ///< that compute, the caller's included; 0: the machine's cores
  std::int64_t memory_limit = 0;  ///< bytes of device memory; 0: none
  /// Directory of the disk cache; empty: none. "default": RIFFLE_CACHE_DIR, else
  /// $XDG_CACHE_HOME/riffle, else ~/.cache/riffle.
  std::string cache_directory = "default";
  bool fuse = true;       ///< false: a kernel a primitive; same bits, for finding bugs
  int kept_modules = 64;  ///< compiled modules that stay in memory although nothing uses them
  /// For finding bugs, at some cost: temporaries are filled with NaN once they are dead, and a hook
  /// that writes what it does not declare fails the step by its name.
  bool debug_memory = false;
  CudaSessionOptions cuda{};
};

struct CompileOptions {
  /// "none", "nodes N", "params N", "bytes CAP [--first BYTES]", "markers", "at K…".
  std::string split = "none";
};

enum class HooksAt : std::uint8_t {
  gradient,   ///< as soon as a gradient's last kernel is done
  partition,  ///< after its partition's whole backward, as the 2022 experiment did
};

/// Where in a step a hook runs.
enum class HookPoint : std::uint8_t {
  post_accumulate,  ///< the parameter's gradient is complete (the default)
  pre_forward,
  post_forward,
  pre_backward,
  post_backward,  ///< around each partition
};
RIFFLE_API std::string_view name_of(HookPoint point) noexcept;

/// A stream hook enqueues its work here, in order; nothing blocks the thread that enqueues.
class HookStream {
 public:
  virtual ~HookStream() = default;
  /// Runs `work` on the communication stream's thread. What it throws fails the step.
  virtual void call(std::function<void()> work) = 0;
  /// On CUDA: calls `work` with the CUstream, the device's context current, to enqueue on (kernels,
  /// NCCL, a wait for another stream's event). Usually at once; behind a `call`, later on the
  /// stream's thread. Throws DeviceError on other devices.
  virtual void enqueue(std::function<void(void* stream)> work) = 0;
};

/// What a hook is given. Valid during the call; for stream hooks, but for `stream`, until their
/// work has run.
struct GradientView {
  std::string_view parameter;  ///< its name; for partition hooks the partition's name
  TensorType type;
  /// The gradient, in its bucket; empty for partition hooks. On CUDA a host hook sees a copy, which
  /// goes back if the hook declares to write; a stream hook sees none, only `address`.
  std::span<std::byte> bytes;
  std::int32_t partition = 0;  ///< whose backward completed it
  std::int64_t step = 0;       ///< counted from 0
  /// Stream hooks only. Good during the hook's own call, as where to enqueue; work that runs on it
  /// must not keep it.
  HookStream* stream = nullptr;
  void* address = nullptr;  ///< stream hooks only: the gradient on the device
};

/// Host hooks run on the hook thread while later partitions' backward is already running; stream
/// hooks are called on the scheduling thread, before the gradient is computed, to enqueue work.
struct HookSpec {
  std::string pattern = "*";  ///< glob over parameter (or partition) names
  std::string description;    ///< for lists: "print", "norm"
  HookPoint point = HookPoint::post_accumulate;
  bool is_stream_hook = false;
  bool writes_gradient = false;  ///< declared: it changes the gradient
  bool opaque = false;           ///< touches what it does not declare: a barrier, counted
  /// pre_* hooks only: the partition does not wait for it (a printing hook, say).
  bool observer = false;
  std::function<void(const GradientView&)> function;
};
using HookId = std::int64_t;

/// Names and defaults are PyTorch's.
struct OptimizerSpec {
  std::string name = "sgd";  ///< "sgd", "adam", "adamw", "none"
  double lr = 0.01, momentum = 0, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool nesterov = false;
};

struct CompileReport {
  std::size_t modules = 0;  ///< forward and backward modules of the partitions, as compiled code
  std::size_t compiled = 0, from_memory = 0, from_disk = 0;  ///< of those: where the code is from
  std::size_t optimizer_compiled = 0;                        ///< beside them, for the optimizer
  std::size_t kernels = 0;
  double milliseconds = 0;
};

struct StepResult {
  std::int64_t step = 0;  ///< counted from 0
  double loss = 0;
  double milliseconds = 0;
  std::vector<std::string> notes;  ///< "recompiled: …", "NaN in input x"
};

struct MemoryReport {            // bytes
  std::int64_t arena = 0;        ///< planned peak of temporaries
  std::int64_t lower_bound = 0;  ///< most bytes of temporaries alive at once
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, inputs = 0, outputs = 0;
  std::int64_t residuals = 0;  ///< of the arena: saved by forward for backward
  std::int64_t device_allocated = 0, device_peak = 0;
};

/// How much of the hooks' and collectives' time lay under compute, over the traced steps.
struct OverlapReport {
  double wall_ms = 0, compute_ms = 0, hook_ms = 0, hidden_ms = 0, exposed_ms = 0;
};

/// What was not compiled, overlapped or split as asked: name → count. Never silent.
using Fallbacks = std::map<std::string, std::int64_t>;

/// A graph, its partitions' modules (per input shapes), its parameters, optimizer state and hooks.
class RIFFLE_API Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  const Graph& graph() const noexcept;
  std::size_t partition_count() const noexcept;
  /// Compiles for the graph's own shapes; done on first use otherwise.
  CompileReport compile();

  /// Fills parameters by their use and inputs with standard normals (integers: 0) from a
  /// counter-based generator: equal seeds give equal bytes on every machine.
  void init(std::uint64_t seed);
  /// Sets an input or a parameter. An input's leading size may differ from the graph's (a last
  /// short batch): that is another specialisation. Copies. Throws UsageError, GraphError.
  void set(std::string_view name, HostTensor tensor);
  /// An output, "loss", a parameter or "param/<name>", "grad/<name>" after a step. Copies.
  HostTensor get(std::string_view name) const;
  bool has(std::string_view name) const;
  std::vector<std::string> names() const;  ///< what get() knows now: loss, outputs, grad/…, param/…

  /// Hooks may come and go between steps; nothing is recompiled. Hooks on one gradient run in the
  /// order in which they were added.
  HookId add_hook(HookSpec hook);
  bool remove_hook(HookId id);
  void remove_all_hooks();
  std::vector<std::pair<HookId, HookSpec>> hooks() const;
  std::vector<std::string> matching_parameters(std::string_view pattern) const;
  void set_hooks_at(HooksAt at);
  HooksAt hooks_at() const noexcept;

  void set_optimizer(OptimizerSpec optimizer);  ///< with fresh state
  const OptimizerSpec& optimizer() const noexcept;
  void set_learning_rate(double lr);  ///< keeps the state, recompiles nothing

  /// Forward, backward with hooks, optimizer. When it throws, the parameters are as before unless
  /// the optimizer itself failed.
  StepResult step();
  /// Forward only, compiled with training=false.
  StepResult evaluate();
  /// Makes a running step throw Cancelled, unless its optimizer has begun: that is finished first.
  /// Any thread; from a signal handler only while nothing moves or destroys the Executable.
  void cancel() noexcept;
  std::int64_t steps_done() const noexcept;

  void set_tracing(bool on);  ///< turning it on forgets earlier spans
  OverlapReport overlap() const;
  std::string chrome_trace() const;  ///< trace events of the traced steps, as JSON
  std::string timeline(int width = 100, bool unicode = true) const;  ///< of the last traced step
  MemoryReport memory();
  const Fallbacks& fallbacks() const noexcept;

  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  Impl& impl() const noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// A device, a compiler and its caches. Executables keep what they need of it alive.
class RIFFLE_API Session {
 public:
  explicit Session(SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Splits and differentiates; code is generated on first use or by Executable::compile.
  Executable compile(const Graph& graph, const CompileOptions& options = {});
  const SessionOptions& options() const noexcept;

  struct Impl;
  explicit Session(std::shared_ptr<Impl> impl);
  Impl& impl() const noexcept { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace riffle
