// Modules: PTX text to kernels and variables, with the log that a compiler would write.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "emulator/driver/call.h"

namespace emulator::abi {
namespace {

/// The newest PTX that a driver of this version knows (the PTX manual's release history).
int newest_ptx(int driver_version) {
  struct Row {
    int driver, ptx;
  };
  constexpr Row kRows[] = {{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
                           {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80},
                           {11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74},
                           {11030, 73}, {11020, 72}, {11010, 71}, {11000, 70}};
  for (const Row& row : kRows) {
    if (driver_version >= row.driver) return row.ptx;
  }
  return 65;
}

struct Logs {
  char* buffer[2] = {nullptr, nullptr};  ///< information, errors
  std::size_t capacity[2] = {0, 0};
  void** size_place[2] = {nullptr, nullptr};

  /// Truncated as the driver does, always ended; the size comes back in the option's own value.
  void write(int which, const std::string& text) const {
    std::size_t written = 0;
    if (buffer[which] && capacity[which] > 0) {
      written = std::min(text.size(), capacity[which] - 1);
      std::memcpy(buffer[which], text.data(), written);
      buffer[which][written] = '\0';
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface carries it as a number
    if (size_place[which]) *size_place[which] = reinterpret_cast<void*>(written);
  }
};

Logs read_options(const Call& c, unsigned count, const CUjit_option* options, void** values) {
  Logs logs;
  for (unsigned i = 0; i < count; ++i) {
    c.require(options, "options");
    c.require(values, "option values");
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        logs.buffer[options[i] == CU_JIT_ERROR_LOG_BUFFER] = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: {
        const int which = options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
        // 32 bits count: the value is an unsigned int in a pointer's place.
        logs.capacity[which] = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(values[i]));
        logs.size_place[which] = &values[i];
        break;
      }
      default:
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) {
          c.misuse(CUDA_ERROR_INVALID_VALUE, "no such option");
        }
        break;  // optimisation level, cache and the like change nothing here
    }
  }
  return logs;
}

/// "sm_90a" against the device: the number may not be greater, and "a" wants it exactly.
bool runs_on(const std::string& target, int sm) {
  int number = 0;
  const char* begin = target.data() + std::min<std::size_t>(target.size(), 3);
  const auto [end, error] = std::from_chars(begin, target.data() + target.size(), number);
  if (error != std::errc{}) return false;
  const bool exact = end != target.data() + target.size() && *end == 'a';
  return exact ? number == sm : number <= sm;
}

[[noreturn]] void fail(const Logs& logs, CUresult code, const std::string& text) {
  logs.write(0, "");
  logs.write(1, "ptxas application ptx input, " + text + "\n");
  throw ApiError{code};
}

CUresult load(const char* name, CUmodule* handle, const void* image, unsigned count,
              const CUjit_option* options, void** values) {
  return call(name, Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    c.require(image, "the image");
    c.forbid_in_capture();
    const auto context = c.context();
    const Logs logs = read_options(c, count, options, values);
    const char* text = static_cast<const char*>(image);
    if (std::strncmp(text, "\177ELF", 4) == 0 || std::strncmp(text, "\x50\xed\x55\xba", 4) == 0) {
      logs.write(1, "only PTX is emulated, not machine code\n");
      c.misuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "only PTX is emulated, not machine code");
    }
    const auto module = std::make_shared<LoadedModule>();
    module->context = context;
    const int device_sm = context->device->architecture.sm;
    const int newest = newest_ptx(c.d.settings.driver_version);
    const auto parse = c.d.engine.parse;
    c.lock.unlock();
    try {
      module->ptx = parse(text);
    } catch (const ptx::SyntaxError& error) {
      c.lock.lock();
      fail(logs, CUDA_ERROR_INVALID_PTX, error.what());
    } catch (...) {
      c.lock.lock();
      throw;
    }
    c.lock.lock();
    const ptx::Module& ptx = module->ptx;
    if (ptx.version_major * 10 + ptx.version_minor > newest) {
      fail(logs, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
           "fatal: Unsupported .version " + std::to_string(ptx.version_major) + "." +
               std::to_string(ptx.version_minor) + "; current version is '" +
               std::to_string(newest / 10) + "." + std::to_string(newest % 10) + "'");
    }
    if (!runs_on(ptx.target, device_sm)) {
      fail(logs, CUDA_ERROR_INVALID_PTX,
           "fatal: SM version specified by .target (" + ptx.target +
               ") is higher than, or not the same architecture as, the device's sm_" +
               std::to_string(device_sm));
    }
    Driver& d = c.d;
    Device& device = *context->device;
    for (const ptx::Variable& variable : ptx.variables) {
      const auto allocation = device.memory->allocate(std::max<std::uint64_t>(variable.bytes, 1),
                                                      "variable " + variable.name);
      if (!allocation) {
        for (const auto& [other, address] : module->variables) {
          d.owners.erase(address);
          device.memory->release(address, name);
        }
        throw ApiError{CUDA_ERROR_OUT_OF_MEMORY};
      }
      if (!variable.initial.empty()) {
        std::memcpy(allocation->data, variable.initial.data(), variable.initial.size());
      }
      // PTX: variables without a value are zero.
      std::memset(allocation->shadow, 1, allocation->bytes);
      module->variables[variable.name] = allocation->begin;
      d.owners[allocation->begin] = {context->id, device.ordinal, nullptr, false, true};
    }
    std::string warnings;
    for (const std::string& warning : ptx.warnings) warnings += warning + "\n";
    logs.write(0, warnings);
    logs.write(1, "");
    for (const std::string& warning : ptx.warnings) d.report.add("note", "PTX: " + warning);
    *handle = module->handle = d.modules.add(module);
  });
}

}  // namespace

EMULATOR_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                            CUjit_option* options, void** values) {
  return load("cuModuleLoadDataEx", module, image, count, options, values);
}

EMULATOR_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load("cuModuleLoadData", module, image, 0, nullptr, nullptr);
}

EMULATOR_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  return call("cuModuleUnload", Needs::context, [&](Call& c) {
    const auto module = c.module(handle);
    c.forbid_in_capture();
    if (module->unfinished > 0) {
      c.d.report.add("misuse", "cuModuleUnload: " + std::to_string(module->unfinished) +
                                   " launches of the module's kernels may not have run");
      const Operations last = tails(c.d, *module->context);
      wait_for(c.d, c.lock, last);
    }
    if (module->unloaded) return;
    module->unloaded = true;
    c.d.modules.erase(handle);
    std::vector<CUfunction> functions;
    for (const auto& [key, function] : c.d.functions.all()) {
      if (function->module.lock() == module) functions.push_back(key);
    }
    for (const CUfunction key : functions) c.d.functions.erase(key);
    for (const auto& [name, address] : module->variables) {
      const auto allocation = module->context->device->memory->find(address);
      if (allocation) c.d.history.forget({allocation->begin, allocation->end()});
      c.d.owners.erase(address);
      module->context->device->memory->release(address, "cuModuleUnload");
    }
  });
}

EMULATOR_EXPORT CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module_handle,
                                             const char* name) {
  return call("cuModuleGetFunction", Needs::context, [&](Call& c) {
    c.require(handle, "the result's place");
    c.require(name, "the name");
    const auto module = c.module(module_handle);
    const auto& kernels = module->ptx.kernels;
    const auto found =
        std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == name; });
    if (found == kernels.end()) {
      c.misuse(CUDA_ERROR_NOT_FOUND, std::string("no kernel ") + name + " in the module");
    }
    const auto index = static_cast<std::size_t>(found - kernels.begin());
    for (const auto& [key, function] : c.d.functions.all()) {
      if (function->module.lock() == module && function->kernel == index) {
        *handle = key;
        return;
      }
    }
    const auto function = std::make_shared<Function>();
    function->module = module;
    function->kernel = index;
    function->max_dynamic_shared = 48 * 1024 - static_cast<int>(found->static_shared_bytes);
    *handle = function->handle = c.d.functions.add(function);
  });
}

EMULATOR_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes,
                                              CUmodule handle, const char* name) {
  return call("cuModuleGetGlobal", Needs::context, [&](Call& c) {
    c.require(name, "the name");
    const auto module = c.module(handle);
    const auto found = module->variables.find(name);
    if (found == module->variables.end()) {
      c.misuse(CUDA_ERROR_NOT_FOUND, std::string("no variable ") + name + " in the module");
    }
    if (address) *address = found->second;
    for (const auto& variable : module->ptx.variables) {
      if (bytes && variable.name == name) *bytes = variable.bytes;
    }
  });
}

EMULATOR_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return call("cuModuleGetLoadingMode", Needs::initialised, [&](Call& c) {
    c.require(mode, "the result's place");
    *mode = CU_MODULE_EAGER_LOADING;
  });
}

EMULATOR_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  return call("cuFuncGetModule", Needs::context, [&](Call& c) {
    c.require(module, "the result's place");
    *module = c.function(handle)->module.lock()->handle;
  });
}

}  // namespace emulator::abi
