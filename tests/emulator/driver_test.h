// Tests of the driver alone: kernels are C++ functions, so that what is tested is the driver and
// not the interpreter. A "module" is the line "8.0 sm_80 NAME:P NAME:P …", P parameters of eight
// bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/control.h"
#include "emulator/driver/api.h"
#include "emulator/driver/call.h"

namespace emulator {

using namespace abi;  // NOLINT: the driver's names are what these tests are about

#define EXPECT_CU(call) EXPECT_EQ(call, CUDA_SUCCESS) << report_text()
#define ASSERT_CU(call) ASSERT_EQ(call, CUDA_SUCCESS) << report_text()

inline std::string report_text() {
  std::string text(riffle_emulator_report(nullptr, 0), '\0');
  riffle_emulator_report(text.data(), text.size() + 1);
  return text;
}

/// A kernel: reads and writes through the launch's memory.
using KernelBody = std::function<void(LaunchMemory&, const std::uint64_t* parameters)>;

inline std::map<std::string, KernelBody>& kernel_bodies() {
  static auto* bodies = new std::map<std::string, KernelBody>;
  return *bodies;
}

inline ptx::SyntaxError syntax_error(const std::string& what) { return {1, what}; }

inline ptx::Module parse_line(std::string_view text) {
  std::istringstream words{std::string(text)};
  ptx::Module module;
  char dot = 0;
  if (!(words >> module.version_major >> dot >> module.version_minor >> module.target)) {
    throw syntax_error("expected a version");
  }
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) throw syntax_error("expected NAME:P, found " + word);
    if (word.substr(0, colon) == "variable") {
      module.variables.push_back({"table", std::stoull(word.substr(colon + 1)), 4, {}});
      continue;
    }
    ptx::KernelInfo info;
    info.name = word.substr(0, colon);
    for (int i = 0; i < std::stoi(word.substr(colon + 1)); ++i) {
      info.parameters.push_back({8, 8, info.parameter_bytes});
      info.parameter_bytes += 8;
    }
    info.registers = 32;
    module.kernels.push_back(info);
    module.bodies.push_back(nullptr);
  }
  return module;
}

inline LaunchStatistics run_body(const Launch& launch, DeviceMemory& memory,
                                 const ExecuteOptions& options, Footprint& footprint) {
  LaunchMemory view(memory);
  std::vector<std::uint64_t> parameters(launch.parameters.size() / 8 + 1);
  std::memcpy(parameters.data(), launch.parameters.data(), launch.parameters.size());
  const std::string& name = launch.module->kernels[launch.kernel].name;
  try {
    kernel_bodies().at(name)(view, parameters.data());
  } catch (...) {
    footprint = view.footprint();
    throw;
  }
  footprint = view.footprint();
  return {1000};
}

/// Words of memory, as kernels see them.
inline int load(LaunchMemory& memory, std::uint64_t address) {
  int value = 0;
  std::memcpy(&value, memory.read(address, 4, 4), 4);
  return value;
}
inline void store(LaunchMemory& memory, std::uint64_t address, int value) {
  std::memcpy(memory.write(address, 4, 4), &value, 4);
}

class DriverTest : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 256, kBytes = 4 * kCount;

  void SetUp() override { start(); }
  void TearDown() override { riffle_emulator_reset(); }

  /// Everything anew, with these settings.
  void start(const std::map<std::string, std::string>& settings = {}) {
    riffle_emulator_reset();
    for (const auto& [name, value] : settings) {
      ASSERT_EQ(riffle_emulator_set(name.c_str(), value.c_str()), 1) << name;
    }
    driver().engine = {parse_line, run_body};
    // fill(p, value): p[i] = value. add(out, in): out[i] = in[i] + 1. peek(p): reads p.
    kernel_bodies() = {
        {"fill",
         [](LaunchMemory& m, const std::uint64_t* p) {
           for (std::size_t i = 0; i < kCount; ++i) store(m, p[0] + 4 * i, static_cast<int>(p[1]));
         }},
        {"add",
         [](LaunchMemory& m, const std::uint64_t* p) {
           for (std::size_t i = 0; i < kCount; ++i)
             store(m, p[0] + 4 * i, load(m, p[1] + 4 * i) + 1);
         }},
        {"peek",
         [](LaunchMemory& m, const std::uint64_t* p) {
           for (std::size_t i = 0; i < kCount; ++i) load(m, p[0] + 4 * i);
         }},
    };
    ASSERT_CU(cuInit(0));
    ASSERT_CU(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CU(cuCtxSetCurrent(context_));
    ASSERT_CU(cuModuleLoadData(&module_, "8.0 sm_80 fill:2 add:2 peek:1"));
  }

  CUfunction function(const char* name) {
    CUfunction handle = nullptr;
    EXPECT_CU(cuModuleGetFunction(&handle, module_, name));
    return handle;
  }
  CUresult launch(const char* name, CUstream stream, std::uint64_t a, std::uint64_t b = 0) {
    void* parameters[] = {&a, &b};
    return cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  }
  CUdeviceptr allocate(std::size_t bytes = kBytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(cuMemAlloc_v2(&address, bytes));
    return address;
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream handle = nullptr;
    EXPECT_CU(cuStreamCreate(&handle, flags));
    return handle;
  }
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent handle = nullptr;
    EXPECT_CU(cuEventCreate(&handle, flags));
    return handle;
  }
  std::vector<int> download(CUdeviceptr address) {
    std::vector<int> values(kCount);
    EXPECT_CU(cuMemcpyDtoH_v2(values.data(), address, kBytes));
    return values;
  }
  /// One line of the report has all of these words.
  static testing::AssertionResult reported(const std::vector<std::string>& words) {
    std::istringstream lines(report_text());
    for (std::string line; std::getline(lines, line);) {
      if (std::all_of(words.begin(), words.end(),
                      [&](const std::string& w) { return line.find(w) != line.npos; })) {
        return testing::AssertionSuccess();
      }
    }
    return testing::AssertionFailure() << "not in the report:\n" << report_text();
  }
  static testing::AssertionResult clean() {
    if (riffle_emulator_report_count("") == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure() << report_text();
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

}  // namespace emulator
