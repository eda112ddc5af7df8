// Host code on a device whose memory the host cannot address: operands are brought to the host, the
// code runs there, and what it wrote goes back. For the reference back end, partitions compiled for
// the CPU, and host hooks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/schedule.h"

namespace riffle::runtime {

/// Calls `work` with host addresses of the operands, each 64-byte aligned; `buffers` are by
/// BufferId. Blocks the calling thread; nothing enqueued may touch the operands meanwhile.
void with_operands_on_host(std::span<const Operand> operands, std::span<Buffer* const> buffers,
                           const std::function<void(std::span<void* const>)>& work);

/// A module of host code for such a device: its kernels are Module::host_kernel.
std::unique_ptr<Module> make_staged_module(ModuleImage image);

}  // namespace riffle::runtime
