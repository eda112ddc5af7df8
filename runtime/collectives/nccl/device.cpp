// What NCCL needs of a Device: its library and its context.
#include <filesystem>

#include "runtime/collectives/nccl/communicator.h"
#include "runtime/cuda/device.h"

namespace riffle::runtime {

NcclDevice nccl_device(Device& device) {
  if (!device.gpu())
    throw UsageError({.what = "NCCL needs a CUDA device",
                      .where = std::string(device.name()),
                      .hint = "device cuda or cuda-emulated"});
  NcclDevice access;
  access.device = &device;
  const CudaFacts& facts = cuda_facts(device);
  // Whatever RIFFLE_NCCL says: NCCL of the hardware cannot work on the emulator's pointers.
  if (facts.emulated)
    access.library = (std::filesystem::path(facts.library).parent_path() / "libnccl.so.2").string();
  access.with_context = [&device](const std::function<void()>& call) {
    cuda_with_context(device, call);
  };
  return access;
}

}  // namespace riffle::runtime
