// The stream hook of data parallelism: a gradient becomes its average over the ranks, in place, on
// the communication stream, while earlier partitions' backward still computes.
#pragma once

#include <memory>

#include "runtime/collectives/communicator.h"
#include "runtime/executor.h"

namespace riffle::runtime {

/// For schedules (jit/gradient_hook.h has it for sessions): operand 0 of the command, elements of
/// `dtype`, reduced with `op`. The hook keeps the communicator alive.
HookFunction all_reduce_hook(std::shared_ptr<Communicator> communicator, DType dtype,
                             ReduceOp op = ReduceOp::average);

}  // namespace riffle::runtime
