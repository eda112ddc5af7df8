#include "tests/emulator/instructions.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/emulator/machine.h"

namespace emulator::testing {
namespace {

int width_of(const std::string& type) {
  if (type == "pred") return 32;
  if (type == "f16x2" || type == "bf16x2") return 32;
  const std::size_t digits = type.find_first_of("123456789");
  return std::atoi(type.c_str() + digits);
}

/// Assembled by ptxas where there is one: what it rejects, a driver would.
void assemble(const std::string& text) {
  const char* const ptxas = "/usr/local/cuda/bin/ptxas";
  if (!std::filesystem::exists(ptxas)) return;
  const std::string stem = ::testing::TempDir() + "instructions" + std::to_string(::getpid());
  std::ofstream(stem + ".ptx") << text;
  const std::string command =
      std::string(ptxas) + " -arch=sm_90 -O0 -o /dev/null " + stem + ".ptx > " + stem + ".log 2>&1";
  if (std::system(command.c_str()) != 0) {
    std::stringstream log;
    log << std::ifstream(stem + ".log").rdbuf();
    ADD_FAILURE() << "ptxas: " << log.str();
  }
  std::filesystem::remove(stem + ".ptx");
  std::filesystem::remove(stem + ".log");
}

}  // namespace

std::string module_of(const std::vector<Case>& cases) {
  std::ostringstream out;
  out << ".version 7.8\n.target sm_90\n.address_size 64\n";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::istringstream types(cases[i].types);
    std::vector<std::string> type;
    for (std::string t; types >> t;) type.push_back(t);
    out << ".visible .entry k" << i << "(.param .u64 in, .param .u64 out, .param .u32 lanes)\n{\n"
        << ".reg .pred %p, %q;\n.reg .u32 %t, %n, %w;\n.reg .u64 %in, %out, %o;\n";
    const char names[] = "dabc";
    for (std::size_t k = 0; k < type.size(); ++k) {
      const int width = width_of(type[k]);
      out << ".reg ."
          << (type[k] == "pred" ? "pred" : "b" + std::to_string(width < 16 ? 16 : width)) << " %"
          << names[k] << ";\n";
    }
    out << "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u32 %n, [lanes];\n"
        << "mov.u32 %t, %tid.x;\n";
    for (std::size_t k = 1; k < type.size(); ++k)
      out << "ld.global.b" << width_of(type[k]) << " %" << names[k] << ", [%in+" << (k - 1) * 8
          << "];\n";
    // Lanes beyond `lanes` leave; the rest store what they got.
    out << "shr.u32 %n, %n, %t;\nand.b32 %n, %n, 1;\nsetp.eq.u32 %q, %n, 0;\n@%q bra END;\n"
        << cases[i].text << "\n"
        << "mul.wide.u32 %o, %t, 8;\nadd.s64 %out, %out, %o;\n";
    if (type[0] == "pred")
      out << "selp.u32 %w, 1, 0, %d;\nst.global.u32 [%out], %w;\n";
    else
      out << "st.global.b" << width_of(type[0]) << " [%out], %d;\n";
    out << "END: ret;\n}\n";
  }
  return out.str();
}

void run_cases(const std::vector<Case>& cases) {
  const std::string text = module_of(cases);
  assemble(text);
  Machine m(text);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    m.kernel = i;
    for (const std::uint32_t lanes : {~0u, 0x80000401u}) {
      std::vector<std::uint64_t> inputs = c.inputs;
      inputs.resize(3);
      const auto in = m.upload(inputs), out = m.upload(std::vector<std::uint64_t>(32, 0));
      try {
        m.launch({1}, {32}, in, out, lanes);
      } catch (const Fault& f) {
        ADD_FAILURE() << c.text << ": " << f.what();
        continue;
      }
      const auto results = m.download<std::uint64_t>(out, 32);
      for (int l = 0; l < 32; ++l) {
        const std::uint64_t expected = (lanes >> l & 1) ? c.expected : 0;
        if (results[l] == expected) continue;
        std::ostringstream message;
        message << std::hex << c.text;
        for (const std::uint64_t v : c.inputs) message << " 0x" << v;
        message << " gives 0x" << results[l] << ", not 0x" << expected << " in lane " << std::dec
                << l << " of 0x" << std::hex << lanes;
        ADD_FAILURE() << message.str();
        break;
      }
    }
  }
}

}  // namespace emulator::testing
