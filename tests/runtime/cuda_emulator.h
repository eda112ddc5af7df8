// The emulator's controls (emulator/control.h) for tests of the CUDA device, taken from the very
// library that the device loads.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "emulator/control.h"
#include "runtime/cuda/driver.h"

namespace riffle::runtime::test {

/// A machine as after power-on. Make it before devices, destroy it after them.
class Emulator {
 public:
  Emulator() : library_(::dlopen(cuda::find_emulator().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << ::dlerror();
    reset();
  }
  ~Emulator() { reset(); }
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  void reset() const { function<void()>("riffle_emulator_reset")(); }
  void set(const char* name, const std::string& value) const {
    EXPECT_EQ(function<int(const char*, const char*)>("riffle_emulator_set")(name, value.c_str()),
              1)
        << name << " " << value;
  }
  void deinitialize() const { function<void()>("riffle_emulator_deinitialize")(); }
  void lose_device(int device, int code) const {
    EXPECT_EQ(function<int(int, int)>("riffle_emulator_lose_device")(device, code), 1);
  }
  std::uint64_t live(const char* kind) const {
    return function<std::uint64_t(const char*)>("riffle_emulator_live")(kind);
  }
  /// "2 streams, 1 events"; empty when nothing is left.
  std::string leaks() const {
    std::string text;
    for (const char* kind : {"contexts", "streams", "events", "allocations", "pinned", "modules",
                             "graphs", "graph_execs", "pools"})
      if (const std::uint64_t count = live(kind); count > 0)
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
    return text;
  }
  /// Faults, races and misuse so far; empty when there were none.
  std::string problems() const {
    if (function<std::size_t(const char*)>("riffle_emulator_report_count")("") == 0) return "";
    const auto report = function<std::size_t(char*, std::size_t)>("riffle_emulator_report");
    std::string text(report(nullptr, 0) + 1, '\0');
    text.resize(report(text.data(), text.size()));
    return text;
  }
  riffle_emulator_statistics statistics() const {
    riffle_emulator_statistics result{};
    function<void(riffle_emulator_statistics*)>("riffle_emulator_get_statistics")(&result);
    return result;
  }
  void forget() const { function<void()>("riffle_emulator_report_clear")(); }

 private:
  template <typename Signature>
  Signature* function(const char* name) const {
    auto* found = reinterpret_cast<Signature*>(::dlsym(library_, name));
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  void* library_;
};

}  // namespace riffle::runtime::test
