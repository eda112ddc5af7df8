#include "runtime/cuda/nvtx.h"

#include <dlfcn.h>

namespace riffle::runtime::cuda {

std::shared_ptr<const Nvtx> Nvtx::load() {
  auto nvtx = std::make_shared<Nvtx>();
  void* library = ::dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nvtx;
  const auto push = reinterpret_cast<int (*)(const char*)>(::dlsym(library, "nvtxRangePushA"));
  const auto pop = reinterpret_cast<int (*)()>(::dlsym(library, "nvtxRangePop"));
  if (push && pop) {  // and stays loaded: a profiler hooks into it
    nvtx->push_ = push;
    nvtx->pop_ = pop;
  }
  return nvtx;
}

}  // namespace riffle::runtime::cuda
