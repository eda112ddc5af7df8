// PTX loaded into a context: the functions of one partition's kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/context.h"
#include "runtime/device.h"

namespace riffle::runtime::cuda {

/// Shared by the Module and by what streams remember of it; unloads the module when the last lets
/// go.
class LoadedModule {
 public:
  struct Kernel {
    std::string name;
    DeviceLaunch launch = nullptr;
    std::int64_t operand_count = 0;
    std::int64_t scratch_bytes = 0;
    std::vector<void*> functions;  ///< a grid each
  };

  /// Throws DeviceError, with the log of the driver's compiler where it refuses the PTX.
  LoadedModule(std::shared_ptr<const Context> context, ModuleImage image);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const std::string& name() const noexcept { return image_.name; }
  const std::vector<Kernel>& kernels() const noexcept { return kernels_; }
  std::int64_t scratch_bytes() const noexcept { return scratch_bytes_; }  ///< its largest kernel's
  /// Never used twice in a process: addresses are.
  std::uint64_t id() const noexcept { return id_; }

 private:
  void load(const DeviceModule& device);
  void find_functions(const DeviceModule& device);

  const std::shared_ptr<const Context> context_;
  const ModuleImage image_;
  const std::uint64_t id_;
  ModuleHandle module_ = nullptr;
  std::vector<Kernel> kernels_;
  std::int64_t scratch_bytes_ = 0;
};

class CudaModule final : public Module {
 public:
  explicit CudaModule(std::shared_ptr<const LoadedModule> loaded) : loaded_(std::move(loaded)) {}
  const std::string& name() const noexcept override { return loaded_->name(); }
  std::size_t kernel_count() const noexcept override { return loaded_->kernels().size(); }
  const std::shared_ptr<const LoadedModule>& loaded() const noexcept { return loaded_; }

 private:
  const std::shared_ptr<const LoadedModule> loaded_;
};

}  // namespace riffle::runtime::cuda
