#include <filesystem>

#include "runtime/collectives/nccl/communicator.h"
#include "runtime/cuda/device.h"
#include "support/env.h"

namespace riffle::runtime {

NcclDevice nccl_device(Device& device) {
  if (!device.gpu())
    throw UsageError({.what = "NCCL needs a CUDA device",
                      .where = std::string(device.name()),
                      .hint = "device cuda or cuda-emulated"});
  NcclDevice access;
  access.device = &device;
  const CudaFacts& facts = cuda_facts(device);
  // NCCL of the hardware cannot work on the emulator's pointers.
  if (facts.emulated && !environment("RIFFLE_NCCL"))
    access.library = (std::filesystem::path(facts.library).parent_path() / "libnccl.so.2").string();
  access.with_context = [&device](const std::function<void()>& call) {
    cuda_with_context(device, call);
  };
  return access;
}

}  // namespace riffle::runtime
