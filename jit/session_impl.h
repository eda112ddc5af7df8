// What Session and Executable hold; seen only by their own files.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "jit/session.h"
#include "runtime/executor.h"

/// Classes nested in exported ones are exported with them, unless they say otherwise.
#define RIFFLE_INTERNAL __attribute__((visibility("hidden")))

namespace riffle::jit {

/// The parameters, gradients and optimizer state of an Executable, on the device.
class State {
 public:
  State(runtime::Device& device, const ir::Graph& graph, const ir::DifferentiatedGraph& gradients,
        const OptimizerSpec& optimizer);
  /// Keeps parameters and gradients; new, zeroed optimizer state.
  void reset_optimizer(const OptimizerSpec& optimizer);

  const StateLayout& layout() const noexcept { return layout_; }
  runtime::Buffer* buffer(BufferIndex index) const noexcept { return buffers_[index].get(); }
  /// Zeros on the null device.
  std::vector<std::byte> read(const Region& region) const;
  void write(const Region& region, std::span<const std::byte> bytes);
  void write_scalars(const OptimizerSpec& optimizer, std::int64_t step);

 private:
  void allocate(BufferIndex index);
  void allocate_optimizer_state();
  void fill_with_zeros(BufferIndex index);
  runtime::Device& device_;
  const ir::Graph& graph_;
  const ir::DifferentiatedGraph& gradients_;
  StateLayout layout_;
  std::unique_ptr<runtime::Buffer> buffers_[kBufferCount];
};

}  // namespace riffle::jit

namespace riffle {

struct RIFFLE_INTERNAL Session::Impl : std::enable_shared_from_this<Session::Impl> {
  explicit Impl(SessionOptions options);
  Impl(SessionOptions options, std::shared_ptr<jit::Compiler> compiler);
  SessionOptions options;
  std::unique_ptr<runtime::Device> device;
  std::shared_ptr<jit::Compiler> compiler_owner;
  jit::Compiler& compiler;
  const std::atomic<bool>* cancel_flag = nullptr;  ///< see jit::cancel_while
};

struct RIFFLE_INTERNAL Executable::Impl {
  Impl(std::shared_ptr<Session::Impl> session, Graph graph,
       std::unique_ptr<ir::SplitPolicy> policy);

  // Specialisations (executable_run.cpp).
  jit::Specialisation& specialisation(bool training, std::vector<std::string>& notes,
                                      CompileReport* report);
  void refresh(jit::Specialisation& spec);
  void upload_inputs(jit::Specialisation& spec);
  StepResult run(bool training);
  void forget_oldest_spans();
  /// What reports are about: the last trained specialisation, else the last used; compiles when
  /// there is none.
  jit::Specialisation& reported();
  double read_loss(const jit::Specialisation& spec) const;
  std::vector<jit::HookSlot> hook_slots(const jit::Specialisation& spec,
                                        std::vector<runtime::HookFunction>& functions) const;

  // Tensors (executable_tensors.cpp).
  const ir::Graph& whole() const { return partitioned.whole; }
  /// Throws what set_tensor would throw; changes nothing.
  ir::ValueId check_tensor(std::string_view name, const HostTensor& tensor) const;
  void set_tensor(std::string_view name, HostTensor tensor);
  HostTensor get_tensor(std::string_view name) const;
  std::vector<std::string> tensor_names() const;
  void initialise(std::uint64_t seed);

  // Destroyed in reverse order: what uses the device before the session that owns it.
  std::shared_ptr<Session::Impl> session;
  Graph graph;
  std::unique_ptr<ir::SplitPolicy> policy;
  ir::PartitionedGraph partitioned;
  ir::DifferentiatedGraph differentiated;
  std::exception_ptr not_trainable;  ///< why `differentiated` is forward only
  OptimizerSpec optimizer;
  std::unique_ptr<jit::State> state;
  std::vector<jit::Backend> backends;

  std::map<std::string, HostTensor, std::less<>> inputs;
  std::map<std::string, std::int64_t, std::less<>> input_versions;
  std::set<std::string> inputs_with_nan;
  std::int64_t next_version = 0;
  std::vector<bool> parameter_set;  ///< by ValueId

  struct Key {
    bool training;
    std::vector<TensorType> types;
    bool operator==(const Key&) const = default;
  };
  std::vector<std::pair<Key, std::unique_ptr<jit::Specialisation>>> specialisations;
  std::int64_t use_clock = 0;
  jit::Specialisation* last = nullptr;  ///< last run, or compiled
  bool last_ran = false;
  std::map<bool, std::vector<TensorType>> last_types;  ///< by training: for "recompiled"

  std::vector<std::pair<HookId, HookSpec>> hooks;
  HookId next_hook = 1;
  HooksAt hooks_at = HooksAt::gradient;
  std::int64_t configuration = 0;  ///< raised when schedules must be rebuilt
  Fallbacks fallbacks;

  std::unique_ptr<runtime::Executor> executor;
  std::atomic<bool> cancelled{false};
  std::int64_t steps = 0;            ///< completed training steps
  std::int64_t evaluations = 0;      ///< completed runs of evaluate()
  std::int64_t optimizer_steps = 0;  ///< since the optimizer's state was reset

  bool tracing = false;
  runtime::Trace trace;
  std::vector<runtime::Span> spans;
  std::vector<jit::BuiltSchedule> traced_schedules;  ///< that spans point into; the last run last
};

}  // namespace riffle
