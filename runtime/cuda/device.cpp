// Start reading at CudaDevice; what it hands out is in memory.h, module.h, stream.h, event.h.
#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/cuda/stream.h"
#include "runtime/staging.h"

namespace riffle::runtime {
namespace cuda {
namespace {

std::shared_ptr<Context> make_context(const CudaOptions& options) {
  std::string library = options.library_path;
  if (library.empty() && options.emulated) library = find_emulator();
  std::shared_ptr<const Driver> driver = Driver::load(library);
  if (options.context)
    return std::make_shared<Context>(std::move(driver),
                                     static_cast<ContextHandle>(options.context));
  if (options.compute_stream || options.communication_stream)
    throw UsageError(
        {.what = "streams were passed in without their context", .hint = "CudaOptions::context"});
  return std::make_shared<Context>(std::move(driver), options.device_index);
}

int attribute(const Context& context, DeviceAttribute which) {
  int value = 0;
  CUDA_CALL(context, DeviceGetAttribute, &value, which, context.device());
  return value;
}

CudaFacts read_facts(const Context& context, const CudaOptions& options) {
  CudaFacts facts;
  std::array<char, 256> name{};
  CUDA_CALL(context, DeviceGetName, name.data(), static_cast<int>(name.size() - 1),
            context.device());
  facts.name = name.data();
  facts.index = options.context ? context.device() : options.device_index;
  facts.sm = attribute(context, kComputeCapabilityMajor) * 10 +
             attribute(context, kComputeCapabilityMinor);
  facts.driver_version = context.driver().version();
  facts.multiprocessors = attribute(context, kMultiprocessorCount);
  facts.shared_bytes = attribute(context, kMaxSharedBytesPerBlockOptin);
  std::size_t total = 0;
  CUDA_CALL(context, DeviceTotalMem, &total, context.device());
  facts.total_bytes = static_cast<std::int64_t>(total);
  facts.emulated = options.emulated;
  facts.library = context.driver().path();
  return facts;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const DeviceOptions& options, const CudaOptions& cuda)
      : options_(cuda), shared_(std::make_shared<Shared>()) {
    shared_->context = make_context(cuda);
    facts_ = read_facts(*shared_->context, cuda);
    gpu_ = {.name = facts_.name,
            .sm = facts_.sm,
            .driver_version = facts_.driver_version,
            .memory_bytes = facts_.total_bytes};
    shared_->memory = std::make_shared<Memory>(shared_->context, cuda.release_threshold < 0
                                                                     ? kDefaultReleaseThreshold
                                                                     : cuda.release_threshold);
    shared_->account = std::make_shared<cpu::MemoryAccount>(options.memory_limit);
    shared_->nvtx = Nvtx::load();
    const DriverApi& api = shared_->context->api();
    shared_->graphs = cuda.graphs && api.EventRecordWithFlags && api.StreamBeginCapture &&
                      api.StreamEndCapture && api.GraphInstantiateWithFlags && api.GraphLaunch &&
                      api.GraphExecDestroy && api.GraphDestroy;
  }

  const GpuInfo* gpu() const noexcept override { return &gpu_; }
  std::string_view name() const noexcept override {
    return options_.emulated ? "cuda-emulated" : "cuda";
  }
  std::string closed() const override {
    const auto error = shared_->context->lost();
    return error ? error->what() : std::string();
  }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes, std::string_view purpose) override {
    shared_->account->take(bytes, purpose);
    DevicePointer pointer = 0;
    try {
      pointer = shared_->memory->allocate(bytes, purpose);
      return std::make_unique<CudaBuffer>(shared_->memory, shared_->account, pointer, bytes);
    } catch (...) {
      if (pointer) shared_->memory->free(pointer);
      shared_->account->give(bytes);
      throw;
    }
  }
  std::unique_ptr<Stream> create_stream(const StreamInfo& info, StreamId id) override {
    void* given = nullptr;
    if (info.driven_by_waiter)
      given = options_.compute_stream;
    else if (info.priority > 0)
      given = options_.communication_stream;
    return std::make_unique<CudaStream>(shared_, static_cast<StreamHandle>(given), info, id);
  }
  std::unique_ptr<Event> create_event() override {
    return std::make_unique<CudaEvent>(shared_->context);
  }
  std::unique_ptr<Module> load(ModuleImage image) override {
    if (!image.device && std::ranges::all_of(image.kernels, [](const KernelEntry& kernel) {
          return kernel.function || kernel.host_function;
        }))
      return make_staged_module(std::move(image));
    return std::make_unique<CudaModule>(
        std::make_shared<LoadedModule>(shared_->context, std::move(image)));
  }
  std::int64_t allocated_bytes() const noexcept override { return shared_->account->allocated(); }
  std::int64_t peak_bytes() const noexcept override { return shared_->account->peak(); }
  void set_trace(Trace* trace) noexcept override;
  Trace* trace() const noexcept override { return shared_->trace; }

  const CudaFacts& facts() const noexcept { return facts_; }
  const Shared& shared() const noexcept { return *shared_; }

 private:
  const CudaOptions options_;
  const std::shared_ptr<Shared> shared_;
  CudaFacts facts_;
  GpuInfo gpu_;
};

void CudaDevice::set_trace(Trace* trace) noexcept {
  shared_->trace = nullptr;
  shared_->trace_failure = nullptr;
  if (trace) try {
      const Context& context = *shared_->context;
      const Bind bind(context);
      shared_->place_base();
    } catch (...) {
      shared_->trace_failure = std::current_exception();
    }
  shared_->trace = trace;
}

const CudaDevice& of(const Device& device) { return static_cast<const CudaDevice&>(device); }

}  // namespace
}  // namespace cuda

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options, const CudaOptions& cuda) {
  return std::make_unique<cuda::CudaDevice>(options, cuda);
}

const CudaFacts& cuda_facts(const Device& device) noexcept { return cuda::of(device).facts(); }
CudaCounts cuda_counts(const Device& device) noexcept {
  const cuda::Shared& shared = cuda::of(device).shared();
  return {shared.graphs_captured, shared.graphs_launched};
}
void* cuda_context(const Device& device) noexcept {
  return cuda::of(device).shared().context->handle();
}
void cuda_with_context(const Device& device, const std::function<void()>& call) {
  const cuda::Bind bind(*cuda::of(device).shared().context);
  call();
}
double cuda_emulated_speed(const Device& device) noexcept {
  const auto* cuda = dynamic_cast<const cuda::CudaDevice*>(&device);
  return cuda ? cuda->shared().context->driver().emulated_speed() : 0;
}

}  // namespace riffle::runtime
