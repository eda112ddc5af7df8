#include "driver/emulation.h"

#include <fmt/format.h>

#include "runtime/cuda/device.h"

namespace riffle::driver {
namespace {

/// Thread-instructions of one run of a module, roughly: a product is an fma and half a load from
/// shared memory, and four bytes of memory cost a load or store and its address.
double instructions(const jit::CompiledGraph& code) {
  double count = 0;
  for (const codegen::KernelSpec& kernel : code.program.kernels)
    count += 0.75 * kernel.flops + 0.75 * kernel.bytes;
  return count;
}

}  // namespace

void announce_emulated_steps(Context& context, std::int64_t steps) {
  constexpr double kWorthSaying = 5;
  const double speed = runtime::cuda_emulated_speed(jit::device(context.session()));
  if (speed <= 0) return;
  Executable& executable = context.executable();
  double count = 0;
  for (std::size_t p = 0; p < executable.partition_count(); ++p) {
    count += instructions(jit::forward_module(executable, p));
    if (const jit::CompiledGraph* backward = jit::backward_module(executable, p))
      count += instructions(*backward);
  }
  const double seconds = static_cast<double>(steps) * count / speed;
  if (seconds > kWorthSaying)
    context.output().note(fmt::format(
        "the GPU is emulated: {} will take about {:.0f} s (estimated from {:.1f} G instructions at "
        "{:.0f} M/s)",
        steps == 1 ? "this step" : fmt::format("{} steps", steps), seconds, count * 1e-9,
        speed * 1e-6));
}

}  // namespace riffle::driver
