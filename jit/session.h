// What tools inside riffle (the driver, reports, tests) see of a Session and an Executable beyond
// the public API: graphs, modules, schedules, spans. The classes are in include/riffle/session.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ir/autodiff.h"
#include "ir/split.h"
#include "jit/compile_partition.h"
#include "jit/specialisation.h"
#include "riffle/session.h"
#include "runtime/device.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace riffle::jit {

runtime::Device& device(const Session& session) noexcept;
Compiler& compiler(const Session& session) noexcept;
/// A session on a device of its own that shares `session`'s compiler and caches. Of `options` only
/// those of the device and of the executor count: no code depends on them.
Session beside(const Session& session, SessionOptions options);
/// Steps of the session's executables, now and later, and of sessions beside it are cancelled while
/// `flag` is set. It must outlive them; any thread and a signal handler may set it.
void cancel_while(Session& session, const std::atomic<bool>& flag) noexcept;
/// With any policy, also those that have no text.
Executable create(const Session& session, const Graph& graph,
                  std::unique_ptr<ir::SplitPolicy> policy);
/// Another Executable of the same session and graph under another policy, with the same inputs,
/// parameters and optimizer state, no hooks: what `compare` steps beside the original.
Executable clone(const Executable& executable, std::unique_ptr<ir::SplitPolicy> policy);
/// The same in another session. Where either device keeps no bytes, or an error closed the device
/// of `executable`, parameters and optimizer state stay behind (see has_values).
Executable clone(const Executable& executable, const Session& session,
                 std::unique_ptr<ir::SplitPolicy> policy);

/// Makes `to`, a clone of `from`, go on in its place: hooks with their ids and HooksAt, the number
/// of steps, the last gradients; where both have the same cuts, the partitions' back ends too.
/// Traced steps and the last step's outputs stay with `from`.
void continue_from(const Executable& from, Executable& to);
/// Every parameter has been given a value.
bool has_values(const Executable& executable);
/// False on a device that runs nothing.
bool keeps_values(const Executable& executable);
/// An error closed the device, and what was in its memory is gone.
bool lost_values(const Executable& executable);

const ir::PartitionedGraph& partitioned(const Executable& executable);
const ir::DifferentiatedGraph& differentiated(const Executable& executable);
/// Throws GraphError when the graph cannot be trained, saying why.
void require_trainable(const Executable& executable);

/// Throws what Executable::set would throw for it; changes nothing.
void check_tensor(const Executable& executable, std::string_view name, const HostTensor& tensor);

// Of the last trained specialisation, else the last used; compile first when there is none. Throw
// UsageError for a partition that does not exist.
const CompiledGraph& forward_module(Executable& executable, std::size_t partition);
const CompiledGraph* backward_module(Executable& executable, std::size_t partition);  ///< or null
std::shared_ptr<const runtime::Schedule> schedule(Executable& executable);
std::size_t specialisation_count(const Executable& executable) noexcept;

void set_backend(Executable& executable, std::size_t partition, Backend backend);
Backend backend(const Executable& executable, std::size_t partition);

/// Stops or goes on tracing without forgetting what was traced.
void pause_tracing(Executable& executable, bool paused);
/// The schedule that the span's step ran; throws UsageError for a span that is not of spans().
const runtime::Schedule& schedule_of(const Executable& executable, const runtime::Span& span);
/// What the span's launch ran; null for other commands.
const codegen::KernelSpec* kernel_of(const Executable& executable, const runtime::Span& span);
/// Spans of the traced steps; their commands live as long as the Executable and its tracing.
const std::vector<runtime::Span>& spans(const Executable& executable);

}  // namespace riffle::jit
