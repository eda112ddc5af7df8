// A Schedule under construction. Tensors are placed late: while commands are appended an operand
// names a Tensor (a fixed region or an arena temporary), and only when all lives are known does the
// memory plan give addresses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/schedule_builder.h"

namespace riffle::jit {

using TensorId = std::int32_t;
constexpr TensorId kNoTensor = -1;

struct Tensor {
  std::int64_t bytes = 0;
  runtime::BufferId buffer = kArena;
  std::int64_t offset = 0;  // fixed tensors; of the arena: from the plan
  std::int32_t first = -1, last = -1;
  TensorId shares = kNoTensor;  // lies in the same bytes as this other arena tensor
};

struct Use {
  TensorId tensor;
  runtime::Access access;
};

/// Commands and tensors of a schedule under construction.
class Assembly {
 public:
  std::shared_ptr<runtime::Schedule> schedule = std::make_shared<runtime::Schedule>();
  std::vector<std::shared_ptr<const CompiledGraph>> modules;

  TensorId temporary(std::int64_t bytes) {
    tensors_.push_back({.bytes = bytes});
    return static_cast<TensorId>(tensors_.size()) - 1;
  }
  TensorId fixed(const Region& region) {
    tensors_.push_back(
        {.bytes = region.type.bytes(), .buffer = region.buffer, .offset = region.offset});
    return static_cast<TensorId>(tensors_.size()) - 1;
  }

  void set_place(runtime::Phase phase, std::int32_t partition) {
    phase_ = phase;
    partition_ = partition;
  }
  std::int32_t append(decltype(runtime::Command::what) what, runtime::StreamId stream,
                      std::vector<Use> uses, std::string label) {
    const auto index = static_cast<std::int32_t>(schedule->commands.size());
    runtime::Command command{.what = what,
                             .stream = stream,
                             .label = std::move(label),
                             .phase = phase_,
                             .partition = partition_};
    schedule->commands.push_back(std::move(command));
    for (const Use& use : uses) {
      Tensor& tensor = tensors_[use.tensor];
      if (tensor.first < 0) tensor.first = index;
      tensor.last = index;
    }
    uses_.push_back(std::move(uses));
    return index;
  }
  runtime::EventId record(runtime::StreamId stream, std::string label) {
    const runtime::EventId event = schedule->events++;
    append(runtime::Record{event}, stream, {}, std::move(label));
    return event;
  }
  void wait(runtime::StreamId stream, runtime::EventId event, std::string label) {
    append(runtime::Wait{event}, stream, {}, std::move(label));
  }
  void copy(TensorId from, TensorId to, std::string label) {
    append(runtime::Copy{}, kCompute, {{from, runtime::Access::read}, {to, runtime::Access::write}},
           std::move(label));
  }
  bool same_place(TensorId a, TensorId b) const {
    return a == b || (tensors_[a].buffer != kArena && tensors_[a].buffer == tensors_[b].buffer &&
                      tensors_[a].offset == tensors_[b].offset);
  }

  /// Lets a kernel's result take over the bytes of an operand that dies there.
  void reuse_in_place(std::int32_t index, TensorId written, TensorId read) {
    in_place_.push_back({index, written, read});
  }

  BuiltSchedule finish(const ScheduleOptions& options);

 private:
  struct InPlace {
    std::int32_t command;
    TensorId written, read;
  };
  TensorId root(TensorId id) const {
    while (tensors_[id].shares != kNoTensor) id = tensors_[id].shares;
    return id;
  }
  void merge_in_place();
  MemoryPlan place_temporaries();
  void append_frees();

  std::vector<Tensor> tensors_;
  std::vector<std::vector<Use>> uses_;  // per command
  std::vector<InPlace> in_place_;
  runtime::Phase phase_ = runtime::Phase::setup;
  std::int32_t partition_ = -1;
};

}  // namespace riffle::jit
