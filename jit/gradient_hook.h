// The stream hook of data parallelism, for sessions: every matching parameter's gradient becomes
// its average over the ranks, in place, on the communication stream, while the backward of earlier
// layers still computes.
//
//   model.add_hook(riffle::jit::all_reduce_hook(communicator));
#pragma once

#include <memory>
#include <string>

#include "riffle/session.h"
#include "runtime/collectives/communicator.h"

namespace riffle::jit {

/// One collective a gradient, in the order in which gradients become ready, which is the same on
/// all ranks: the ranks must have the same graph, split and hooks. The hook keeps the communicator
/// alive, which must be of the session's device.
HookSpec all_reduce_hook(std::shared_ptr<runtime::Communicator> communicator,
                         std::string pattern = "*",
                         runtime::ReduceOp op = runtime::ReduceOp::average);

}  // namespace riffle::jit
