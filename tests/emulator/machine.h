// A device to run PTX on in tests: memory, a module, launches.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/execute/run_kernel.h"
#include "emulator/memory/device_memory.h"
#include "emulator/ptx/module.h"

namespace emulator::testing {

class Machine {
 public:
  explicit Machine(std::string_view ptx) : module_(ptx::parse(ptx)) {
    options.workers = 1;
    for (const ptx::Variable& v : module_.variables) {
      const auto allocation = memory.allocate(v.bytes, "variable " + v.name);
      if (!v.initial.empty()) {
        std::memcpy(allocation->data, v.initial.data(), v.bytes);
        std::memset(allocation->shadow, 1, v.bytes);
      }
      variables_[v.name] = allocation->begin;
    }
  }

  /// Device copy of the values; its address.
  template <class T>
  std::uint64_t upload(const std::vector<T>& values) {
    const auto allocation = memory.allocate(values.size() * sizeof(T), "test");
    std::memcpy(allocation->data, values.data(), values.size() * sizeof(T));
    std::memset(allocation->shadow, 1, values.size() * sizeof(T));
    return allocation->begin;
  }
  std::uint64_t allocate(std::size_t bytes) { return memory.allocate(bytes, "test")->begin; }
  template <class T>
  std::vector<T> download(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory.resolve(address, count * sizeof(T), "read")->data,
                count * sizeof(T));
    return values;
  }

  /// Arguments must have the parameters' sizes.
  template <class... Arguments>
  LaunchStatistics launch(Dim3 grid, Dim3 block, Arguments... arguments) {
    return launch_shared(grid, block, 0, arguments...);
  }
  template <class... Arguments>
  LaunchStatistics launch_shared(Dim3 grid, Dim3 block, std::uint32_t dynamic_shared,
                                 Arguments... arguments) {
    const ptx::KernelInfo& info = module_.kernels.at(kernel);
    std::vector<std::byte> block_bytes(info.parameter_bytes);
    std::size_t i = 0;
    (put(block_bytes, info, i, arguments), ...);
    EXPECT_EQ(i, info.parameters.size());
    Launch launch;
    launch.module = &module_;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = dynamic_shared;
    launch.parameters = block_bytes;
    launch.variables = &variables_;
    return run_kernel(launch, memory, options, footprint);
  }

  const ptx::Module& module() const { return module_; }
  std::uint64_t variable(const std::string& name) const { return variables_.at(name); }

  DeviceMemory memory{"device 0", std::uint64_t{1} << 30};
  ExecuteOptions options;
  Footprint footprint;
  std::size_t kernel = 0;

 private:
  template <class T>
  void put(std::vector<std::byte>& bytes, const ptx::KernelInfo& info, std::size_t& i,
           const T& value) {
    const ptx::Parameter& p = info.parameters.at(i++);
    ASSERT_EQ(p.bytes, sizeof(T)) << "parameter " << i - 1;
    std::memcpy(bytes.data() + p.offset, &value, sizeof(T));
  }

  ptx::Module module_;
  std::map<std::string, std::uint64_t> variables_;
};

/// The text of the fault, or of none.
template <class F>
std::string fault_text(F&& run, FaultKind expected) {
  try {
    run();
  } catch (const Fault& f) {
    EXPECT_EQ(name(f.kind()), std::string(name(expected))) << f.what();
    return f.what();
  }
  ADD_FAILURE() << "no fault where " << name(expected) << " was expected";
  return "";
}

/// tests/emulator/data/NAME.
std::string read_data(const std::string& name);

}  // namespace emulator::testing
