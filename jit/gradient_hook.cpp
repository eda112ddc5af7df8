#include "jit/gradient_hook.h"

#include <utility>

#include "jit/hook_stream.h"

namespace riffle::jit {

HookSpec all_reduce_hook(std::shared_ptr<runtime::Communicator> communicator, std::string pattern,
                         runtime::ReduceOp op) {
  HookSpec hook;
  hook.pattern = std::move(pattern);
  hook.description =
      "all_reduce " + std::string(name_of(op)) + " " + std::string(communicator->name());
  hook.is_stream_hook = true;
  hook.writes_gradient = true;
  hook.function = [communicator = std::move(communicator), op](const GradientView& gradient) {
    // Executables give their hooks no other kind.
    auto& stream = static_cast<HookStreamOn&>(*gradient.stream);
    communicator->all_reduce(stream.stream(), gradient.address, gradient.type.elements(),
                             gradient.type.dtype, op, stream.command());
  };
  return hook;
}

}  // namespace riffle::jit
