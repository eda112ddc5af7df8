#include "runtime/cuda/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

namespace riffle::runtime::cuda {
namespace {

constexpr std::size_t kLogBytes = 16 << 10;
constexpr std::uint32_t kSharedWithoutAsking = 48 << 10;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

std::string text_of(const std::array<char, kLogBytes>& log) {
  std::string text(log.data(), ::strnlen(log.data(), log.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

bool compiler_refused(Result code) {
  return code == kInvalidPtx || code == kInvalidImage || code == kNoBinaryForGpu ||
         code == kUnsupportedPtxVersion || code == kJitCompilerNotFound ||
         code == kJitCompilationDisabled;
}

}  // namespace

LoadedModule::LoadedModule(std::shared_ptr<const Context> context, ModuleImage image)
    : context_(std::move(context)), image_(std::move(image)), id_(next_id()) {
  if (!image_.device)
    throw DeviceError({.what = "the module has no code for CUDA",
                       .where = image_.name,
                       .hint = "compile for the device that runs it"});
  const Bind bind(*context_);
  load(*image_.device);
  try {
    find_functions(*image_.device);
  } catch (...) {
    context_->api().ModuleUnload(module_);
    throw;
  }
}

void LoadedModule::load(const DeviceModule& device) {
  std::array<char, kLogBytes> info{}, error{};
  // Sizes travel in the pointers' place.
  int options[] = {kJitInfoLogBuffer, kJitInfoLogBufferBytes, kJitErrorLogBuffer,
                   kJitErrorLogBufferBytes};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface wants it so
  void* const bytes = reinterpret_cast<void*>(kLogBytes - 1);
  void* values[] = {info.data(), bytes, error.data(), bytes};
  const Result code =
      context_->api().ModuleLoadDataEx(&module_, device.ptx, std::size(options), options, values);
  if (code == kSuccess) return;
  module_ = nullptr;
  if (!compiler_refused(code)) context_->raise(code, "cuModuleLoadDataEx", image_.name);
  const DeviceError plain = make_error(context_->api(), code, "cuModuleLoadDataEx", image_.name);
  std::string text = text_of(error);
  if (const std::string remarks = text_of(info); !remarks.empty())
    text += (text.empty() ? "" : "\n") + remarks;
  throw DeviceError(
      {.what = fmt::format("{} (PTX {}.{} for sm_{}, driver for CUDA {}){}", plain.message(),
                           device.ptx_version / 10, device.ptx_version % 10, device.sm,
                           version_text(context_->driver().version()),
                           text.empty() ? "" : fmt::format("; the driver's log: {}", text)),
       .where = image_.name,
       .hint = std::string(plain.hint()),
       .foreign = std::string(plain.foreign())});
}

void LoadedModule::find_functions(const DeviceModule& device) {
  for (std::int64_t k = 0; k < device.kernel_count; ++k) {
    const DeviceKernel& source = device.kernels[k];
    Kernel& kernel = kernels_.emplace_back();
    kernel.name = source.name;
    kernel.launch = source.launch;
    kernel.operand_count = source.operand_count;
    kernel.scratch_bytes = source.scratch_bytes;
    scratch_bytes_ = std::max(scratch_bytes_, source.scratch_bytes);
    for (std::int64_t g = 0; g < source.grid_count; ++g) {
      const DeviceGrid& grid = source.grids[g];
      const std::string where = fmt::format("{} in {}", grid.symbol, image_.name);
      FunctionHandle function = nullptr;
      context_->check(context_->api().ModuleGetFunction(&function, module_, grid.symbol),
                      "cuModuleGetFunction", where);
      if (grid.shared_bytes > kSharedWithoutAsking)
        context_->check(context_->api().FuncSetAttribute(function, kFunctionMaxDynamicSharedBytes,
                                                         static_cast<int>(grid.shared_bytes)),
                        "cuFuncSetAttribute", where);
      // Else the driver may load it at its first launch, which can wait for the whole device: in
      // the middle of a collective a deadlock, in a capture an error.
      if (context_->api().FuncLoad)
        context_->check(context_->api().FuncLoad(function), "cuFuncLoad", where);
      kernel.functions.push_back(function);
    }
  }
}

LoadedModule::~LoadedModule() {
  if (const Bind bind(*context_, std::nothrow); bind) context_->api().ModuleUnload(module_);
}

}  // namespace riffle::runtime::cuda
