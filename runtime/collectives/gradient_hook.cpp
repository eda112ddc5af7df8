#include "runtime/collectives/gradient_hook.h"

#include <utility>

namespace riffle::runtime {

HookFunction all_reduce_hook(std::shared_ptr<Communicator> communicator, DType dtype, ReduceOp op) {
  return {.is_stream_hook = true,
          .function = [communicator = std::move(communicator), dtype, op](const HookCall& call) {
            const ByteRange& range = call.command->operands[0].range;
            communicator->all_reduce(*call.stream, call.address,
                                     (range.end - range.begin) / size_of(dtype), dtype, op,
                                     call.command);
          }};
}

}  // namespace riffle::runtime
