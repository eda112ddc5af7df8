// Long steps on the emulated GPU are announced: it is there to be right, not fast.
#pragma once

#include "driver/context.h"

namespace riffle::driver {

/// On `cuda-emulated`, when `steps` steps will take more than some seconds, says how long, as a
/// note. Compiles if nothing is compiled yet.
void announce_emulated_steps(Context& context, std::int64_t steps);

}  // namespace riffle::driver
