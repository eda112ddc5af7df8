// Functions and their launches: limits, parameters, occupancy.
#include <algorithm>
#include <cstring>

#include "emulator/driver/call.h"
#include "emulator/driver/graph.h"

namespace emulator {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kRegistersPerMultiprocessor = 65536;

std::string describe(const Dim3& size) {
  return "(" + std::to_string(size.x) + "," + std::to_string(size.y) + "," +
         std::to_string(size.z) + ")";
}

std::vector<std::byte> parameter_block(const Call& c, const ptx::KernelInfo& info,
                                       const LaunchRequest& request) {
  std::vector<std::byte> block(info.parameter_bytes);
  if (request.extra) {
    const std::byte* buffer = nullptr;
    std::size_t bytes = 0;
    for (void** at = request.extra; *at != abi::kLaunchParamEnd; at += 2) {
      if (at[0] == abi::kLaunchParamBufferPointer) {
        buffer = static_cast<const std::byte*>(at[1]);
      } else if (at[0] == abi::kLaunchParamBufferSize) {
        bytes = *static_cast<const std::size_t*>(at[1]);
      } else {
        c.misuse(abi::CUDA_ERROR_INVALID_VALUE, "an unknown entry in extra");
      }
    }
    if (!buffer || bytes != block.size()) {
      c.misuse(abi::CUDA_ERROR_INVALID_VALUE,
               "kernel " + info.name + " takes " + std::to_string(block.size()) +
                   " bytes of parameters, the buffer has " + std::to_string(bytes));
    }
    std::memcpy(block.data(), buffer, bytes);
    return block;
  }
  if (!info.parameters.empty()) c.require(request.parameters, "the parameters");
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    const ptx::Parameter& parameter = info.parameters[i];
    c.require(request.parameters[i], "a parameter");
    std::memcpy(block.data() + parameter.offset, request.parameters[i], parameter.bytes);
  }
  return block;
}

void check_shape(const Call& c, const ptx::KernelInfo& info, const LaunchRequest& request) {
  const Dim3 &grid = request.grid, &block = request.block;
  const auto invalid = [&](const std::string& why) {
    c.misuse(abi::CUDA_ERROR_INVALID_VALUE, "kernel " + info.name + ": " + why);
  };
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) invalid("a grid of " + describe(grid));
  if (block.x == 0 || block.y == 0 || block.z == 0) invalid("a block of " + describe(block));
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    invalid("a grid of " + describe(grid) + " is beyond (2147483647,65535,65535)");
  }
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > kMostThreads) {
    invalid("a block of " + describe(block) + " is beyond (1024,1024,64) or 1024 threads");
  }
  if (info.required_threads[0] != 0 &&
      (block.x != info.required_threads[0] || block.y != std::max(1u, info.required_threads[1]) ||
       block.z != std::max(1u, info.required_threads[2]))) {
    invalid("a block of " + describe(block) + " where .reqntid says otherwise");
  }
  if (threads > info.max_threads) {
    c.misuse(abi::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
             "kernel " + info.name + ": " + std::to_string(threads) +
                 " threads a block, .maxntid allows " + std::to_string(info.max_threads));
  }
}

}  // namespace

std::string kernel_name(const KernelWork& work) {
  return work.module->ptx.kernels[work.kernel].name;
}

KernelWork kernel_work(const Call& c, const LaunchRequest& request) {
  const auto function = c.function(request.function);
  const auto module = function->module.lock();
  const ptx::KernelInfo& info = module->ptx.kernels[function->kernel];
  check_shape(c, info, request);
  const auto most = static_cast<std::uint32_t>(std::max(0, function->max_dynamic_shared));
  if (request.dynamic_shared_bytes > most) {
    c.misuse(abi::CUDA_ERROR_INVALID_VALUE,
             "kernel " + info.name + ": " + std::to_string(request.dynamic_shared_bytes) +
                 " bytes of dynamic shared memory, " + std::to_string(most) +
                 " are allowed (more has to be asked for by cuFuncSetAttribute first)");
  }
  KernelWork work;
  work.module = module;
  work.kernel = function->kernel;
  work.function = request.function;
  work.grid = request.grid;
  work.block = request.block;
  work.dynamic_shared_bytes = request.dynamic_shared_bytes;
  work.parameters = parameter_block(c, info, request);
  return work;
}

namespace abi {
namespace {

void launch(Call& c, const LaunchRequest& request, CUstream handle) {
  const auto stream = c.stream(handle);
  KernelWork work = kernel_work(c, request);
  if (work.module->context != stream->context.lock()) {
    c.misuse(CUDA_ERROR_INVALID_HANDLE,
             "kernel " + kernel_name(work) + " and the stream are of different contexts");
  }
  enqueue(c, *stream, std::move(work), "");
}

}  // namespace

EMULATOR_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes, CUstream stream,
                                        void** parameters, void** extra) {
  return call("cuLaunchKernel", Needs::context, [&](Call& c) {
    launch(c,
           {function,
            {grid_x, grid_y, grid_z},
            {block_x, block_y, block_z},
            shared_bytes,
            parameters,
            extra},
           stream);
  });
}

EMULATOR_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                          void** parameters, void** extra) {
  return call("cuLaunchKernelEx", Needs::context, [&](Call& c) {
    c.require(config, "the configuration");
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const CUlaunchAttribute& attribute = config->attrs[i];
      switch (attribute.id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
          break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
          const auto& size = attribute.value.clusterDim;
          if (size.x <= 1 && size.y <= 1 && size.z <= 1) break;
          c.misuse(CUDA_ERROR_NOT_SUPPORTED, "clusters of more than one block are not emulated");
        }
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
          if (attribute.value.cooperative == 0) break;
          c.misuse(CUDA_ERROR_NOT_SUPPORTED, "cooperative launches are not emulated");
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
          if (attribute.value.programmaticStreamSerializationAllowed == 0) break;
          c.misuse(CUDA_ERROR_NOT_SUPPORTED, "programmatic dependent launches are not emulated");
        default:
          c.misuse(CUDA_ERROR_NOT_SUPPORTED,
                   "launch attribute " + std::to_string(attribute.id) + " is not emulated");
      }
    }
    launch(c,
           {function,
            {config->gridDimX, config->gridDimY, config->gridDimZ},
            {config->blockDimX, config->blockDimY, config->blockDimZ},
            config->sharedMemBytes,
            parameters,
            extra},
           config->hStream);
  });
}

EMULATOR_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                            CUfunction handle) {
  return call("cuFuncGetAttribute", Needs::context, [&](Call& c) {
    c.require(value, "the result's place");
    const auto function = c.function(handle);
    const auto module = function->module.lock();
    const ptx::KernelInfo& info = module->ptx.kernels[function->kernel];
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(std::min<std::uint32_t>(info.max_threads, kMostThreads));
        return;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(info.static_shared_bytes);
        return;
      case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(info.local_bytes);
        return;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(std::clamp<std::uint32_t>(info.registers, 16, 255));
        return;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = module->ptx.version_major * 10 + module->ptx.version_minor;
        return;
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = module->context->device->architecture.sm;
        return;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared;
        return;
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        return;
    }
    c.misuse(CUDA_ERROR_INVALID_VALUE, "function attribute " + std::to_string(attribute));
  });
}

EMULATOR_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                                            int value) {
  return call("cuFuncSetAttribute", Needs::context, [&](Call& c) {
    const auto function = c.function(handle);
    const auto module = function->module.lock();
    const ptx::KernelInfo& info = module->ptx.kernels[function->kernel];
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
      function->carveout = value;
      return;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
      c.misuse(CUDA_ERROR_INVALID_VALUE,
               "function attribute " + std::to_string(attribute) + " cannot be set");
    }
    const int most = module->context->device->architecture.shared_per_block_optin -
                     static_cast<int>(info.static_shared_bytes);
    if (value < 0 || value > most) {
      c.misuse(CUDA_ERROR_INVALID_VALUE, "kernel " + info.name + ": " + std::to_string(value) +
                                             " bytes of dynamic shared memory, this device has " +
                                             std::to_string(most) + " to give");
    }
    function->max_dynamic_shared = value;
  });
}

EMULATOR_EXPORT CUresult cuFuncLoad(CUfunction handle) {
  return call("cuFuncLoad", Needs::context, [&](Call& c) { c.function(handle); });
}

EMULATOR_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                                     int block_size,
                                                                     std::size_t dynamic_shared) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::context, [&](Call& c) {
    c.require(blocks, "the result's place");
    const auto function = c.function(handle);
    const auto module = function->module.lock();
    const ptx::KernelInfo& info = module->ptx.kernels[function->kernel];
    const Architecture& machine = module->context->device->architecture;
    if (block_size <= 0) c.misuse(CUDA_ERROR_INVALID_VALUE, "a block of no threads");
    if (block_size > static_cast<int>(std::min<std::uint32_t>(info.max_threads, kMostThreads)) ||
        dynamic_shared > static_cast<std::size_t>(std::max(0, function->max_dynamic_shared))) {
      *blocks = 0;
      return;
    }
    const int threads = (block_size + 31) / 32 * 32;
    // The system keeps 1 KiB of shared memory a block from sm_80 on.
    const int reserved = machine.sm >= 80 ? 1024 : 0;
    const auto shared =
        static_cast<int>(dynamic_shared) + static_cast<int>(info.static_shared_bytes) + reserved;
    const int registers =
        static_cast<int>(std::clamp<std::uint32_t>(info.registers, 16, 255)) * threads;
    *blocks =
        std::min({machine.threads_per_multiprocessor / threads, machine.blocks_per_multiprocessor,
                  shared == 0 ? machine.blocks_per_multiprocessor
                              : machine.shared_per_multiprocessor / shared,
                  std::max(1, kRegistersPerMultiprocessor / registers)});
  });
}

}  // namespace abi
}  // namespace emulator
