// Partitions + hooks + optimizer → Schedule: one step as data, with its memory plan.
//
// Kernels run on the compute stream in program order. A gradient's event is recorded right after
// the last kernel that writes it (or at the end of its partition, see HooksAt), its hooks wait for
// that event on their own stream, and the optimizer runs when every hook has succeeded: a step
// whose hook throws leaves the parameters as they were.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/compile_partition.h"
#include "jit/layout.h"
#include "jit/memory_plan.h"
#include "runtime/schedule.h"

namespace riffle::jit {

/// One hook on one subject; its index is Hook::slot.
struct HookSlot {
  std::string label;  ///< the parameter's or partition's name
  HookPoint point = HookPoint::post_accumulate;
  ir::ValueId parameter = ir::kNoValue;
  std::int32_t partition = -1;
  bool is_stream_hook = false, writes_gradient = false, opaque = false, observer = false;
};

enum StreamIndex : runtime::StreamId { kCompute, kHooks, kCommunication, kStreamCount };

/// What a step is made of; null modules do nothing. `backward` and `optimizer` are empty for eval.
struct StepProgram {
  const ir::PartitionedGraph* graph = nullptr;
  const ir::DifferentiatedGraph* gradients = nullptr;
  const StateLayout* state = nullptr;
  const InputOutputLayout* io = nullptr;
  std::vector<std::shared_ptr<const CompiledGraph>> forward, backward;
  std::map<ir::ValueId, std::shared_ptr<const CompiledGraph>> optimizer;  ///< by parameter
};

struct BuiltSchedule {
  std::shared_ptr<const runtime::Schedule> schedule;
  std::vector<std::shared_ptr<const CompiledGraph>> modules;  ///< by Launch::module
  MemoryPlan plan;
};

struct ScheduleOptions {
  HooksAt hooks_at = HooksAt::gradient;
  bool free_commands = false;  ///< Free after the last use: lets a debug device poison the bytes
};

/// Deterministic. Throws nothing on programs that differentiate() and compile() made.
BuiltSchedule build_schedule(const StepProgram& program, const std::vector<HookSlot>& hooks,
                             const ScheduleOptions& options);

}  // namespace riffle::jit
